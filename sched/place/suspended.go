// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package place

import (
	"slices"

	"github.com/fairway-gpu/fairway/sched"
)

// goOn takes the GPUs that a suspended job had, if they are free.
func (f *Free) goOn(j *sched.Job) (sched.Placement, bool) {
	p := j.Suspended
	if p.GPUs() == 0 || !f.ready.has(int(p[0].Node)) || !f.Fits(j, p) {
		return nil, false
	}
	f.Take(j, p)
	return p, true
}

// bind makes the sets for suspended jobs, if there are any.
func (r *run) bind() {
	if slices.ContainsFunc(r.s.Jobs, (*sched.Job).Bound) {
		r.kept, r.due = make([]sched.GPUSet, len(r.s.Cluster.Nodes)), make([]sched.GPUSet, len(r.s.Cluster.Nodes))
	}
}

// keep records that a chosen job has GPUs that a suspended one may wait for.
func (r *run) keep(p sched.Placement) {
	if r.kept != nil {
		for _, s := range p {
			r.kept[s.Node] |= s.GPUs
		}
	}
}

// isDue reports whether a suspended job ahead goes on on one of a job's GPUs.
func (r *run) isDue(p sched.Placement) bool {
	return r.due != nil && slices.ContainsFunc(p, func(s sched.Slice) bool { return r.due[s.Node]&s.GPUs != 0 })
}

// goOn takes the GPUs of a suspended job from the budget, if nobody ahead has them.
func (r *run) goOn(j *sched.Job) bool {
	s := j.Suspended[0]
	t, n := r.s.Cluster.TypeOf(int(s.Node)), s.GPUs.Len()
	if r.kept[s.Node]&s.GPUs != 0 || r.budget[t] < n {
		return false
	}
	if !r.pools.take(int(s.Node), t, n) {
		r.pools.take(int(s.Node), t, -n)
		return false
	}
	r.budget[t] -= n
	r.due[s.Node] |= s.GPUs
	r.keep(j.Suspended)
	return true
}
