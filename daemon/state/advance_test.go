// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"testing"
	"time"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/diagnose"
)

// TestRebootsOfALongJob: however often the machine restarts, a job that saves new work
// in between is started again. One that gets nowhere is given up.
func TestRebootsOfALongJob(t *testing.T) {
	reboot := func(d *desk, n int) {
		e := exitOf("x-1", n)
		e.Lost, e.Why, e.Host = true, "the machine was restarted", []diagnose.Event{{Kind: api.HostRestarted, Node: "box"}}
		d.exited(e)
	}
	for name, c := range map[string]struct {
		gains float64 // work that each attempt saves
		want  string
	}{"saves new work": {100, api.Waiting}, "saves the same again": {0, api.Failed}} {
		t.Run(name, func(t *testing.T) {
			d := open(t)
			d.submit(ann, submission("x", 1))
			for n := 1; n <= 20 && d.job("x-1").State != api.Failed; n++ {
				d.clock.add(time.Hour)
				d.decide(wants{"x-1": on(0)})
				d.clock.add(time.Minute)
				d.report("x-1", n, api.AgentReport{Done: 100 + c.gains*float64(n), Checkpoint: true})
				reboot(d, n)
			}
			d.wantState("x-1", c.want)
			if j := d.job("x-1"); c.want == api.Waiting && j.Status.CheckpointedWork != 2100 {
				t.Errorf("%g saved; want 2100", j.Status.CheckpointedWork)
			}
			d.wantDurable()
		})
	}
}
