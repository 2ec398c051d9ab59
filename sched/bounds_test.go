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

// TestBoundsBeside: a policy sees jobs in sizes for which their tenants have CPUs and memory
// left, and the bounds of a parent hold for all below it.
func TestBoundsBeside(t *testing.T) {
	c, err := NewCluster([]Node{{Name: "a", GPUs: 8, Type: "h100", CPUs: 64}, {Name: "b", GPUs: 8, Type: "t4", CPUs: 64}})
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
	apply(Event{Kind: TenantSet, Tenant: &Tenant{ID: "org", MaxCPUs: 32, MaxMemory: 100}})
	apply(Event{Kind: TenantSet, Tenant: &Tenant{ID: "team", Parent: "org", MaxCPUs: 20}})
	submit := func(s Spec) { apply(Event{Kind: JobSubmitted, Spec: &s}) }
	submit(Spec{ID: "runs", Tenant: "team", GPUs: 1, MinGPUs: 1, MaxGPUs: 8, CPUs: 4})
	apply(Event{Kind: JobStarted, Job: "runs", Placement: Placement{{Node: 0, Milli: WholeGPU, GPUs: FirstGPUs(1)}}})
	submit(Spec{ID: "second", Tenant: "team", GPUs: 1, CPUs: 1})
	submit(Spec{ID: "light", Tenant: "team", GPUs: 4})
	submit(Spec{ID: "grows", Tenant: "org", GPUs: 1, MinGPUs: 1, MaxGPUs: 8, CPUs: 4, Memory: 40})
	submit(Spec{ID: "large", Tenant: "org", GPUs: 2, Memory: 20})
	submit(Spec{ID: "nowhere", Tenant: "org", GPUs: 1, CPUs: 99, GPUTypes: []GPUType{"v100"}})
	submit(Spec{ID: "other", GPUs: 8, CPUs: 8})
	asked := &asked{}
	s := st.Snapshot(time.Time{})
	plan := Ask(asked, s)
	// The running job may grow to the 20 CPUs of the team. Of the 32 of org 12 are left, and its
	// memory is enough for two GPUs of the one that grows.
	want := []string{"runs [] 5", "light [] 0", "grows [h100 t4] 2", "nowhere [v100] 0", "other [] 0"}
	if !slices.Equal(asked.saw, want) {
		t.Errorf("the policy saw %q; want %q", asked.saw, want)
	}
	if a, b := plan.Why[1], plan.Why[4]; a != (Reason{Code: OverQuota, Need: 1}) || b != (Reason{Code: OverQuota, Need: 2, Have: 1}) {
		t.Errorf("second waits because %+v, large because %+v; want the bounds of CPUs and memory", a, b)
	}
	if n := s.LimitOf(1, &Job{Spec: Spec{CPUs: 3}}, "h100"); n != 6 {
		t.Errorf("a job of team with 3 CPUs for each GPU may have %d; want 6", n)
	}
	bad := NewPlan(s)
	for i := range bad.Why {
		bad.Why[i].Code = Full
	}
	bad.Want[0], bad.Why[0] = Placement{{Node: 0, Milli: WholeGPU, GPUs: FirstGPUs(5)}}, Reason{}
	bad.Want[1], bad.Why[1] = Placement{{Node: 0, Milli: WholeGPU, GPUs: 1 << 6}}, Reason{}
	if v := Check(s, bad); len(v) != 1 || v[0].Text != "tenant team would hold 21 CPUs; its limit is 20" {
		t.Errorf("violations %v; want the bound of team", v)
	}
	for _, x := range []struct {
		tenant Tenant
		want   string
	}{
		{Tenant{ID: "x", MaxCPUs: -1}, "tenant x: max_cpus = -1; want 0 (no bound) or more"},
		{Tenant{ID: "x", MaxMemory: -1}, "tenant x: max_memory = -1; want 0 (no bound) or more bytes"},
	} {
		if err := x.tenant.Validate(); err == nil || err.Error() != x.want {
			t.Errorf("got %v; want %s", err, x.want)
		}
	}
}
