// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package optimus

import (
	"container/heap"
	"iter"
	"slices"

	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/place"
)

// decision is the work on one plan.
type decision struct {
	s      *sched.Snapshot
	free   *place.Free
	plan   sched.Plan
	quota  place.Quota
	claims []claim // by submission
	budget []int   // GPUs not yet allocated, by type
	alias  sched.Job
}

// begin resets the shares and counts the available GPUs. Jobs that may not be
// stopped keep theirs.
func (d *decision) begin() {
	d.free.Rollback(0)
	d.quota.Clear()
	clear(d.plan.Want)
	d.budget = make([]int, len(d.s.Cluster.Types))
	for t := range d.budget {
		d.budget[t] = d.free.OfType(t)
	}
	for _, j := range d.s.Jobs {
		for _, s := range j.Placement {
			if d.s.Cluster.Nodes[s.Node].State == sched.Cordoned {
				d.budget[d.s.Cluster.TypeOf(int(s.Node))] += s.GPUs.Len()
			}
		}
	}
	for i := range d.claims {
		c := &d.claims[i]
		c.gpus = 0
		if c.pinned && d.keep(c) {
			d.give(c, d.typeOf(c.job), c.job.Placement.GPUs())
		}
	}
}

// typeOf returns the GPU type that a running job runs on.
func (d *decision) typeOf(j *sched.Job) int {
	return d.s.Cluster.TypeOf(int(j.Placement[0].Node))
}

// give adds n GPUs of a type to the share of a job.
func (d *decision) give(c *claim, t, n int) {
	c.pool = t
	c.gpus += n
	d.budget[t] -= n
	d.quota.Add(c.job, n)
}

// share gives every job its smallest size, first come, first served.
func (d *decision) share() {
	for i := range d.claims {
		c := &d.claims[i]
		j := c.job
		if c.gpus > 0 || c.most < c.least || d.quota.Left(j) < c.least || !d.mayRun(j) {
			continue
		}
		for t := range d.pools(j) {
			if d.budget[t] >= c.least && d.ever(c, t) >= c.least {
				d.give(c, t, c.least)
				break
			}
		}
	}
}

// mayRun reports whether a job is running or may be started now.
func (d *decision) mayRun(j *sched.Job) bool {
	return j.Phase == sched.Running || j.Ready(d.s.Now)
}

// pools returns the GPU types that a job may have a share of: the one it runs
// on, then those it accepts, best first.
func (d *decision) pools(j *sched.Job) iter.Seq[int] {
	return func(yield func(int) bool) {
		if j.Phase == sched.Running && !yield(d.typeOf(j)) {
			return
		}
		types := d.s.Cluster.Types
		if len(j.GPUTypes) == 0 {
			for t := range types {
				if !yield(t) {
					return
				}
			}
			return
		}
		for _, want := range j.GPUTypes {
			if t := slices.Index(types, want); t >= 0 && !yield(t) {
				return
			}
		}
	}
}

// ever returns how many GPUs of a type the job could have if nothing else ran, up
// to the most it is offered.
func (d *decision) ever(c *claim, t int) int {
	return d.free.Ever(d.only(c.job, t), c.most, sched.CrossRack)
}

// only returns the job as one that accepts a single GPU type. It is valid until
// the next call.
func (d *decision) only(j *sched.Job, t int) *sched.Job {
	types := d.s.Cluster.Types
	if len(types) == 1 {
		return j
	}
	d.alias = *j
	d.alias.GPUTypes = types[t : t+1]
	return &d.alias
}

// grow gives what is left, step by step, to the job that gains most.
func (d *decision) grow() {
	offers := make(place.Offers, 0, len(d.claims))
	for i := range d.claims {
		c := &d.claims[i]
		if c.gpus == 0 || c.most <= c.gpus || d.budget[c.pool] == 0 {
			continue
		}
		most := d.ever(c, c.pool)
		if next, gain, ok := c.gain(most); ok {
			offers = append(offers, place.Offer{Gain: gain, Job: i, To: next, Most: most})
		}
	}
	heap.Init(&offers)
	for len(offers) > 0 {
		o := &offers[0]
		c := &d.claims[o.Job]
		step := o.To - c.gpus
		// What does not fit now never will: budgets and quotas only shrink.
		if d.budget[c.pool] >= step && d.quota.Left(c.job) >= step {
			d.give(c, c.pool, step)
			var ok bool
			if o.To, o.Gain, ok = c.gain(o.Most); ok {
				heap.Fix(&offers, 0)
				continue
			}
		}
		heap.Pop(&offers)
	}
}
