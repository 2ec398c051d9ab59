// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package sched

import (
	"cmp"
	"maps"
	"slices"
)

// Tenants may be bounded by type of GPU (Tenant.MaxByType). No policy counts by type: each
// is shown a world in which jobs accept only the types that their tenants have room for, in
// order of priority and submission. What running jobs hold counts as theirs, so a bound is
// kept whatever a policy, or somebody who changes its plan, does with the jobs.

// Ask asks a policy for its plan.
func Ask(p Policy, s *Snapshot) Plan {
	b := newBounds(s)
	if b == nil {
		return Tie(s, p.Schedule(s))
	}
	return Tie(s, b.tell(p.Schedule(b.confine())))
}

// bound is one of the bounds: a tenant, with all below it, and a type.
type bound struct {
	tenant int
	gpu    GPUType
}

// bounds are the bounds by type in a snapshot.
type bounds struct {
	s    *Snapshot
	left map[bound]int // thousandths of GPUs
	why  []Reason      // by job: why it must not start
}

// newBounds returns the bounds with nothing held; nil: there are none.
func newBounds(s *Snapshot) *bounds {
	if !slices.ContainsFunc(s.Tenants, func(t Tenant) bool { return len(t.MaxByType) > 0 }) {
		return nil
	}
	b := &bounds{s: s, left: map[bound]int{}}
	for i, t := range s.Tenants {
		for gpu, n := range t.MaxByType {
			b.left[bound{i, gpu}] = n * WholeGPU
		}
	}
	return b
}

// room returns how much of a type the bounds leave to a job, in thousandths of GPUs;
// bounded: there are any.
func (b *bounds) room(j *Job, gpu GPUType) (milli int, bounded bool) {
	milli = NoLimit * WholeGPU
	t, ok := b.s.Tenant(j)
	for ; ok && t >= 0; t = b.s.Parent(t) {
		if left, has := b.left[bound{t, gpu}]; has {
			milli, bounded = min(milli, left), true
		}
	}
	return milli, bounded
}

// take counts what a job holds of a type, and reports whether a bound is exceeded.
func (b *bounds) take(j *Job, gpu GPUType, milli int) (over bool) {
	t, ok := b.s.Tenant(j)
	for ; ok && t >= 0; t = b.s.Parent(t) {
		if left, has := b.left[bound{t, gpu}]; has {
			b.left[bound{t, gpu}] = left - milli
			over = over || left < milli
		}
	}
	return over
}

// types returns the types in the cluster that a job accepts, best first.
func (b *bounds) types(j *Job) []GPUType {
	if len(j.GPUTypes) == 0 {
		return b.s.Cluster.Types
	}
	return slices.DeleteFunc(slices.Clone(j.GPUTypes), func(t GPUType) bool { return !slices.Contains(b.s.Cluster.Types, t) })
}

// confine returns the world that keeps the bounds.
func (b *bounds) confine() *Snapshot {
	jobs := slices.Clone(b.s.Jobs)
	var waiting []int
	for i, j := range jobs {
		switch {
		case j.Phase == Running:
			b.hold(j)
		case j.Ready(b.s.Now):
			waiting = append(waiting, i)
		}
	}
	for i, j := range jobs { // those that run may grow before others start
		if j.Phase == Running && !j.Pinned() {
			jobs[i] = b.stay(j)
		}
	}
	slices.SortFunc(waiting, func(a, c int) int {
		return cmp.Or(cmp.Compare(jobs[c].Priority, jobs[a].Priority), cmp.Compare(jobs[a].Seq, jobs[c].Seq))
	})
	b.why = make([]Reason, len(jobs))
	for _, i := range waiting {
		if jobs[i], b.why[i] = b.start(jobs[i]); b.why[i].Code != Ok {
			paused := *jobs[i]
			paused.Paused = true
			jobs[i] = &paused
		}
	}
	return b.s.With(jobs)
}

// hold counts a running job at the size it may come to: one that is screened will have all
// it asks for.
func (b *bounds) hold(j *Job) {
	for _, s := range j.Placement {
		b.take(j, b.s.Cluster.Nodes[s.Node].Type, s.GPUs.Len()*int(s.Milli))
	}
	if more := (j.GPUs - j.Placement.GPUs()) * int(j.Milli()); more > 0 && !j.Elastic() {
		b.take(j, b.typeOf(j), more)
	}
}

// typeOf returns the type of GPU that a job runs on.
func (b *bounds) typeOf(j *Job) GPUType { return b.s.Cluster.Nodes[j.Placement[0].Node].Type }

// stay returns a running job that grows only as far as there is room, and does not move to
// another type that is bounded.
func (b *bounds) stay(j *Job) *Job {
	on := b.typeOf(j)
	left, bounded := b.room(j, on)
	types := slices.DeleteFunc(slices.Clone(b.types(j)), func(t GPUType) bool {
		_, also := b.room(j, t)
		return also && t != on
	})
	all := len(types) == len(b.types(j))
	if all && !(bounded && j.Elastic()) {
		return j
	}
	c := *j
	if !all {
		c.GPUTypes = types
	}
	if held := j.Placement.GPUs(); bounded && j.Elastic() {
		c.resize(max(held, j.LargestSize(held+max(0, left)/int(j.Milli()))))
		b.take(j, on, max(0, c.MaxGPUs-held)*int(j.Milli()))
	}
	return &c
}

// resize bounds the size of an elastic job.
func (j *Job) resize(most int) {
	j.GPUs = cmp.Or(j.LargestSize(min(j.GPUs, most)), most)
	j.MaxGPUs = min(j.MaxGPUs, most)
}

// start returns a waiting job that accepts only types that there is room for, or why it is
// to wait.
func (b *bounds) start(j *Job) (*Job, Reason) {
	least := j.NextSize(0)
	types, best, limited := b.types(j), 0, false
	if t := j.tied(); t != nil {
		types, least = []GPUType{b.s.Cluster.Nodes[t[0].Node].Type}, t.GPUs()
	}
	if t := j.Suspended; len(t) > 0 { // a policy may let it go on where it is, whatever types it accepts
		if left, bounded := b.room(j, b.s.Cluster.Nodes[t[0].Node].Type); bounded && left < t.Milli() {
			return j, Reason{Code: OverQuota, Need: t.GPUs(), Have: max(0, left) / int(j.Milli())}
		}
	}
	fits, most := make([]GPUType, 0, len(types)), NoLimit
	for _, t := range types {
		left, bounded := b.room(j, t)
		limited = limited || bounded
		if n := left / int(j.Milli()); n >= least {
			fits, most = append(fits, t), min(most, n)
		} else {
			best = max(best, n)
		}
	}
	switch {
	case !limited || least == 0: // one without a size never runs
		return j, Reason{}
	case len(fits) == 0:
		return j, Reason{Code: OverQuota, Need: least, Have: best}
	}
	c := *j
	c.GPUTypes = fits
	if j.Elastic() {
		c.resize(j.LargestSize(min(most, j.MaxGPUs)))
	}
	size := c.GPUs
	if j.Elastic() {
		size = c.MaxGPUs
	}
	for _, t := range fits {
		b.take(j, t, size*int(j.Milli()))
	}
	return &c, Reason{}
}

// tell says why jobs wait for which there is no room: the policy has seen them as paused.
func (b *bounds) tell(p Plan) Plan {
	if len(p.Want) != len(b.why) || len(p.Why) != len(b.why) {
		return p // the policy has a bug, which Decide reports
	}
	p.Why = slices.Clone(p.Why) // it may be the policy's own
	for i, why := range b.why {
		if why.Code != Ok {
			p.Why[i] = why
		}
	}
	return p
}

// checkTypes reports tenants that start jobs on a type of which they then hold too much.
func (c *checker) checkTypes() {
	b := newBounds(c.s)
	if b == nil {
		return
	}
	starts := map[bound]bool{}
	for i, j := range c.s.Jobs {
		for _, s := range c.p.Want[i] {
			if int(s.Node) >= len(c.s.Cluster.Nodes) || s.Node < 0 {
				return // reported already
			}
			gpu := c.s.Cluster.Nodes[s.Node].Type
			b.take(j, gpu, s.GPUs.Len()*int(s.Milli))
			t, ok := c.s.Tenant(j)
			for ; ok && t >= 0 && j.Phase == Pending; t = c.s.Parent(t) {
				starts[bound{t, gpu}] = true
			}
		}
	}
	for i, t := range c.s.Tenants {
		for _, gpu := range slices.Sorted(maps.Keys(t.MaxByType)) {
			if left := b.left[bound{i, gpu}]; left < 0 && starts[bound{i, gpu}] {
				c.fail("quota", nil, "tenant %s would hold %g GPUs of type %s; its limit is %d", t.ID, float64(t.MaxByType[gpu])-float64(left)/WholeGPU, gpu, t.MaxByType[gpu])
			}
		}
	}
}
