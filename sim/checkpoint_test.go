// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package sim_test

import (
	"testing"
	"time"

	"github.com/fairway-gpu/fairway/policy"
	"github.com/fairway-gpu/fairway/sim"
	"github.com/fairway-gpu/fairway/sim/trace"
)

// TestJobsThatSaveNowAndThenEnd: optimus compares the steps that jobs have left. If work
// in no checkpoint counted as done, or if it decided more often than jobs save, it would
// resize them back and forth for ever.
func TestJobsThatSaveNowAndThenEnd(t *testing.T) {
	const jobs = 30
	w, err := trace.Generate(trace.Gen{Kind: trace.KindPollux, Jobs: jobs, GPUs: 16, Seed: 1, Span: 2 * time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	for _, spec := range []string{"optimus", "optimus:original"} {
		c := config(t, "4x4", spec)
		needs := policy.Builtin().About(spec).Needs
		c.Oracle, c.CoAdapt, c.Losses, c.Agent = needs.Oracle, needs.Agents, needs.Losses, 30*time.Second
		c.Interval, c.Checkpoint = time.Minute, 5*time.Minute
		res, _, err := sim.Run(c, w)
		if err != nil {
			t.Fatal(err)
		}
		if res.Finished != jobs || res.Restarts < jobs {
			t.Errorf("%s: %d of %d jobs finished after %d restarts; want all, and some restarts of each", spec, res.Finished, jobs, res.Restarts)
		}
	}
}
