// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package place_test

import (
	"testing"

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
