// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package sim_test

import (
	"testing"
	"time"

	"github.com/fairway-gpu/fairway/sim"
	"github.com/fairway-gpu/fairway/sim/trace"
)

// TestJobsThatSaveNowAndThenEnd: optimus compares the steps that jobs have left. If work
// in no checkpoint counted as done, it would resize jobs back and forth for ever.
func TestJobsThatSaveNowAndThenEnd(t *testing.T) {
	w, err := trace.Generate(trace.Gen{Kind: trace.KindPollux, Jobs: 40, GPUs: 16, Seed: 1, Span: 2 * time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	c := config(t, "4x4", "optimus")
	c.Oracle, c.Interval, c.Checkpoint = true, time.Minute, 5*time.Minute
	res, _, err := sim.Run(c, w)
	if err != nil {
		t.Fatal(err)
	}
	if res.Finished != 40 || res.Restarts < 40 {
		t.Errorf("%d of 40 jobs finished after %d restarts; want all, and some restarts of each", res.Finished, res.Restarts)
	}
}
