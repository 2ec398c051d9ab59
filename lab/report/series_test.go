// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fairway-gpu/fairway/sim"
)

func used(p sim.Point) int { return p.Used }

func TestStepsKeepsEveryChange(t *testing.T) {
	series := []sim.Point{
		{T: 5, Used: 2}, {T: 0, Used: 1}, {T: 2, Used: 1}, {T: 5, Used: 3}, {T: math.NaN(), Used: 9},
		{T: 7, Used: 3}, {T: 9, Used: 3},
	}
	want := steps{T: nums{0, 5, 9}, V: nums{1, 3, 3}} // the last point says how long it lasted
	if diff := cmp.Diff(want, newSteps(orderPoints(series), used)); diff != "" {
		t.Errorf("steps (-want +got):\n%s", diff)
	}
	if got := newSteps(nil, used); got.V == nil || len(got.T) != 0 {
		t.Errorf("steps of nothing = %+v; want an empty list", got)
	}
}

func TestStepsOfLongRunKeepsMeanAndExtremes(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 2))
	var series []sim.Point
	now, area := 100.0, 0.0
	for i := range 50_000 {
		v := 500 + r.IntN(100)
		if i == 20_000 {
			v = 4000 // one short peak
		}
		if i == 30_000 {
			v = 1
		}
		next := now + 0.1 + r.ExpFloat64()
		series = append(series, sim.Point{T: now, Used: v})
		area += float64(v) * (next - now)
		now = next
	}
	series = append(series, sim.Point{T: now})
	s := newSteps(orderPoints(series), used)
	if len(s.V) != maxSteps || len(s.Lo) != maxSteps || len(s.Hi) != maxSteps || s.T != nil {
		t.Fatalf("%d means, %d lows, %d highs, %d times; want %d bins", len(s.V), len(s.Lo), len(s.Hi), len(s.T), maxSteps)
	}
	if float64(s.From) != 100 || math.Abs(float64(s.From)+float64(s.Step)*maxSteps-now) > 1e-6 {
		t.Errorf("bins reach from %g to %g; want 100 to %g", s.From, float64(s.From)+float64(s.Step)*maxSteps, now)
	}
	low, high, sum := math.Inf(1), math.Inf(-1), 0.0
	for i, mean := range s.V {
		if mean < s.Lo[i] || mean > s.Hi[i] {
			t.Fatalf("bin %d: mean %g outside of %g to %g", i, mean, s.Lo[i], s.Hi[i])
		}
		if i < maxSteps-1 { // the last bin sees the 0 at the end
			low = min(low, s.Lo[i])
		}
		high, sum = max(high, s.Hi[i]), sum+mean*float64(s.Step)
	}
	if low != 1 || high != 4000 {
		t.Errorf("extremes %g and %g; want 1 and 4000", low, high)
	}
	if math.Abs(sum/area-1) > 1e-4 {
		t.Errorf("area under the means %g; want %g as under the steps", sum, area)
	}
}
