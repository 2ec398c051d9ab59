// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package learn

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fairway-gpu/fairway/policy/interfere"
)

// truth is a model from which pairs are made.
func truth(mode interfere.Mode) *interfere.Model {
	s := &interfere.Sharing{Form: interfere.FairShare, Capacity: 0.88, Corner: 9, Turn: 0.0012, ShortStep: 0.001, Spread: exact}
	if mode == interfere.MPS {
		s = &interfere.Sharing{Form: interfere.Overload, Knee: 1.1, Slope: 0.4, Spread: exact}
	}
	return &interfere.Model{TimeSlice: s}
}

// made returns pairs of so many models as the truth has them, off by noise.
func made(mode interfere.Mode, n, models int, noise float64) []Pair {
	rng := rand.New(rand.NewPCG(1, 2))
	sides := make([]Side, models)
	for i := range sides {
		sides[i] = Side{
			Key:  Key{fmt.Sprintf("model-%d", i), 8},
			Load: interfere.Load{Util: min(1, 0.05+1.2*math.Pow(rng.Float64(), 1.5)), Step: 0.0008 * math.Exp(5*rng.Float64())},
		}
	}
	m := truth(mode)
	var out []Pair
	for len(out) < n {
		a, b := rng.IntN(models), rng.IntN(models)
		if a == b {
			continue
		}
		p := Pair{Mode: mode, Sides: [2]Side{sides[a], sides[b]}}
		for i := range p.Sides {
			mean := m.Slowdown(interfere.TimeSlice, p.Sides[i].Load, []interfere.Load{p.Sides[1-i].Load}).Mean
			p.Sides[i].Slowdown = mean * math.Exp(noise*rng.NormFloat64())
		}
		out = append(out, p)
	}
	return out
}

func TestSharingRecoversTruth(t *testing.T) {
	for _, mode := range []interfere.Mode{interfere.TimeSlice, interfere.MPS} {
		got, err := Sharing(made(mode, 150, 40, 0.02))
		if err != nil {
			t.Fatal(err)
		}
		want := truth(mode).TimeSlice
		for _, p := range []struct {
			name              string
			got, want, within float64
		}{
			{"capacity", got.Capacity, want.Capacity, 0.02}, {"corner", got.Corner, want.Corner, 0.15},
			{"turn", got.Turn, want.Turn, 0.1}, {"knee", got.Knee, want.Knee, 0.03}, {"slope", got.Slope, want.Slope, 0.05},
		} {
			if math.Abs(p.got-p.want) > p.within*p.want {
				t.Errorf("%v: %s %g; want %g", mode, p.name, p.got, p.want)
			}
		}
		for _, s := range got.Spread {
			if s.Scatter < 0.01 || s.Scatter > 0.035 {
				t.Errorf("%v: scatter %g at %g; want about 0.02", mode, s.Scatter, s.At)
			}
		}
		again, err := Sharing(made(mode, 150, 40, 0.02))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(got, again); diff != "" {
			t.Errorf("%v: a second fit differs:\n%s", mode, diff)
		}
	}
}

func TestSharingNeedsPairs(t *testing.T) {
	if _, err := Sharing(made(interfere.TimeSlice, leastPairs-1, 10, 0)); err == nil {
		t.Error("too few pairs: no error")
	}
}

// byUtil is a predictor for tests: the utilisation says the slowdown.
func byUtil(own, _ interfere.Load) interfere.Estimate {
	mean := 1 + 2*own.Util
	return interfere.Estimate{Pressure: mean, Mean: mean}
}

// scattered returns pairs around byUtil, off by the given error.
func scattered(n int, off func(mean float64, rng *rand.Rand) float64) []Pair {
	rng := rand.New(rand.NewPCG(3, 4))
	out := make([]Pair, n)
	for i := range out {
		for k := range out[i].Sides {
			s := &out[i].Sides[k]
			s.Load = interfere.Load{Util: max(0, 0.9*rng.Float64()-0.2), Step: 0.1}
			mean := byUtil(s.Load, s.Load).Mean
			s.Slowdown = mean * math.Exp(off(mean, rng))
		}
	}
	return out
}

// TestSpreadBounds: the bound never falls as the prediction rises, for then a
// busier neighbour would look safer.
func TestSpreadBounds(t *testing.T) {
	out := spread(byUtil, scattered(300, func(mean float64, rng *rand.Rand) float64 {
		if mean > 1.3 {
			return 0.01 * rng.NormFloat64()
		}
		return 0.3 * rng.NormFloat64()
	}))
	if len(out) < 3 {
		t.Fatalf("%d points of spread; want at least 3", len(out))
	}
	for i := 1; i < len(out); i++ {
		if out[i].At <= out[i-1].At || out[i].High < out[i-1].High {
			t.Errorf("%+v after %+v: the bound falls", out[i], out[i-1])
		}
	}
}

// TestSpreadLeavesOutNoise: where no slowdown is predicted, what is as often
// below as above is an error of measuring; what is only above is not.
func TestSpreadLeavesOutNoise(t *testing.T) {
	noise := spread(byUtil, scattered(400, func(_ float64, rng *rand.Rand) float64 { return 0.05 * rng.NormFloat64() }))[0]
	if noise.Scatter > 0.035 {
		t.Errorf("scatter %g of mere noise; want at most a little above %g", noise.Scatter, leastOff)
	}
	real := spread(byUtil, scattered(400, func(_ float64, rng *rand.Rand) float64 { return math.Abs(0.2 * rng.NormFloat64()) }))[0]
	if real.Scatter < 0.15 || real.High < 1.3 {
		t.Errorf("scatter %g, high %g of what is only above, by 0.2; want to see it", real.Scatter, real.High)
	}
}

// TestFoldsByModel: no model of a pair that is predicted is in its fit, and
// every pair is predicted once.
func TestFoldsByModel(t *testing.T) {
	pairs := made(interfere.TimeSlice, 120, 20, 0.02)
	for _, split := range []Split{ByModel, ByPair} {
		seen := make([]int, len(pairs))
		for _, part := range folds(pairs, split, Options{Folds: 6, Seed: 5}) {
			inTrain := map[string]bool{}
			for _, p := range part.train {
				inTrain[p.Sides[0].Model], inTrain[p.Sides[1].Model] = true, true
			}
			for _, i := range part.test {
				seen[i]++
				for _, s := range pairs[i].Sides {
					if split == ByModel && inTrain[s.Model] {
						t.Errorf("%s is in the fit that predicts it", s.Model)
					}
				}
			}
			if split == ByPair && len(part.test)+len(part.train) != len(pairs) {
				t.Errorf("%d pairs predicted from %d; want %d in all", len(part.test), len(part.train), len(pairs))
			}
		}
		for i, n := range seen {
			if n != 1 {
				t.Errorf("split by %s: pair %d is predicted %d times; want once", split, i, n)
			}
		}
	}
}

func TestEvaluate(t *testing.T) {
	pairs := made(interfere.TimeSlice, 150, 40, 0.02)
	scores, guesses, err := Evaluate(pairs, ByModel, Options{Folds: 4})
	if err != nil {
		t.Fatal(err)
	}
	if len(guesses) != 2*len(pairs) {
		t.Errorf("%d guesses; want %d", len(guesses), 2*len(pairs))
	}
	ours := scores[0]
	if ours.AbsLog > 0.025 {
		t.Errorf("mean error of ln(slowdown) %.4f; want little above what the noise gives, 0.016", ours.AbsLog)
	}
	if ours.Precision() < 0.95 || ours.Recall() < 0.6 {
		t.Errorf("%d of %d called safe are, of %d; want 95 %% right and most found", ours.Right, ours.Called, ours.Safe)
	}
	if ours.Covered < 0.9 || ours.Covered > 0.99 {
		t.Errorf("%.3f below the 95 %% bound; want about 0.95", ours.Covered)
	}
	for _, s := range scores[1:] {
		if s.AbsLog <= ours.AbsLog {
			t.Errorf("%s errs by %.4f, the form that made the pairs by %.4f; want it to be worse", s.Method, s.AbsLog, ours.AbsLog)
		}
	}
	blurred, _, err := Evaluate(pairs, ByModel, Options{Folds: 4, OursOnly: true, Loads: Blurred(pairs, 0.15, 0.3, 1)})
	if err != nil {
		t.Fatal(err)
	}
	if b := blurred[0]; b.AbsLog <= ours.AbsLog || b.Recall() >= ours.Recall() {
		t.Errorf("with blurred loads error %.4f, recall %.2f; want worse than %.4f, %.2f", b.AbsLog, b.Recall(), ours.AbsLog, ours.Recall())
	}
}

func TestJudge(t *testing.T) {
	guess := func(mean, high, measured float64) Guess {
		return Guess{Measured: measured, Estimate: interfere.Estimate{Mean: mean, High: high}}
	}
	got := judge([]Guess{
		guess(1, 1.1, 1.05), guess(1, 1.1, 1.1), // called safe, is safe
		guess(1, 1.1, 1.2), guess(1, 1.1, 1), // called safe, is not
		guess(1.1, 1.2, 1), guess(1, 1.1, 1), // not called, is safe
		guess(2, 2.2, 2), guess(1, 1.1, 1), // neither
	}, 1.15)
	want := Score{Pairs: 4, AbsError: 0.45 / 8, Covered: 7.0 / 8, Safe: 2, Called: 2, Right: 1, Hopeful: 3, Kept: 2}
	near := cmp.FilterPath(func(p cmp.Path) bool { return p.Last().String() == ".AbsLog" || p.Last().String() == ".Bias" }, cmp.Ignore())
	if diff := cmp.Diff(want, got, near, cmp.Comparer(func(a, b float64) bool { return math.Abs(a-b) < 1e-9 })); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestMinimise(t *testing.T) {
	// Rosenbrock's valley.
	x := minimise(func(x []float64) float64 {
		return (1-x[0])*(1-x[0]) + 100*(x[1]-x[0]*x[0])*(x[1]-x[0]*x[0])
	}, []float64{-1.2, 1}, 0.5)
	if math.Abs(x[0]-1) > 1e-3 || math.Abs(x[1]-1) > 1e-3 {
		t.Errorf("minimum at %v; want [1 1]", x)
	}
}
