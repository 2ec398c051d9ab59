// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package fifo_test

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/fairway-gpu/fairway/policy/fifo"
	"github.com/fairway-gpu/fairway/policy/policytest"
	"github.com/fairway-gpu/fairway/sched"
)

// TestReservationHolds is the promise of EASY: with right estimates, backfilling
// never delays the first of the waiting jobs beyond the time it was once given.
func TestReservationHolds(t *testing.T) {
	overtook := 0
	rapid.Check(t, func(t *rapid.T) {
		w, err := policytest.NewWorld([]sched.Node{
			{Name: "n0", GPUs: 4, Rack: "a"}, {Name: "n1", GPUs: 4, Rack: "a"}, {Name: "n2", GPUs: 2, Rack: "b"},
		})
		if err != nil {
			t.Fatal(err)
		}
		at := policytest.Start
		for i := range rapid.IntRange(2, 25).Draw(t, "jobs") {
			length := time.Duration(rapid.IntRange(1, 60).Draw(t, "minutes")) * time.Minute
			at = at.Add(time.Duration(rapid.IntRange(0, 15).Draw(t, "apart")) * time.Minute)
			spec := sched.Spec{
				ID: sched.JobID(fmt.Sprint("j", i)), GPUs: rapid.SampledFrom([]int{1, 1, 2, 4, 6, 8}).Draw(t, "gpus"),
				Estimate: sched.Duration(length), Submitted: at,
			}
			if spec.GPUs <= 4 && rapid.Bool().Draw(t, "near") {
				spec.MaxSpread = sched.SameMachine
			}
			w.Arrivals = append(w.Arrivals, spec)
			w.Length[spec.ID] = length
		}
		p, err := fifo.New(fifo.Config{Backfill: fifo.Easy, Placement: "consolidated"})
		if err != nil {
			t.Fatal(err)
		}
		promised := map[sched.JobID]time.Time{}
		var last int64 = -1 // the largest Seq that has started
		err = w.Play(p, at.Add(48*time.Hour), func(seen policytest.Seen) {
			for _, a := range seen.Actions {
				if until, ok := promised[a.Job.ID]; ok && seen.At.After(until) {
					t.Errorf("job %s starts at %s; it was given %s", a.Job.ID, seen.At, until)
				}
				if a.Job.Seq < last {
					overtook++
				}
				last = max(last, a.Job.Seq)
			}
			for i, j := range w.State.Snapshot(seen.At).Jobs {
				if seen.Ended != "" || len(seen.Plan.Want[i]) > 0 {
					continue
				}
				if until := seen.Plan.Why[i].Until; !until.IsZero() {
					if before, ok := promised[j.ID]; ok && until.After(before) {
						t.Errorf("job %s is given %s now, and was given %s before", j.ID, until, before)
					}
					promised[j.ID] = until
				}
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		if n := w.State.Jobs(); n > 0 {
			t.Errorf("%d jobs have not ended after two days", n)
		}
	})
	if overtook == 0 {
		t.Error("no job ever overtook another: the test has no force")
	}
}
