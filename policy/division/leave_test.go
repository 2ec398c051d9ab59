// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package division

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/fairway-gpu/fairway/policy/policytest"
	"github.com/fairway-gpu/fairway/sched"
)

// TestLeave divides random worlds among some of their jobs: the others stay where they
// are, or wait.
func TestLeave(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		w := policytest.Random(rt)
		p := policyOf(usual())
		for range rapid.IntRange(1, 4).Draw(rt, "decisions") {
			for range rapid.IntRange(1, 4).Draw(rt, "events") {
				w.Stir(rt)
			}
			talk(rt, w)
			s := w.State.Snapshot(w.Now)
			leave := make([]bool, len(s.Jobs))
			for i := range leave {
				leave[i] = rapid.Bool().Draw(rt, "leave")
			}
			p.Begin()
			plan := p.Divide(s, Rules{Apart: true, Leave: leave})
			for _, v := range sched.Check(s, plan) {
				rt.Errorf("%s", v)
			}
			for i, j := range s.Jobs {
				if leave[i] && j.Phase == sched.Pending && len(plan.Want[i]) > 0 {
					rt.Errorf("job %s, which is left alone, starts on %s", j.ID, plan.Want[i].Text(s.Cluster))
				}
				if leave[i] && j.Phase == sched.Running && !j.Placement.Shared() && !plan.Want[i].Equal(j.Placement) {
					rt.Errorf("job %s, which is left alone, goes from %s to %s", j.ID, j.Placement.Text(s.Cluster), plan.Want[i].Text(s.Cluster))
				}
			}
			if _, _, err := w.Decide(p); err != nil {
				rt.Fatal(err)
			}
		}
	})
}

// TestLeaveYields: a job that is left where it is leaves if a fixed job takes the last GPUs
// that their tenants may hold, also if only a tenant above them both has a limit.
func TestLeaveYields(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		quota int
		stays bool
	}{{3, false}, {4, true}} {
		w, err := policytest.NewWorld([]sched.Node{{Name: "a", GPUs: 2, Type: "t4"}, {Name: "b", GPUs: 2, Type: "t4"}, {Name: "c", GPUs: 2, Type: "t4"}})
		if err != nil {
			t.Fatal(err)
		}
		for _, tenant := range []sched.Tenant{{ID: "org", Quota: c.quota}, {ID: "team", Parent: "org"}} {
			if err := w.Apply(sched.Event{Kind: sched.TenantSet, Tenant: &tenant}); err != nil {
				t.Fatal(err)
			}
		}
		p := policyOf(usual())
		for i, tenant := range []sched.TenantID{"team", "org"} {
			spec := &sched.Spec{ID: sched.JobID(fmt.Sprint(i)), Tenant: tenant, GPUs: 2, Submitted: w.Now}
			if err := w.Apply(sched.Event{Kind: sched.JobSubmitted, Spec: spec}); err != nil {
				t.Fatal(err)
			}
			if i == 0 {
				if _, _, err := w.Decide(p); err != nil {
					t.Fatal(err)
				}
			}
		}
		s := w.State.Snapshot(w.Now)
		other := (s.Jobs[0].Placement[0].Node + 1) % 3
		p.Begin()
		plan := p.Divide(s, Rules{Leave: []bool{true, false}, Fixed: []sched.Placement{nil, {{Node: other, Milli: sched.WholeGPU, GPUs: 3}}}})
		for _, v := range sched.Check(s, plan) {
			t.Errorf("quota %d: %s", c.quota, v)
		}
		if stays := len(plan.Want[0]) > 0; stays != c.stays || len(plan.Want[1]) == 0 {
			t.Errorf("quota %d: the job that was left has %v, the fixed one %v", c.quota, plan.Want[0], plan.Want[1])
		}
	}
}
