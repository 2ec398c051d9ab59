// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package sched_test

import (
	"strings"
	"testing"
	"time"

	"github.com/fairway-gpu/fairway/sched"
)

// A job that is screened runs below its size, leaves without a preemption and
// is proven when it has run for long enough.
func TestScreening(t *testing.T) {
	minute := func(n int) time.Time { return start.Add(time.Duration(n) * time.Minute) }
	st := world(t, func(apply func(sched.Event)) {
		apply(submit(sched.Spec{ID: "j", GPUs: 4, Screen: sched.Duration(5 * time.Minute)}))
	})
	snap := st.Snapshot(start)
	plan := sched.NewPlan(snap)
	plan.Want[0] = sched.Placement{on(1, 0b1)}
	if v := sched.Check(snap, plan); len(v) != 1 || v[0].Rule != "gang" {
		t.Errorf("one GPU for a job of four: got %v, want a broken gang", v)
	}
	plan.Screening = []bool{true}
	if v := sched.Check(snap, plan); len(v) != 0 {
		t.Errorf("one GPU for its screening: got %v, want nothing", v)
	}
	apply := func(e sched.Event) {
		t.Helper()
		if err := st.Apply(e); err != nil {
			t.Fatal(err)
		}
	}
	apply(sched.Event{At: minute(0), Kind: sched.JobStarted, Job: "j", Placement: plan.Want[0], Screening: true})
	j, _ := st.Job("j")
	if !j.Screening || !j.OnProbation(minute(4)) || j.OnProbation(minute(5)) {
		t.Errorf("screening %v, unproven after 4 min %v, after 5 min %v; want true, true, false", j.Screening, j.OnProbation(minute(4)), j.OnProbation(minute(5)))
	}
	other := sched.NewPlan(st.Snapshot(minute(1)))
	other.Want[0] = j.Placement
	if v := sched.Check(st.Snapshot(minute(1)), other); len(v) != 0 {
		t.Errorf("a policy without screening lets it go on: got %v, want nothing", v)
	}
	apply(sched.Event{At: minute(3), Kind: sched.JobFailed, Job: "j", Avoid: []string{"b"}, GPUMemory: 7})
	if j.ProbationPassed || j.Screening || j.GPUMemory != 7 || len(j.Avoid) != 1 {
		t.Errorf("after a failure: proven %v, screening %v, memory %d, avoid %v", j.ProbationPassed, j.Screening, j.GPUMemory, j.Avoid)
	}
	apply(sched.Event{At: minute(4), Kind: sched.JobStarted, Job: "j", Placement: plan.Want[0], Screening: true})
	apply(sched.Event{At: minute(9), Kind: sched.JobStopped, Job: "j"})
	if !j.ProbationPassed || j.Preemptions != 0 || j.OnProbation(minute(9)) {
		t.Errorf("after five minutes: proven %v, %d preemptions; want true, 0", j.ProbationPassed, j.Preemptions)
	}
}

// Jobs that share a GPU must fit into its memory together.
func TestSharedMemory(t *testing.T) {
	st := world(t, func(apply func(sched.Event)) {
		apply(submit(sched.Spec{ID: "a", GPUs: 1, GPUMemory: 50, Shareable: true}))
		apply(submit(sched.Spec{ID: "b", GPUs: 1, GPUMemory: 30, Shareable: true}))
		apply(submit(sched.Spec{ID: "c", GPUs: 1, GPUMemory: 1, Shareable: true}))
	})
	snap := st.Snapshot(start)
	plan := sched.NewPlan(snap)
	for i := range snap.Jobs {
		plan.Want[i] = sched.Placement{part(2, 0b1, 333)}
	}
	v := sched.Check(snap, plan)
	if len(v) != 1 || v[0].Rule != "capacity" || !strings.Contains(v[0].Text, "81 bytes") {
		t.Errorf("81 bytes on a GPU of 80: got %v", v)
	}
	plan.Want[2], plan.Why[2] = nil, sched.Reason{Code: sched.Full}
	if v := sched.Check(snap, plan); len(v) != 0 {
		t.Errorf("80 bytes on a GPU of 80: got %v", v)
	}
}

// A layer may show a policy a job that nobody submitted.
func TestSnapshotWith(t *testing.T) {
	st := world(t, func(apply func(sched.Event)) {
		apply(submit(sched.Spec{ID: "a", GPUs: 1}))
	})
	snap := st.Snapshot(start)
	held := &sched.Job{Spec: sched.Spec{ID: "held", App: "held", GPUs: 1}}
	with := snap.With(append([]*sched.Job{held}, snap.Jobs...))
	if _, ok := with.App("held"); !ok || with.Apps() != 2 || len(with.Jobs) != 2 {
		t.Errorf("got %d apps and %d jobs, the new one known: %v", with.Apps(), len(with.Jobs), ok)
	}
	if _, ok := snap.App("held"); ok || snap.Apps() != 1 {
		t.Error("the snapshot it was made from has changed")
	}
}
