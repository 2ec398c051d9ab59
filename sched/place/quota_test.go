// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package place_test

import (
	"testing"
	"time"

	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/place"
)

// TestGuarantee: 8 GPUs, of which the tenant two owns 2. Jobs of other tenants that
// cannot be preempted share 6.
func TestGuarantee(t *testing.T) {
	pinned := func(n int) job { return job{Spec: sched.Spec{GPUs: n, Tenant: "wide", Protected: true}} }
	never := pinned(1)
	never.GPUTypes = []sched.GPUType{"none"}
	_, s := snapshot(t, never, pinned(4), pinned(4), pinned(2), job{Spec: sched.Spec{GPUs: 8, Tenant: "wide"}})
	q := place.NewQuota(s)
	q.Add(s.Jobs[1], 4)
	if got, want := q.Why(s.Jobs[2], 4), (sched.Reason{Code: sched.OverGuarantee, Need: 4, Have: 2}); got != want {
		t.Errorf("why = %+v; want %+v", got, want)
	}
	if q.Left(s.Jobs[4]) < 8 {
		t.Errorf("a job that can be preempted may take %d GPUs; want any number", q.Left(s.Jobs[4]))
	}
	if q.Clear(); q.Left(s.Jobs[2]) != 6 {
		t.Errorf("after Clear %d are left; want 6", q.Left(s.Jobs[2]))
	}
	// In order of submission: what can never run takes nothing, and what does not fit is
	// overtaken.
	for i, got := range place.Withheld(s) {
		if want := i == 2; got != want {
			t.Errorf("job %s withheld: %t; want %t", s.Jobs[i].ID, got, want)
		}
	}
	if _, s := snapshotOf(t, []sched.Node{{Name: "n0", GPUs: 32}}, pinned(30)); place.Withheld(s) != nil {
		t.Error("a job within what no quota covers is withheld")
	}
}

// TestWithheldByNobody: a job that exceeds its tenant's limit will never run, and keeps
// no guarantee from those after it.
func TestWithheldByNobody(t *testing.T) {
	c, err := sched.NewCluster([]sched.Node{{Name: "n0", GPUs: 16, Type: "t4"}})
	if err != nil {
		t.Fatal(err)
	}
	state := sched.NewState(c)
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	apply := func(e sched.Event) {
		e.At = now
		if err := state.Apply(e); err != nil {
			t.Fatal(err)
		}
	}
	apply(sched.Event{Kind: sched.TenantSet, Tenant: &sched.Tenant{ID: "a", Quota: 10, Borrow: true, Max: 6}})
	apply(sched.Event{Kind: sched.JobSubmitted, Spec: &sched.Spec{ID: "large", Tenant: "a", GPUs: 8, NonPreemptible: true, Submitted: now}})
	apply(sched.Event{Kind: sched.JobSubmitted, Spec: &sched.Spec{ID: "small", Tenant: "a", GPUs: 3, NonPreemptible: true, Submitted: now}})
	s := state.Snapshot(now)
	held := place.Withheld(s)
	for i, j := range s.Jobs {
		if want := j.ID == "large"; (held != nil && held[i]) != want {
			t.Errorf("job %s is withheld: %t; want %t", j.ID, !want, want)
		}
	}
}
