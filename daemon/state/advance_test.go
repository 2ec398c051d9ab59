// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"testing"
	"time"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/diagnose"
)

// TestRebootsOfALongJob: however often the machine restarts, a job is started again. One
// that gets nowhere waits longer each time, unless it runs for hours: it may be what brings
// the machine down.
func TestRebootsOfALongJob(t *testing.T) {
	reboot := func(d *desk, n int) {
		e := exitOf("x-1", n)
		e.Lost, e.Why, e.Host = true, "the machine was restarted", []diagnose.Event{{Kind: api.HostRestarted, Node: "box"}}
		d.exited(e)
	}
	for name, c := range map[string]struct {
		gains float64 // work that each attempt saves
		runs  time.Duration
		wait  time.Duration // after the last of them
	}{
		"saves new work":       {100, time.Minute, firstBackOff},
		"saves the same again": {0, time.Minute, mostRestartBackOff},
		"runs for long":        {0, 3 * time.Hour, firstBackOff},
	} {
		t.Run(name, func(t *testing.T) {
			d := open(t)
			d.submit(ann, submission("x", 1))
			for n := 1; n <= 20; n++ {
				d.clock.add(mostRestartBackOff)
				d.decide(wants{"x-1": on(0)})
				d.clock.add(c.runs)
				d.report("x-1", n, api.AgentReport{Done: 100 + c.gains*float64(n), Checkpoint: true})
				reboot(d, n)
				d.wantState("x-1", api.Waiting)
			}
			j := d.job("x-1")
			if want := 100 + 20*c.gains; j.Status.CheckpointedWork != want {
				t.Errorf("%g saved; want %g", j.Status.CheckpointedWork, want)
			}
			if wait := j.Status.NotBefore.Sub(d.clock.Now()); wait != c.wait {
				t.Errorf("it waits for %s; want %s", wait, c.wait)
			}
			d.wantDurable()
		})
	}
}
