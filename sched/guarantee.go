// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package sched

// Guarantees bound what pinned jobs may hold: GPUs that nobody can take back
// have to be the tenant's own, or those of a tenant above it that no other has. Tenants
// without any, and jobs of no declared tenant, share what no quota covers. Where there are no quotas there is no
// bound.
type Guarantees []int // thousandths of GPUs, by tenant; the last is what no quota covers

// Guarantees returns the bounds in this world.
func (s *Snapshot) Guarantees() Guarantees {
	g := make(Guarantees, len(s.Tenants)+1)
	owned := 0
	for i := range s.Tenants {
		g[i] = s.Quota(i) * WholeGPU
		if s.Parent(i) < 0 {
			owned += s.Owned(i)
		}
	}
	g[len(s.Tenants)] = NoLimit * WholeGPU
	if owned > 0 {
		g[len(s.Tenants)] = max(0, s.Cluster.GPUs()-owned) * WholeGPU
	}
	return g
}

// Of returns the index of the bound that holds for a job.
func (g Guarantees) Of(s *Snapshot, j *Job) int {
	i, ok := s.Tenant(j)
	if !ok {
		return len(g) - 1
	}
	return g.OfTenant(s, i)
}

// OfTenant returns the index of the bound that holds for jobs of a tenant.
func (g Guarantees) OfTenant(s *Snapshot, i int) int {
	for ; i >= 0; i = s.Parent(i) {
		if g[i] > 0 {
			return i
		}
	}
	return len(g) - 1
}
