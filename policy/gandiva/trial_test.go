// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package gandiva

import (
	"testing"
	"time"

	"github.com/fairway-gpu/fairway/policy/policytest"
	"github.com/fairway-gpu/fairway/sched"
)

// TestFailedTrialSparesPinnedJobs: when two packed jobs turn out to slow each other
// down, a job that can no longer save its work is not stopped; the other is, if it can.
func TestFailedTrialSparesPinnedJobs(t *testing.T) {
	for _, c := range []struct {
		name   string
		pinned map[sched.JobID]bool
		runs   []sched.JobID // afterwards
	}{
		{"neither", nil, []sched.JobID{"b"}},
		{"the first", map[sched.JobID]bool{"a": true}, []sched.JobID{"a"}},
		{"the second", map[sched.JobID]bool{"b": true}, []sched.JobID{"b"}},
		{"both", map[sched.JobID]bool{"a": true, "b": true}, []sched.JobID{"a", "b"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w, err := policytest.NewWorld([]sched.Node{{Name: "n", GPUs: 1}})
			if err != nil {
				t.Fatal(err)
			}
			p := mustBuild(t, "gandiva")
			report := func(id sched.JobID, e sched.Event) {
				e.Kind, e.Job, e.Can = sched.JobReported, id, sched.Saves
				if err := w.Apply(e); err != nil {
					t.Fatal(err)
				}
			}
			for _, id := range []sched.JobID{"a", "b"} {
				spec := sched.Spec{ID: id, GPUs: 1, Shareable: true, GPUUtil: 0.3, Protected: true}
				if err := w.Submit(spec, 0); err != nil {
					t.Fatal(err)
				}
				report(id, sched.Event{})
			}
			for range 3 { // a runs, b runs, both run
				if _, _, err := w.Decide(p); err != nil {
					t.Fatal(err)
				}
				w.Now = w.Now.Add(time.Minute)
			}
			w.Now = w.Now.Add(time.Minute)
			for _, id := range []sched.JobID{"a", "b"} {
				report(id, sched.Event{Slowdown: 2.2, SaveFailed: c.pinned[id]})
			}
			if _, _, err := w.Decide(p); err != nil {
				t.Fatal(err)
			}
			var runs []sched.JobID
			for _, j := range w.State.Snapshot(w.Now).Jobs {
				if j.Phase == sched.Running {
					runs = append(runs, j.ID)
				}
			}
			if len(runs) != len(c.runs) || runs[0] != c.runs[0] {
				t.Errorf("%v run; want %v", runs, c.runs)
			}
		})
	}
}
