// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package place

import (
	"cmp"
	"math"
	"slices"

	"github.com/fairway-gpu/fairway/sched"
)

// Quota counts the GPUs of tenants against their limits, and those of pinned jobs
// against what their tenants are guaranteed, a part of a GPU as that part.
type Quota struct {
	s          *sched.Snapshot
	guarantees sched.Guarantees
	used       []int // by tenant, with all below it: thousandths of GPUs
	pinned     []int // by guarantee
}

// NewQuota returns a count in which nobody holds anything.
func NewQuota(s *sched.Snapshot) Quota {
	g := s.Guarantees()
	return Quota{s: s, guarantees: g, used: make([]int, len(s.Tenants)), pinned: make([]int, len(g))}
}

// Clear forgets what was added.
func (q Quota) Clear() {
	clear(q.used)
	clear(q.pinned)
}

// Add books n whole GPUs for the job's tenant.
func (q Quota) Add(j *sched.Job, n int) { q.AddMilli(j, n*sched.WholeGPU) }

// AddMilli books thousandths of GPUs for the job's tenant.
func (q Quota) AddMilli(j *sched.Job, milli int) {
	if t, ok := q.s.Tenant(j); ok {
		for ; t >= 0; t = q.s.Parent(t) {
			q.used[t] += milli
		}
	}
	if j.Pinned() {
		q.pinned[q.guarantees.Of(q.s, j)] += milli
	}
}

// Left returns how many whole GPUs the job's tenant may still take for it: less than
// none if it is over its limit. A tenant that nobody declared has no limit.
func (q Quota) Left(j *sched.Job) int {
	return int(math.Floor(float64(q.left(j)) / sched.WholeGPU))
}

// Fits reports whether the job's tenant may hold that placement on top of what
// it holds.
func (q Quota) Fits(j *sched.Job, p sched.Placement) bool { return q.FitsMilli(j, p.Milli()) }

// FitsMilli reports whether the job's tenant may hold thousandths of GPUs on top
// of what it holds.
func (q Quota) FitsMilli(j *sched.Job, milli int) bool {
	return milli <= q.left(j)
}

// left is Left in thousandths of GPUs.
func (q Quota) left(j *sched.Job) int {
	left := q.within(j)
	if j.Pinned() {
		g := q.guarantees.Of(q.s, j)
		left = min(left, q.guarantees[g]-q.pinned[g])
	}
	return left
}

// within returns what the limits of the job's tenant and of those above it leave, in
// thousandths of GPUs: less than none if one of them is exceeded.
func (q Quota) within(j *sched.Job) int {
	left := sched.NoLimit * sched.WholeGPU
	if t, ok := q.s.Tenant(j); ok {
		for ; t >= 0; t = q.s.Parent(t) {
			left = min(left, q.s.Tenants[t].Limit()*sched.WholeGPU-q.used[t])
		}
	}
	return left
}

// Used returns how many GPUs the tenant with that index holds, rounded up.
func (q Quota) Used(t int) int { return (q.used[t] + sched.WholeGPU - 1) / sched.WholeGPU }

// Why gives the reason for a job that is over its tenant's limit or guarantee.
func (q Quota) Why(j *sched.Job, n int) sched.Reason {
	why := sched.Reason{Code: sched.OverQuota, Need: n, Have: q.Left(j)}
	if j.Pinned() {
		if q.within(j) >= n*sched.WholeGPU {
			why.Code = sched.OverGuarantee
		}
	}
	return why
}

// Withheld returns which waiting jobs may not start because they could not be
// preempted and their tenant's guarantee is used up by the jobs submitted before
// them; nil: none. It is for policies that weigh all jobs at once: others ask
// Left in their own order.
func Withheld(s *sched.Snapshot) []bool {
	quota := NewQuota(s)
	if !slices.ContainsFunc(s.Tenants, func(t sched.Tenant) bool { return t.Quota > 0 }) {
		return nil
	}
	empty := NewFree(s.Cluster)
	var waiting []int
	for i, j := range s.Jobs {
		switch {
		case j.Phase == sched.Running:
			quota.AddMilli(j, j.Placement.Milli())
		case j.Pinned() && j.Ready(s.Now) && empty.Ever(j, j.GPUs, sched.CrossRack) >= j.GPUs:
			waiting = append(waiting, i)
		}
	}
	slices.SortFunc(waiting, func(a, b int) int { return cmp.Compare(s.Jobs[a].Seq, s.Jobs[b].Seq) })
	var out []bool
	for _, i := range waiting {
		j := s.Jobs[i]
		g := quota.guarantees.Of(s, j)
		milli := j.GPUs * sched.WholeGPU
		t, ok := s.Tenant(j)
		never := ok && j.GPUs > s.Limit(t) // it takes nothing from others
		if !never && quota.pinned[g]+milli <= quota.guarantees[g] {
			quota.pinned[g] += milli
			continue
		}
		if out == nil {
			out = make([]bool, len(s.Jobs))
		}
		out[i] = true
	}
	return out
}
