// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"math"
	"testing"

	"github.com/fairway-gpu/fairway/sched/goodput"
)

// TestAverageLags: after a change of the noise scale from 100 to 1000, an agent knows
// 1-1/e of it a thousand batches later, and a larger batch counts as several.
func TestAverageLags(t *testing.T) {
	l := goodput.Limits{Initial: 10, Max: 1000, LocalMin: 1, LocalMax: 1000}
	before, after := observation{sqr: 1, variance: 10}, observation{sqr: 1, variance: 100}
	for _, batch := range []int{10, 40} {
		s := setting{gpus: 1, config: goodput.Config{Local: batch}}
		a := &average{}
		a.add(before, s, l, 1e6)
		if got := a.add(after, s, l, 1e6).noise(l); math.Abs(got-100) > 1e-6 {
			t.Errorf("batch %d: noise scale %g before a step at the new one; want 100", batch, got)
		}
		steps := 1000 * 10 / float64(batch)
		got := a.add(after, s, l, 1e6+steps*after.gain(batch, l)).noise(l)
		if want := 1000 - 900/math.E; math.Abs(got-want) > 1 {
			t.Errorf("batch %d: noise scale %g a thousand batches later; want %.0f", batch, got, want)
		}
	}
	var exact *average
	if got := exact.add(after, setting{}, l, 0); got != after {
		t.Errorf("without an average: %+v; want the truth, %+v", got, after)
	}
	// The first observation is not drawn to zero.
	s := setting{gpus: 1, config: goodput.Config{Local: 10}}
	if got := (&average{}).add(before, s, l, 3).noise(l); math.Abs(got-100) > 1e-9 {
		t.Errorf("after three steps: noise scale %g; want 100", got)
	}
}
