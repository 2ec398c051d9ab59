// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package optimus

import (
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"github.com/fairway-gpu/fairway/sched/goodput"
)

func trace(l Loss, n int, step float64) []goodput.LossPoint {
	out := make([]goodput.LossPoint, n)
	for i := range out {
		k := float64(i) * step
		out[i] = goodput.LossPoint{Step: k, Loss: l.At(k)}
	}
	return out
}

// TestFitLossFindsTheCurve: from the first part of a trace without noise, the
// fit foretells the rest.
func TestFitLossFindsTheCurve(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := Loss{
			B0:  rapid.Float64Range(0.05, 2).Draw(t, "b0"),
			B1:  rapid.Float64Range(1, 3).Draw(t, "b1"),
			B2:  rapid.Float64Range(0, 0.5).Draw(t, "b2"),
			Top: rapid.Float64Range(0.1, 10).Draw(t, "top"),
		}
		got, ok := FitLoss(trace(l, 60, 1))
		if !ok {
			t.Fatal("no fit")
		}
		for _, k := range []float64{0, 1, 10, 50, 200, 1000} {
			if e := math.Abs(got.At(k)-l.At(k)) / l.Top; e > 1e-3 {
				t.Errorf("loss at step %g = %g; want %g (fit %+v of %+v)", k, got.At(k), l.At(k), got, l)
			}
		}
	})
}

// TestFitLossWithNoise: two in a hundred of noise and a few outliers, and the
// steps to convergence are still about right.
func TestFitLossWithNoise(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	truth := Loss{B0: 0.01, B1: 1, B2: 0.1, Top: 4}
	stop := goodput.Stop{Fall: 0.002, Epochs: 3, Epoch: 50}
	want := truth.Steps(stop)
	for range 20 {
		points := trace(truth, 100, 5)
		for i := range points {
			points[i].Loss *= 1 + 0.02*random.NormFloat64()
			if i > 5 && i%23 == 0 {
				points[i].Loss = 100
			}
		}
		fit, ok := FitLoss(points)
		if got := fit.Steps(stop); !ok || got < 0.75*want || got > 1.25*want {
			t.Errorf("%g steps to convergence (%+v); want about %g", got, fit, want)
		}
	}
}

// TestFitLossIsNearTheBest compares the error of the fit with the best curve of
// a fine grid.
func TestFitLossIsNearTheBest(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	points := trace(Loss{B0: 0.1, B1: 1, B2: 0.2, Top: 1}, 30, 1)
	for i := range points {
		points[i].Loss *= 1 + 0.01*random.NormFloat64()
	}
	points = smooth(points)
	fit, _ := FitLoss(points)
	err := func(l Loss) (sum float64) {
		for _, p := range points {
			sum += (l.At(p.Step) - p.Loss) * (l.At(p.Step) - p.Loss)
		}
		return sum
	}
	best := math.Inf(1)
	for b0 := 0.08; b0 < 0.12; b0 += 0.0005 {
		for b1 := 0.9; b1 < 1.1; b1 += 0.0025 {
			for b2 := 0.15; b2 < 0.25; b2 += 0.0025 {
				best = min(best, err(Loss{B0: b0, B1: b1, B2: b2, Top: 1}))
			}
		}
	}
	if got := err(fit); got > 1.05*best {
		t.Errorf("the fit %+v has error %g; the grid has %g", fit, got, best)
	}
}

func TestFitLossRefuses(t *testing.T) {
	for name, points := range map[string][]goodput.LossPoint{
		"nothing":    nil,
		"two points": {{Step: 0, Loss: 2}, {Step: 1, Loss: 1}},
		"one step":   {{Step: 1, Loss: 2}, {Step: 1, Loss: 1}, {Step: 1, Loss: 1.5}, {Step: 1, Loss: 3}},
		"nonsense":   {{Step: -1, Loss: 2}, {Step: 0, Loss: 2}, {Step: 1, Loss: 0}, {Step: 2, Loss: math.NaN()}, {Step: 3, Loss: math.Inf(1)}, {Step: math.Inf(1), Loss: 1}, {Step: 4, Loss: 1}},
	} {
		if fit, ok := FitLoss(points); ok {
			t.Errorf("%s: fit %+v; want none", name, fit)
		}
	}
}

func TestFlatLoss(t *testing.T) {
	fit, ok := FitLoss([]goodput.LossPoint{{Step: 0, Loss: 2}, {Step: 1, Loss: 2}, {Step: 2, Loss: 2}, {Step: 3, Loss: 2}})
	if !ok || math.Abs(fit.At(100)-2) > 1e-6 {
		t.Errorf("loss at step 100 = %g, %t; want 2", fit.At(100), ok)
	}
	if got := fit.Steps(goodput.Stop{Fall: 0.01, Epochs: 2, Epoch: 10}); got != 20 {
		t.Errorf("%g steps to convergence; want the two epochs it takes to notice", got)
	}
}

func TestSmooth(t *testing.T) {
	in := []goodput.LossPoint{{Step: 0, Loss: 10}, {Step: 1, Loss: 8}, {Step: 2, Loss: 6}, {Step: 3, Loss: 30}, {Step: 4, Loss: 5}, {Step: 5, Loss: 4.5}, {Step: 6, Loss: 0.1}, {Step: 7, Loss: 4}, {Step: 8, Loss: 3.9}}
	want := []float64{10, 8, 6, 6, 5, 4.5, 4, 4, 3.9}
	for i, p := range smooth(in) {
		if p.Loss != want[i] {
			t.Errorf("loss %d = %g; want %g", i, p.Loss, want[i])
		}
	}
}

// TestStepsAgainstCounting counts epochs one by one.
func TestStepsAgainstCounting(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := Loss{
			B0: rapid.Float64Range(0, 0.1).Draw(t, "b0"), B1: rapid.Float64Range(0.5, 2).Draw(t, "b1"),
			B2: rapid.Float64Range(0, 1).Draw(t, "b2"), Top: rapid.Float64Range(0.5, 5).Draw(t, "top"),
		}
		stop := goodput.Stop{
			Fall: rapid.Float64Range(0.001, 0.1).Draw(t, "fall"), Epochs: rapid.IntRange(1, 5).Draw(t, "epochs"),
			Epoch: rapid.Float64Range(1, 50).Draw(t, "epoch"),
		}
		epoch, slow := 0, 0
		for slow < stop.Epochs {
			from, to := float64(epoch)*stop.Epoch, float64(epoch+1)*stop.Epoch
			if (l.At(from)-l.At(to))/l.Top < stop.Fall {
				slow++
			} else {
				slow = 0
			}
			epoch++
		}
		if got, want := l.Steps(stop), float64(epoch)*stop.Epoch; got != want {
			t.Errorf("%g steps; counting gives %g", got, want)
		}
	})
	never := Loss{B0: 1, B1: 1, Top: 1}
	if got := never.Steps(goodput.Stop{Epochs: 1, Epoch: 1}); !math.IsInf(got, 1) {
		t.Errorf("%g steps until the loss rises; want none", got)
	}
}
