// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package repro

import (
	"testing"

	"github.com/fairway-gpu/fairway/sim/trace"
	"github.com/fairway-gpu/fairway/tune"
)

// TestTuners: over trainings that really happened, every rule that stops trials early
// finds about what random search finds in less GPU time, and TPE finds more in as
// many trials.
func TestTuners(t *testing.T) {
	table, err := trace.Digits()
	if err != nil {
		t.Fatal(err)
	}
	c := SearchConfig{Seeds: 3, Trials: 60}
	tried := map[tune.Rule]bool{}
	sampled := map[tune.Method]bool{}
	var random TunerRun
	for i, r := range tuners {
		if err := c.tuner(&r, table); err != nil {
			t.Fatal(err)
		}
		tried[r.Rule], sampled[r.Method] = true, true
		t.Logf("%s, %s: %.1f GPU hours, %.1f %% found, %.1f stopped", r.Method, r.Rule, r.GPUHours.Mean, r.Found.Mean, r.Stopped.Mean)
		if i == 0 {
			random = r
		}
		if r.Rule != tune.None && (r.GPUHours.Mean > 0.75*random.GPUHours.Mean || r.Found.Mean < 0.95*random.Found.Mean || r.Stopped.Mean < 10) {
			t.Errorf("%s, %s: %.1f GPU hours, %.1f %% found, %.1f stopped; random search needs %.1f for %.1f %%",
				r.Method, r.Rule, r.GPUHours.Mean, r.Found.Mean, r.Stopped.Mean, random.GPUHours.Mean, random.Found.Mean)
		}
		if r.Method == tune.TPE && r.Found.Mean < random.Found.Mean {
			t.Errorf("tpe, %s finds %.1f %%; random search %.1f %%", r.Rule, r.Found.Mean, random.Found.Mean)
		}
	}
	for _, rule := range tune.Rules() {
		if !tried[rule] {
			t.Errorf("rule %s was not tried", rule)
		}
	}
	for _, m := range tune.Methods() {
		if !sampled[m] {
			t.Errorf("method %s was not tried", m)
		}
	}
}
