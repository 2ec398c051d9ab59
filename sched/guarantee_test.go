// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package sched_test

import (
	"testing"

	"github.com/fairway-gpu/fairway/sched"
)

func TestGuarantees(t *testing.T) {
	jobs := []sched.Spec{{ID: "a", GPUs: 1, Tenant: "own"}, {ID: "b", GPUs: 1, Tenant: "none"}, {ID: "c", GPUs: 1}}
	for _, c := range []struct {
		name    string
		tenants []sched.Tenant
		want    []int // GPUs that bound each job
	}{
		{"no quotas", []sched.Tenant{{ID: "own"}, {ID: "none"}}, []int{sched.NoLimit, sched.NoLimit, sched.NoLimit}},
		{"a quota", []sched.Tenant{{ID: "own", Quota: 6, Borrow: true}, {ID: "none"}}, []int{6, 16, 16}},
		{"more quota than GPUs", []sched.Tenant{{ID: "own", Quota: 100}, {ID: "none"}}, []int{100, 0, 0}},
	} {
		st := world(t, func(apply func(sched.Event)) {
			for _, tenant := range c.tenants {
				apply(sched.Event{Kind: sched.TenantSet, Tenant: &tenant})
			}
			for _, spec := range jobs {
				apply(submit(spec))
			}
		})
		s := st.Snapshot(start)
		g := s.Guarantees()
		for i, j := range s.Jobs {
			if got := g[g.Of(s, j)] / sched.WholeGPU; got != c.want[i] {
				t.Errorf("%s: pinned jobs like %s may hold %d GPUs; want %d", c.name, j.ID, got, c.want[i])
			}
		}
	}
}
