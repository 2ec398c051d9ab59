// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package goodput

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// measured returns the sample that a model predicts, off by the given factors.
func measured(p Params, s Shape, local int, offGrad, offStep float64) Sample {
	grad := p.Grad(float64(local)) * offGrad
	step := max(grad, p.Step(s, float64(local))*offStep)
	return Sample{Nodes: s.Nodes, GPUs: s.GPUs, Local: local, Step: step, Sync: step - grad, Count: 1}
}

// classifier is near what Pollux' image classifier takes on T4 GPUs.
var classifier = Params{
	AlphaGrad: 0.064, BetaGrad: 0.0045, AlphaLocal: 0.076, BetaLocal: 0.0009,
	AlphaNode: 0.32, BetaNode: 0.006, Gamma: 2.5,
}

// noisySamples returns n different samples of a model, each time off by about
// the given share.
func noisySamples(p Params, n int, off float64, seed uint64) []Sample {
	r := rand.New(rand.NewPCG(seed, 1))
	seen := map[[3]int]bool{}
	var samples []Sample
	for len(samples) < n {
		gpus := 1 + r.IntN(64)
		s := Shape{GPUs: gpus, Nodes: (gpus + 3) / 4}
		if gpus <= 8 {
			s.Nodes = 1 + r.IntN(min(2, gpus))
		}
		local := 20 + r.IntN(181)
		if key := [3]int{s.Nodes, s.GPUs, local}; !seen[key] {
			seen[key] = true
			samples = append(samples, measured(p, s, local, math.Exp(off*r.NormFloat64()), math.Exp(off*r.NormFloat64())))
		}
	}
	return samples
}

func TestFitPriors(t *testing.T) {
	one := Sample{Nodes: 1, GPUs: 1, Local: 10, Step: 2, Sync: 0}
	pair := Sample{Nodes: 1, GPUs: 2, Local: 10, Step: 3, Sync: 1}
	four := Sample{Nodes: 1, GPUs: 4, Local: 10, Step: 3.02, Sync: 1.02}
	far := Sample{Nodes: 2, GPUs: 2, Local: 10, Step: 5, Sync: 3}
	for _, tc := range []struct {
		name    string
		samples []Sample
		want    Params
	}{
		// One batch size: half of the gradient time is constant. Exchanges are
		// unknown, hence free; across nodes by a tenth more than free.
		{"one GPU", []Sample{one},
			Params{AlphaGrad: 1, BetaGrad: 0.1, AlphaLocal: 1e-8, BetaLocal: 1e-8, AlphaNode: 1.1e-8, BetaNode: 1.1e-8, Gamma: 1}},
		// Not more than two GPUs: no growth.
		{"two GPUs", []Sample{one, pair},
			Params{AlphaGrad: 1, BetaGrad: 0.1, AlphaLocal: 1, BetaLocal: 1e-8, AlphaNode: 1.1, BetaNode: 1.1e-8, Gamma: 1}},
		// 1 s for two GPUs, 1.02 s for four. A little overlap is another way to
		// say the same.
		{"four GPUs", []Sample{one, pair, four},
			Params{AlphaGrad: 1, BetaGrad: 0.1, AlphaLocal: 1, BetaLocal: 0.01, AlphaNode: 1.1, BetaNode: 0.011, Gamma: 1}},
		// Seen across nodes but not within one.
		{"two nodes", []Sample{one, far},
			Params{AlphaGrad: 1, BetaGrad: 0.1, AlphaLocal: 1e-8, BetaLocal: 1e-8, AlphaNode: 3, BetaNode: 1e-8, Gamma: 1}},
		{"both", []Sample{one, pair, far},
			Params{AlphaGrad: 1, BetaGrad: 0.1, AlphaLocal: 1, BetaLocal: 1e-8, AlphaNode: 3, BetaNode: 1e-8, Gamma: 1}},
		// A second batch size: a straight line.
		{"two batch sizes", []Sample{one, {Nodes: 1, GPUs: 1, Local: 30, Step: 3, Sync: 0}},
			Params{AlphaGrad: 1.5, BetaGrad: 0.05, AlphaLocal: 1e-8, BetaLocal: 1e-8, AlphaNode: 1.1e-8, BetaNode: 1.1e-8, Gamma: 1}},
	} {
		got, err := new(Fitter).Fit(profileOf(t, tc.samples...))
		if err != nil {
			t.Errorf("%s: %v", tc.name, err)
			continue
		}
		close := cmp.Comparer(func(a, b float64) bool { return math.Abs(a-b) <= 0.01*max(math.Abs(a), math.Abs(b)) })
		if diff := cmp.Diff(tc.want, got, close); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.name, diff)
		}
	}
}

func TestFitOfNothing(t *testing.T) {
	if _, err := new(Fitter).Fit(&Profile{}); !errors.Is(err, ErrNoSamples) {
		t.Errorf("got error %v", err)
	}
}

// From exact times the model itself comes back, unless it overlaps so much that
// the charge for that is worth saving.
func TestFitFindsTheTruth(t *testing.T) {
	for _, truth := range []Params{
		classifier,
		{AlphaGrad: 0.007, BetaGrad: 6e-7, AlphaLocal: 0.0058, BetaLocal: 0.00025, AlphaNode: 0.0178, BetaNode: 0.00056, Gamma: 1.26},
		{AlphaGrad: 0.3, BetaGrad: 0.023, AlphaLocal: 0.11, BetaLocal: 0.0045, AlphaNode: 5, BetaNode: 0.01, Gamma: 2},
		{AlphaGrad: 20, BetaGrad: 3, AlphaLocal: 50, BetaLocal: 1, AlphaNode: 90, BetaNode: 3, Gamma: 1},
	} {
		got, err := new(Fitter).Fit(profileOf(t, noisySamples(truth, 60, 0, 1)...))
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range []Shape{{1, 1, false}, {1, 2, false}, {1, 8, false}, {2, 2, false}, {16, 64, false}} {
			for _, local := range []float64{20, 200} {
				if g, w := got.Step(s, local), truth.Step(s, local); math.Abs(g/w-1) > 5e-3 {
					t.Errorf("%+v: step of %v at %g takes %g, want %g", truth, s, local, g, w)
				}
			}
		}
		if math.Abs(got.Gamma-truth.Gamma) > 0.02*truth.Gamma {
			t.Errorf("gamma %g, want %g", got.Gamma, truth.Gamma)
		}
	}
}

// checkFit fits a profile and checks all that must hold for any.
func checkFit(t interface {
	Helper()
	Errorf(string, ...any)
}, p *Profile) {
	t.Helper()
	got, err := new(Fitter).Fit(p)
	if p.Len() == 0 {
		if err == nil {
			t.Errorf("no error for an empty profile")
		}
		return
	}
	if err != nil {
		t.Errorf("fit: %v", err)
		return
	}
	if err := got.Validate(); err != nil {
		t.Errorf("fit: %v", err)
	}
	if loss := lossOf(p, got); math.IsNaN(loss) || math.IsInf(loss, 0) {
		t.Errorf("loss = %g with %+v", loss, got)
	}
	for _, local := range []float64{1, 100, 1e6} {
		last := 0.0
		for gpus := 1; gpus <= 64; gpus *= 2 {
			step := got.Step(Shape{Nodes: 1, GPUs: gpus}, local)
			if !(step > 0) || step < last*(1-1e-12) || math.IsInf(step, 1) {
				t.Errorf("step on %d GPUs takes %g, on half of them %g (%+v)", gpus, step, last, got)
			}
			last = step
		}
	}
}

func TestFitProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { checkFit(t, drawProfile(t)) })
}

// No parameters that happen to explain the profile are better than the fit.
func TestFitIsNoWorseThanTheTruth(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		truth := drawVector(t)
		off := rapid.SampledFrom([]float64{0, 0.02, 0.1}).Draw(t, "off")
		n := rapid.IntRange(8, 60).Draw(t, "samples")
		var p Profile
		for _, s := range noisySamples(truth.params(), n, off, rapid.Uint64().Draw(t, "seed")) {
			if err := p.Add(s); err != nil {
				t.Fatal(err)
			}
		}
		q := newProblem(&p)
		for i := range dims {
			if q.pinned[i] {
				truth[i] = q.pins[i]
			}
		}
		var f Fitter
		if _, err := f.Fit(&p); err != nil {
			t.Fatal(err)
		}
		if got, want := lossOf(&p, f.last.params()), lossOf(&p, truth.params()); got > 1.05*want+1e-3 {
			t.Errorf("loss %g, with the truth %g\nfound %v\ntruth %v", got, want, f.last, truth)
		}
	})
}

// Whatever a Fitter has been through, its loss is that of a first fit: for
// times a model can explain, and for any others.
func TestFitterForgetsHistory(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		samples := append(drawProfile(t).samples, drawProfile(t).samples...)
		if off := rapid.SampledFrom([]float64{0, 0.05, 0.3, 1}).Draw(t, "off"); off < 1 {
			n, seed := rapid.IntRange(memorable, 30).Draw(t, "samples"), rapid.Uint64().Draw(t, "seed")
			truth := drawVector(t)
			samples = noisySamples(truth.params(), n, off, seed)
		}
		var p Profile
		var warm, cold Fitter
		for _, s := range samples {
			if err := p.Add(s); err != nil {
				t.Fatal(err)
			}
			if p.Len() < memorable-1 {
				continue // no history yet
			}
			if _, err := warm.Fit(&p); err != nil {
				t.Fatal(err)
			}
		}
		if p.Len() < memorable {
			t.Skip("no history")
		}
		if _, err := cold.Fit(&p); err != nil {
			t.Fatal(err)
		}
		if got, want := lossOf(&p, warm.last.params()), lossOf(&p, cold.last.params()); got > 1.05*want+0.01 {
			t.Errorf("loss %g after a history, %g without", got, want)
		}
	})
}

// A Fitter that was led astray comes back: from exchanges so short that nothing
// tells them to grow, and from nonsense.
func TestFitterRecovers(t *testing.T) {
	p := profileOf(t, noisySamples(classifier, 60, 0.05, 1)...)
	var cold Fitter
	if _, err := cold.Fit(p); err != nil {
		t.Fatal(err)
	}
	want := lossOf(p, cold.last.params())
	for _, last := range []vector{
		{0.064, 0.0045, floor, floor, floor, floor, 10},
		{1e9, 1e9, 1e9, 1e9, 1e9, 1e9, 1},
		{floor, floor, floor, floor, floor, floor, 1},
	} {
		f := Fitter{last: last, warm: true}
		if _, err := f.Fit(p); err != nil {
			t.Fatal(err)
		}
		if got := lossOf(p, f.last.params()); got > 1.01*want {
			t.Errorf("from %v: loss %g, without history %g", last, got, want)
		}
	}
}

// A job that grows, as Pollux lets it: at every stage the predictions of a
// Fitter agree with those of a first fit.
func TestFitterPredictsLikeFit(t *testing.T) {
	for seed := range uint64(5) {
		var p Profile
		var f Fitter
		for i, s := range noisySamples(classifier, 60, 0.05, seed) {
			if err := p.Add(s); err != nil {
				t.Fatal(err)
			}
			warm, err := f.Fit(&p)
			if err != nil {
				t.Fatal(err)
			}
			cold, err := new(Fitter).Fit(&p)
			if err != nil {
				t.Fatal(err)
			}
			if i < 10 { // with few samples, different models fit equally well
				continue
			}
			for _, s := range p.samples {
				shape := Shape{Nodes: s.Nodes, GPUs: s.GPUs}
				a, b := warm.Step(shape, float64(s.Local)), cold.Step(shape, float64(s.Local))
				if math.Abs(a/b-1) > 0.02 {
					t.Errorf("seed %d, %d samples, %v: step %g, without history %g", seed, i+1, shape, a, b)
				}
			}
		}
	}
}

func FuzzFit(f *testing.F) {
	f.Add(uint8(1), uint8(1), uint16(1), 1.0, 0.0, uint8(4), uint8(2), uint16(64), 3.0, 1.0)
	f.Add(uint8(1), uint8(1), uint16(1), 1e9, 0.0, uint8(1), uint8(1), uint16(2), 1e-9, 0.0)
	f.Add(uint8(2), uint8(2), uint16(1), 1e-9, 0.0, uint8(64), uint8(16), uint16(1), 1e9, 1e9-2)
	f.Add(uint8(4), uint8(1), uint16(65535), 1.0, 1-1e-8, uint8(4), uint8(1), uint16(65535), 1.0, 0.0)
	f.Fuzz(func(t *testing.T, gpus1, nodes1 uint8, local1 uint16, step1, sync1 float64, gpus2, nodes2 uint8, local2 uint16, step2, sync2 float64) {
		var p Profile
		var fitter Fitter
		for _, s := range []Sample{
			{Nodes: int(nodes1), GPUs: int(gpus1), Local: int(local1), Step: step1, Sync: sync1},
			{Nodes: int(nodes2), GPUs: int(gpus2), Local: int(local2), Step: step2, Sync: sync2},
			{Nodes: int(nodes1), GPUs: int(gpus1), Local: int(local2), Step: step2, Sync: sync1},
		} {
			if p.Add(s) != nil {
				continue
			}
			checkFit(t, &p)
			if got, err := fitter.Fit(&p); err != nil || got.Validate() != nil {
				t.Errorf("fitter: %+v, %v", got, err)
			}
		}
	})
}

// Cold: a first fit. Warm: one sample more than last time.
func BenchmarkFit(b *testing.B) {
	for _, size := range []struct {
		name string
		n    int
	}{{"10", 10}, {"50", 50}, {"200", 200}} {
		samples := noisySamples(classifier, size.n, 0.05, 1)
		full := profileOf(b, samples...)
		var before Fitter
		if _, err := before.Fit(profileOf(b, samples[1:]...)); err != nil {
			b.Fatal(err)
		}
		for name, start := range map[string]Fitter{"cold": {}, "warm": before} {
			b.Run(name+"/"+size.name, func(b *testing.B) {
				for b.Loop() {
					f := start
					if _, err := f.Fit(full); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
