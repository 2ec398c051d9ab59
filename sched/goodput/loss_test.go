// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package goodput

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

func drawProfile(t *rapid.T) *Profile {
	var p Profile
	for range rapid.IntRange(1, 12).Draw(t, "samples") {
		gpus := rapid.IntRange(1, 16).Draw(t, "gpus")
		grad := math.Pow(10, rapid.Float64Range(-4, 2).Draw(t, "log grad"))
		sync := rapid.SampledFrom([]float64{0, 0.001, 0.3, 1, 20}).Draw(t, "sync/grad") * grad
		s := Sample{
			Nodes: rapid.IntRange(1, min(4, gpus)).Draw(t, "nodes"), GPUs: gpus,
			Local: rapid.SampledFrom([]int{1, 2, 8, 100, 5000}).Draw(t, "local"),
			Step:  grad + sync, Sync: sync,
		}
		if err := p.Add(s); err != nil {
			t.Fatal(err)
		}
	}
	return &p
}

func drawVector(t *rapid.T) vector {
	p := drawParams(t)
	v := vector{p.AlphaGrad, p.BetaGrad, p.AlphaLocal, 0, p.AlphaNode, 0, p.Gamma}
	for _, first := range []int{alphaLocal, alphaNode} {
		v[first+1] = within(first+1, v[first]*rapid.Float64Range(0, 2).Draw(t, "beta/alpha"))
	}
	return v
}

// lossOf is the loss written down from its definition; the search works on surface.
func lossOf(p *Profile, q Params) float64 {
	grads, steps := 0.0, 0.0
	for _, s := range p.samples {
		g := math.Log(q.Grad(float64(s.Local)) / s.Grad())
		t := math.Log(q.Step(Shape{Nodes: s.Nodes, GPUs: s.GPUs}, float64(s.Local)) / s.Step)
		grads += g * g
		steps += t * t
	}
	n := float64(max(1, len(p.samples)))
	overlap, node, local := q.Gamma-MinGamma, q.BetaNode/q.AlphaNode, q.BetaLocal/q.AlphaLocal
	return math.Sqrt(grads/n) + math.Sqrt(steps/n) +
		gammaWeight*overlap*overlap + ratioWeight*(node*node+local*local)
}

// What the search sees is the loss, but for the blunt tips.
func TestSurfaceIsLoss(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, v := drawProfile(t), drawVector(t)
		var s surface
		newProblem(p).measure(&v, &s)
		if want := lossOf(p, v.params()); s.loss < want-1e-9 || s.loss > want+2*blunt+1e-9 {
			t.Errorf("surface %.12g, loss %.12g", s.loss, want)
		}
	})
}

// slopes returns the derivatives of the loss.
func (s *surface) slopes() (sum vector) {
	for _, n := range s.norms {
		for i := range dims {
			sum[i] += n.slope[i] / n.size
		}
	}
	for _, r := range s.pulls {
		for i, at := range r.at {
			sum[at] += 2 * r.value * r.slope[i]
		}
	}
	return sum
}

// The derivatives written by hand agree with differences.
func TestSurfaceSlopes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, v := drawProfile(t), drawVector(t)
		q := newProblem(p)
		var here, up, down surface
		q.measure(&v, &here)
		if here.norms[0].size < 1e-2 || here.norms[1].size < 1e-2 {
			t.Skip("too near the tip of a norm for differences")
		}
		slopes := here.slopes()
		for i := range dims {
			h := 1e-6 * max(v[i], 1e-3)
			above, below := v, v
			above[i] += h
			below[i] -= h
			q.measure(&above, &up)
			q.measure(&below, &down)
			want := (up.loss - down.loss) / (2 * h)
			if scale := here.loss / max(v[i], 1e-3); math.Abs(slopes[i]-want) > 1e-5*(math.Abs(want)+scale) {
				t.Errorf("derivative %d at %v: %g, differences give %g", i, v, slopes[i], want)
			}
		}
	})
}

// The tangent has the value and the slopes of the loss where it touches it, and
// its own derivatives are right elsewhere too.
func TestTangent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, v := drawProfile(t), drawVector(t)
		q := newProblem(p)
		var here surface
		q.measure(&v, &here)
		free := [dims]bool{}
		tan := newTangent(&here, v, &free, 0.1)
		if got := tan.value(&vector{}); math.Abs(got-here.loss) > 1e-9*here.loss {
			t.Errorf("value %g, loss %g", got, here.loss)
		}
		var move vector
		for i := range dims {
			move[i] = v[i] * rapid.Float64Range(-0.5, 0.5).Draw(t, "move")
		}
		slope, _ := tan.derivatives(&move)
		for i := range dims {
			h := 1e-6 * max(v[i], 1e-3)
			above, below := move, move
			above[i] += h
			below[i] -= h
			want := (tan.value(&above) - tan.value(&below)) / (2 * h)
			if scale := tan.value(&move) / max(v[i], 1e-3); math.Abs(slope[i]-want) > 1e-5*(math.Abs(want)+scale) {
				t.Errorf("derivative %d: %g, differences give %g", i, slope[i], want)
			}
		}
	})
}

// The lowest point of the tangent is within the bounds, and no point around it
// is lower.
func TestTangentLowestPoint(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, v := drawProfile(t), drawVector(t)
		q := newProblem(p)
		for i := range dims {
			if q.pinned[i] {
				v[i] = q.pins[i]
			}
		}
		var here surface
		q.measure(&v, &here)
		tan := newTangent(&here, v, &q.pinned, 0.01)
		move, gain := tan.lowestPoint()
		if gain < 0 {
			t.Fatalf("climbs by %g", -gain)
		}
		value := tan.value(&move)
		for i := range dims {
			if x := v[i] + move[i]; x < lowest[i]-1e-12*v[i] || x > highest[i]+1e-12*v[i] || q.pinned[i] && move[i] != 0 {
				t.Errorf("parameter %d goes to %g", i, x)
			}
			if q.pinned[i] {
				continue
			}
			for _, h := range []float64{1e-3, -1e-3} {
				other := move
				other[i] += h * max(v[i], 1e-2)
				other[i] = min(max(other[i], lowest[i]-v[i]), highest[i]-v[i])
				if got := tan.value(&other); got < value-0.01*gain-1e-6 {
					t.Errorf("%g is not lowest: %g at %g further in parameter %d", value, got, h, i)
				}
			}
		}
	})
}

func TestLossByHand(t *testing.T) {
	p := profileOf(t,
		Sample{Nodes: 2, GPUs: 4, Local: 10, Step: 0.5 * math.E, Sync: 0.5*math.E - 0.3},
		Sample{Nodes: 1, GPUs: 1, Local: 10, Step: 0.3, Sync: 0},
	)
	// handy predicts 0.3 and 0.5 for the first, 0.3 and 0.3 for the second.
	want := math.Sqrt(0.5) + 1e-3 + 1e-2*(math.Pow(0.01/0.05, 2)+math.Pow(0.01/0.38, 2))
	if got := lossOf(p, handy); !near(got, want) {
		t.Errorf("got %g, want %g", got, want)
	}
}
