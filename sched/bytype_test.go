// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package sched

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// TestBoundsByType: a policy sees jobs that accept only types their tenants have room for.
func TestBoundsByType(t *testing.T) {
	c, err := NewCluster([]Node{{Name: "a", GPUs: 8, Type: "h100"}, {Name: "b", GPUs: 8, Type: "t4"}})
	if err != nil {
		t.Fatal(err)
	}
	st := NewState(c)
	apply := func(e Event) {
		t.Helper()
		if err := st.Apply(e); err != nil {
			t.Fatal(err)
		}
	}
	apply(Event{Kind: TenantSet, Tenant: &Tenant{ID: "org", MaxByType: map[GPUType]int{"h100": 4}}})
	apply(Event{Kind: TenantSet, Tenant: &Tenant{ID: "team", Parent: "org"}})
	submit := func(s Spec) { apply(Event{Kind: JobSubmitted, Spec: &s}) }
	submit(Spec{ID: "runs", Tenant: "team", GPUs: 2, MinGPUs: 1, MaxGPUs: 8})
	apply(Event{Kind: JobStarted, Job: "runs", Placement: Placement{{Node: 0, Milli: WholeGPU, GPUs: FirstGPUs(2)}}})
	submit(Spec{ID: "anywhere", Tenant: "team", GPUs: 2})
	submit(Spec{ID: "fast", Tenant: "org", GPUs: 1, GPUTypes: []GPUType{"h100"}})
	submit(Spec{ID: "nowhere", Tenant: "team", GPUs: 1, GPUTypes: []GPUType{"v100"}})
	submit(Spec{ID: "other", GPUs: 8, GPUTypes: []GPUType{"h100"}})
	asked := &asked{}
	plan := Ask(asked, st.Snapshot(time.Time{}))
	// The elastic job may grow to all that is left, so nobody else has room on h100.
	want := []string{"runs [] 4", "anywhere [t4] 0", "nowhere [v100] 0", "other [h100] 0"}
	if !slices.Equal(asked.saw, want) {
		t.Errorf("the policy saw %q; want %q", asked.saw, want)
	}
	if why := plan.Why[2]; len(plan.Want) != 5 || why != (Reason{Code: OverQuota, Need: 1}) {
		t.Errorf("fast waits because %+v; want the bound", why)
	}
	bad := NewPlan(st.Snapshot(time.Time{}))
	for i := range bad.Why {
		bad.Why[i].Code = Full
	}
	bad.Want[0], bad.Why[0] = Placement{{Node: 0, Milli: WholeGPU, GPUs: FirstGPUs(4)}}, Reason{}
	bad.Want[2], bad.Why[2] = Placement{{Node: 0, Milli: WholeGPU, GPUs: 1 << 5}}, Reason{}
	if v := Check(st.Snapshot(time.Time{}), bad); len(v) != 1 || v[0].Text != "tenant org would hold 5 GPUs of type h100; its limit is 4" {
		t.Errorf("violations %v; want the bound of org", v)
	}
	if err := (Tenant{ID: "x", MaxByType: map[GPUType]int{"h100": -1}}).Validate(); err == nil || err.Error() != "tenant x: max_by_type.h100 = -1; want the name of a type, and 0 or more GPUs" {
		t.Error(err)
	}
}

// asked is a policy that notes which jobs may run, and how.
type asked struct{ saw []string }

func (a *asked) Schedule(s *Snapshot) Plan {
	p := NewPlan(s)
	for i, j := range s.Jobs {
		if !j.Paused {
			a.saw = append(a.saw, fmt.Sprintf("%s %v %d", j.ID, j.GPUTypes, j.MaxGPUs))
		}
		p.Why[i].Code = Full
	}
	return p
}
