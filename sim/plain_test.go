// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package sim_test

import (
	"testing"
	"time"

	"github.com/fairway-gpu/fairway/sim"
)

// TestPlain gives a long plain script a rival that a preemptive policy would run
// first: protected, it goes on and the rival waits; unprotected, it is stopped and
// starts from the beginning; suspended, it goes on later, after its memory has moved.
func TestPlain(t *testing.T) {
	long, short := job("long", 4, 0, 10*time.Hour), job("short", 4, 5*time.Hour, time.Hour)
	long.GPUMemory = 9e9
	const restart, moved = 62. / 3600, 4 * (9/1.6 + 9/4.5) / 3600 // hours
	for _, c := range []struct {
		name        string
		plain       float64
		unprotected bool
		suspends    bool
		long, short float64 // end, in hours
	}{
		{"saves its work", 0, false, false, 11 + restart, 6},
		{"plain, protected", 1, false, false, 10, 11},
		{"plain, unprotected", 1, true, false, 16 + restart, 6},
		{"plain, suspended", 1, false, true, 11 + moved, 6},
	} {
		cfg := config(t, "1x4", "srtf")
		cfg.Estimates, cfg.UsesEstimates = "exact", true
		cfg.Plain, cfg.Unprotected, cfg.Suspends = c.plain, c.unprotected, c.suspends
		res := run(t, cfg, long, short)
		within(t, c.name+": long", res.Jobs[0].End/3600, c.long)
		within(t, c.name+": short", res.Jobs[1].End/3600, c.short)
	}
}

func TestPlainOutOfRange(t *testing.T) {
	cfg := config(t, "1x4", "fifo")
	cfg.Plain = 1.5
	if _, _, err := sim.Run(cfg, &sim.Workload{Start: start, Work: []sim.Work{job("a", 1, 0, time.Hour)}}); err == nil {
		t.Error("a share of 1.5 was accepted; want 0 to 1")
	}
}
