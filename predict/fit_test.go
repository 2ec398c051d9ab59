// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package predict

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// curve is a function with a step, a slope and an interaction.
func curve(x []float64) float64 {
	y := 2 * x[0]
	if x[1] > 0.3 {
		y += 1.5
		if x[2] > 0.6 {
			y -= 2
		}
	}
	return y
}

func drawn(n int, seed uint64) (x [][]float64, y []float64) {
	random := rand.New(rand.NewPCG(seed, 0))
	for range n {
		row := []float64{random.Float64(), random.Float64(), random.Float64(), random.Float64()}
		x, y = append(x, row), append(y, curve(row))
	}
	return x, y
}

func TestForestLearns(t *testing.T) {
	x, y := drawn(400, 1)
	c := treeConfig{Trees: 150, Depth: 3, MinLeaf: 4, Shrink: 0.1, Subsample: 0.7, Seed: 1}
	f := growForest(x, y, c)
	freshX, freshY := drawn(300, 2)
	left, spread, mean := 0.0, 0.0, 0.0
	for _, v := range freshY {
		mean += v / float64(len(freshY))
	}
	for i := range freshX {
		left += math.Pow(f.of(freshX[i])-freshY[i], 2)
		spread += math.Pow(freshY[i]-mean, 2)
	}
	if left > 0.05*spread {
		t.Errorf("rows never seen: %.1f %% of the variance is left, want under 5", 100*left/spread)
	}
	if diff := cmp.Diff(f, growForest(x, y, c)); diff != "" {
		t.Errorf("grown twice (-first +second):\n%s", diff)
	}
	c.Seed = 2
	if cmp.Equal(f, growForest(x, y, c)) {
		t.Error("another seed grew the same trees: rows are not drawn")
	}
	if err := f.check(4); err != nil {
		t.Error(err)
	}
}

func TestForestStops(t *testing.T) {
	// Nothing to learn: every leaf is the mean, and no split is made.
	f := growForest([][]float64{{1}, {2}, {3}, {4}}, []float64{5, 5, 5, 5}, treeConfig{Trees: 3, Depth: 3, MinLeaf: 1, Shrink: 1, Subsample: 1})
	for _, tree := range f.Trees {
		if len(tree) != 1 {
			t.Errorf("a constant was split: %v", tree)
		}
	}
	if got := f.of([]float64{9}); got != 5 {
		t.Errorf("predicted %g, want 5", got)
	}
}

func TestSumFitFindsCoefficients(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 0))
	truth := []float64{0.5, 20, 3}
	f := sumFit{prior: []float64{1, 10, 1}, weight: 0.01, parts: 2}
	for i := range 120 {
		row := []float64{1, random.Float64(), 4 * random.Float64()}
		factor := 1 + 0.4*float64(i%2) // the second machine is slower
		f.x = append(f.x, row)
		f.y = append(f.y, factor*sum{Values: truth}.of(row))
		f.part = append(f.part, i%2)
	}
	got, factors, err := f.run()
	if err != nil {
		t.Fatal(err)
	}
	if ratio := factors[1] / factors[0]; math.Abs(ratio-1.4) > 0.03 {
		t.Errorf("the second machine takes %.3f times as long, want 1.4", ratio)
	}
	for j := range truth {
		if r := got[j] / truth[j] * factors[0]; math.Abs(r-1) > 0.05 {
			t.Errorf("coefficient %d is %g, want %g", j, got[j]*factors[0], truth[j])
		}
	}
	// Coefficients without data stay at the prior, up to the common factor.
	f.prior, f.weight = append(f.prior, 7), 0.3
	for i := range f.x {
		f.x[i] = append(f.x[i], 0)
	}
	if got, _, err = f.run(); err != nil {
		t.Fatal(err)
	}
	if got[3] < 3.5 || got[3] > 14 {
		t.Errorf("a coefficient without rows moved from 7 to %g", got[3])
	}
}

func TestSolve(t *testing.T) {
	got, err := solve([][]float64{{4, 2}, {2, 3}}, []float64{8, 8})
	if err != nil {
		t.Fatal(err)
	}
	if math.Abs(got[0]-1) > 1e-12 || math.Abs(got[1]-2) > 1e-12 {
		t.Errorf("solved to %v, want 1 and 2", got)
	}
	if _, err := solve([][]float64{{1, 1}, {1, 1}}, []float64{1, 1}); err == nil {
		t.Error("a singular system was solved")
	}
}

func TestRidge(t *testing.T) {
	var x [][]float64
	var y []float64
	for i := range 50 {
		a, b := float64(i), float64(i*i%17)
		x, y = append(x, []float64{a, b, 3}), append(y, 2*a-5*b+1)
	}
	r, err := fitRidge(x, y, 1e-9)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := r.of([]float64{100, 4, 3}), 2*100.0-5*4+1; math.Abs(got-want) > 0.01 {
		t.Errorf("predicted %g, want %g", got, want)
	}
	flat, err := fitRidge(x, y, 1e6)
	if err != nil {
		t.Fatal(err)
	}
	if spread := math.Abs(flat.of(x[0]) - flat.of(x[49])); spread > 0.01 {
		t.Errorf("under a heavy penalty predictions differ by %g, want hardly", spread)
	}
}

func TestRounded(t *testing.T) {
	for in, want := range map[float64]float64{0: 0, 1234567.8: 1.23457e6, -0.000123456789: -0.000123457, 0.3: 0.3} {
		if got := rounded(in); got != want {
			t.Errorf("%v rounded to %v, want %v", in, got, want)
		}
	}
}
