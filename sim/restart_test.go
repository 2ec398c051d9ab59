// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package sim_test

import (
	"testing"
	"time"

	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sim"
)

// interrupted runs a training job that a short one interrupts after ten minutes, and
// returns it.
func interrupted(t *testing.T, c sim.Config, model string, gpus int) sim.JobResult {
	t.Helper()
	c.Estimates = sim.Exact
	long := sim.Work{Spec: sched.Spec{ID: "long", GPUs: gpus, Model: model, Submitted: start}}
	res := run(t, c, long, job("short", gpus, 10*time.Minute, 5*time.Minute))
	if got := res.Jobs[0]; got.Preemptions != 1 || len(got.Runs) != 2 {
		t.Fatalf("long was preempted %d times and ran %d times; want 1 and 2", got.Preemptions, len(got.Runs))
	}
	within(t, "short end", res.Jobs[1].End, 15*60)
	return res.Jobs[0]
}

// TestRestartCostsByModelAndSize: the cost of a restart depends on the model and
// grows with the nodes; half a step is lost. The optimistic form has neither.
func TestRestartCostsByModelAndSize(t *testing.T) {
	for _, tc := range []struct {
		model, cluster string
		gpus           int
		restart        float64 // seconds
	}{
		{"cifar10", "1x2", 2, 50},
		{"imagenet", "1x2", 2, 250},
		{"deepspeech2", "2x1", 2, 25 * 45 / 42.5}, // the slower of two nodes
	} {
		c := config(t, tc.cluster, "srtf")
		c.Optimistic = true
		flat := interrupted(t, c, tc.model, tc.gpus)
		c.Optimistic = false
		full := interrupted(t, c, tc.model, tc.gpus)
		more := full.Ran - flat.Ran - (tc.restart - 30)
		if !(more > 0.001 && more < 1) {
			t.Errorf("%s on %s: %.3f s beside the restart; want half a step", tc.model, tc.cluster, more)
		}
	}
}

// TestMeasuredStartsCostTheModel: measured tables take the cost of a start from the
// zoo, or the mean of unknown models.
func TestMeasuredStartsCostTheModel(t *testing.T) {
	c := config(t, "1x1", "fifo")
	c.Profiles = profiles(t)
	work := sim.Work{Spec: sched.Spec{ID: "one", GPUs: 1, Model: "tiny", Submitted: start}, BatchSize: 8}
	within(t, "unknown model", run(t, c, work).Jobs[0].End, 62+100)
	c.Optimistic = true
	within(t, "optimistic", run(t, c, work).Jobs[0].End, 30+100)
}

// TestCheckpointsBoundWhatAStopLoses: jobs that save every four minutes lose the two
// since the last time.
func TestCheckpointsBoundWhatAStopLoses(t *testing.T) {
	c := config(t, "1x4", "srtf")
	c.Estimates, c.Checkpoint = sim.Exact, 4*time.Minute
	res := run(t, c, job("long", 4, 0, time.Hour), job("short", 4, 10*time.Minute, 5*time.Minute))
	within(t, "long end", res.Jobs[0].End, 3600+300+62+120)
	within(t, "lost GPU seconds", res.LostGPUs, 4*(62+120))
	// Without a stop nothing is lost.
	res = run(t, c, job("long", 4, 0, time.Hour))
	within(t, "alone", res.Jobs[0].End, 3600)
}
