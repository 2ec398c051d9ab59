// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package sched

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
)

// Tenants may be bounded by type of GPU, and in the CPUs and memory that their jobs ask for
// (Tenant.Bounded). No policy counts these: each is shown a world in which jobs accept only the
// types, and the sizes, that their tenants have room for, in order of priority and submission.
// What running jobs hold counts as theirs, so a bound is kept whatever a policy, or somebody who
// changes its plan, does with the jobs.

// Ask asks a policy for its plan.
func Ask(p Policy, s *Snapshot) Plan {
	b := newBounds(s)
	if b == nil {
		return Tie(s, p.Schedule(s))
	}
	return Tie(s, b.tell(p.Schedule(b.confine())))
}

// bound is one of the bounds: a tenant, with all below it, and a type of GPU or what jobs need
// beside GPUs.
type bound struct {
	tenant int
	gpu    GPUType
	beside Beside
}

// Beside is what jobs need of a node for each GPU.
type Beside string

const (
	BesideCPUs   Beside = "CPUs"
	BesideMemory Beside = "GiB of memory"
)

// Besides are all of them.
var Besides = []Beside{BesideCPUs, BesideMemory}

// Amount prints a number of CPUs, or of bytes, in the unit that the name has.
func (b Beside) Amount(n int64) string {
	if b == BesideCPUs {
		return strconv.FormatInt(n, 10)
	}
	return strconv.FormatFloat(float64(n)/(1<<30), 'g', 4, 64)
}

// Of returns how much a job asks for, for each GPU: CPUs or bytes.
func (b Beside) Of(j *Job) int64 {
	if b == BesideCPUs {
		return int64(j.CPUs)
	}
	return j.Memory
}

// Most returns the bound of a tenant; 0: it has none.
func (b Beside) Most(t Tenant) int64 {
	if b == BesideCPUs {
		return int64(t.MaxCPUs)
	}
	return t.MaxMemory
}

// bounds are the bounds in a snapshot that no policy counts.
type bounds struct {
	s    *Snapshot
	left map[bound]int64 // thousandths of GPUs of a type, or what is beside them
	why  []Reason        // by job: why it must not start
}

// newBounds returns the bounds with nothing held; nil: there are none.
func newBounds(s *Snapshot) *bounds {
	if !slices.ContainsFunc(s.Tenants, Tenant.Bounded) {
		return nil
	}
	b := &bounds{s: s, left: map[bound]int64{}}
	for i, t := range s.Tenants {
		for gpu, n := range t.MaxByType {
			b.left[bound{tenant: i, gpu: gpu}] = int64(n) * WholeGPU
		}
		for _, x := range Besides {
			if most := x.Most(t); most > 0 {
				b.left[bound{tenant: i, beside: x}] = most
			}
		}
	}
	return b
}

// above calls do with each tenant whose bounds a job counts against.
func (b *bounds) above(j *Job, do func(t int)) {
	t, ok := b.s.Tenant(j)
	for ; ok && t >= 0; t = b.s.Parent(t) {
		do(t)
	}
}

// room returns how much of a type the bounds leave to a job, in thousandths of GPUs;
// bounded: there are any.
func (b *bounds) room(j *Job, gpu GPUType) (milli int, bounded bool) {
	milli = NoLimit * WholeGPU
	b.above(j, func(t int) {
		if left, has := b.left[bound{tenant: t, gpu: gpu}]; has {
			milli, bounded = min(milli, int(left)), true
		}
	})
	return milli, bounded
}

// beside returns for how many GPUs of a job the bounds leave what it needs beside them;
// bounded: there are any.
func (b *bounds) beside(j *Job) (gpus int, bounded bool) {
	gpus = NoLimit
	b.above(j, func(t int) {
		for _, x := range Besides {
			left, has := b.left[bound{tenant: t, beside: x}]
			if each := x.Of(j); has && each > 0 {
				gpus, bounded = int(min(int64(gpus), max(0, left)/each)), true
			}
		}
	})
	return gpus, bounded
}

// take counts what a job holds of a type.
func (b *bounds) take(j *Job, gpu GPUType, milli int) {
	b.above(j, func(t int) {
		if left, has := b.left[bound{tenant: t, gpu: gpu}]; has {
			b.left[bound{tenant: t, gpu: gpu}] = left - int64(milli)
		}
	})
}

// takeBeside counts what a job holds beside so many GPUs.
func (b *bounds) takeBeside(j *Job, gpus int) {
	b.above(j, func(t int) {
		for _, x := range Besides {
			if left, has := b.left[bound{tenant: t, beside: x}]; has {
				b.left[bound{tenant: t, beside: x}] = left - int64(gpus)*x.Of(j)
			}
		}
	})
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
	gpus := j.Placement.GPUs()
	if more := j.GPUs - gpus; more > 0 && !j.Elastic() {
		b.take(j, b.typeOf(j), more*int(j.Milli()))
		gpus = j.GPUs
	}
	b.takeBeside(j, gpus)
}

// typeOf returns the type of GPU that a job runs on.
func (b *bounds) typeOf(j *Job) GPUType { return b.s.Cluster.Nodes[j.Placement[0].Node].Type }

// stay returns a running job that grows only as far as there is room, and does not move to
// another type that is bounded.
func (b *bounds) stay(j *Job) *Job {
	on := b.typeOf(j)
	left, bounded := b.room(j, on)
	beside, also := b.beside(j)
	grows := j.Elastic() && (bounded || also)
	types := slices.DeleteFunc(slices.Clone(b.types(j)), func(t GPUType) bool {
		_, also := b.room(j, t)
		return also && t != on
	})
	all := len(types) == len(b.types(j))
	if all && !grows {
		return j
	}
	c := *j
	if !all {
		c.GPUTypes = types
	}
	if held := j.Placement.GPUs(); grows {
		c.resize(max(held, j.LargestSize(held+min(beside, max(0, left)/int(j.Milli())))))
		more := max(0, c.MaxGPUs-held)
		b.take(j, on, more*int(j.Milli()))
		b.takeBeside(j, more)
	}
	return &c
}

// resize bounds the size of an elastic job.
func (j *Job) resize(most int) {
	j.GPUs = cmp.Or(j.LargestSize(min(j.GPUs, most)), most)
	j.MaxGPUs = min(j.MaxGPUs, most)
}

// start returns a waiting job that accepts only types and sizes that there is room for, or why
// it is to wait.
func (b *bounds) start(j *Job) (*Job, Reason) {
	least := j.NextSize(0)
	types, best := b.types(j), 0
	beside, limited := b.beside(j)
	if t := j.tied(); t != nil {
		types, least = []GPUType{b.s.Cluster.Nodes[t[0].Node].Type}, t.GPUs()
	}
	if t := j.Suspended; len(t) > 0 { // a policy may let it go on where it is, whatever types it accepts
		left, _ := b.room(j, b.s.Cluster.Nodes[t[0].Node].Type)
		if have := min(beside, max(0, left)/int(j.Milli())); left < t.Milli() || beside < t.GPUs() {
			return j, Reason{Code: OverQuota, Need: t.GPUs(), Have: have}
		}
	}
	fits, most := make([]GPUType, 0, len(types)), NoLimit
	for _, t := range types {
		left, bounded := b.room(j, t)
		limited = limited || bounded
		if n := min(beside, left/int(j.Milli())); n >= least {
			fits, most = append(fits, t), min(most, n)
		} else {
			best = max(best, n)
		}
	}
	switch {
	case !limited || least == 0 || len(types) == 0: // one without a size, or a type, never runs
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
	b.takeBeside(j, size)
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

// checkBounds reports tenants that start jobs on a type of which they then hold too much, or
// with too much beside their GPUs.
func (c *checker) checkBounds() {
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
			b.takeBeside(j, s.GPUs.Len())
			if j.Phase != Pending {
				continue
			}
			b.above(j, func(t int) {
				starts[bound{tenant: t, gpu: gpu}] = true
				for _, x := range Besides {
					starts[bound{tenant: t, beside: x}] = starts[bound{tenant: t, beside: x}] || x.Of(j) > 0
				}
			})
		}
	}
	for i, t := range c.s.Tenants {
		for _, gpu := range slices.Sorted(maps.Keys(t.MaxByType)) {
			at := bound{tenant: i, gpu: gpu}
			if left := b.left[at]; left < 0 && starts[at] {
				c.fail("quota", nil, "tenant %s would hold %g GPUs of type %s; its limit is %d", t.ID, float64(t.MaxByType[gpu])-float64(left)/WholeGPU, gpu, t.MaxByType[gpu])
			}
		}
		for _, x := range Besides {
			at := bound{tenant: i, beside: x}
			if left := b.left[at]; left < 0 && starts[at] {
				c.fail("quota", nil, "tenant %s would hold %s %s; its limit is %s", t.ID, x.Amount(x.Most(t)-left), x, x.Amount(x.Most(t)))
			}
		}
	}
}
