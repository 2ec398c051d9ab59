// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package experience

import (
	"testing"

	"github.com/fairway-gpu/fairway/sched/goodput"
)

// TestStepRatio: every record counts once, by what it has measured on both types.
func TestStepRatio(t *testing.T) {
	pool := New()
	if _, ok := pool.StepRatio("a100", "t4"); ok {
		t.Error("an empty pool knows a ratio")
	}
	add := func(model string, steps map[string][]float64) {
		o := Outcome{Profiles: map[string]*goodput.Profile{}}
		for gpuType, times := range steps {
			o.Profiles[gpuType] = &goodput.Profile{}
			for i, step := range times {
				if err := o.Profiles[gpuType].Add(goodput.Sample{Nodes: 1, GPUs: 1, Local: 1 + i, Step: step}); err != nil {
					t.Fatal(err)
				}
			}
		}
		learn(t, pool, Key{Model: model}, o)
	}
	add("a", map[string][]float64{"a100": {1, 2, 3}, "t4": {2, 4, 6}})
	add("b", map[string][]float64{"a100": {1}, "t4": {8, 1}})
	add("c", map[string][]float64{"t4": {100}})
	if got, ok := pool.StepRatio("a100", "t4"); !ok || !near(got, 4) {
		t.Errorf("ratio %g, %t; want 4, the mean of 2 and 8", got, ok)
	}
	if got, _ := pool.StepRatio("t4", "a100"); !near(got, 0.25) {
		t.Errorf("the other way %g; want 0.25", got)
	}
	add("c", map[string][]float64{"a100": {1}})
	add("d", map[string][]float64{"a100": {1}, "t4": {4}})
	if got, _ := pool.StepRatio("a100", "t4"); near(got, 4) {
		t.Error("a new record does not change the ratio")
	}
}
