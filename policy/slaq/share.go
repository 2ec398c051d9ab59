// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package slaq

import (
	"cmp"
	"container/heap"
	"slices"

	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/place"
)

// division is one division of the cluster's GPUs among the jobs, by number.
type division struct {
	*policy
	s      *sched.Snapshot
	lease  place.Lease
	quota  place.Quota
	claims []claim // by submission
	budget []int   // GPUs not yet allocated, by type
	size   []int   // by job: its GPUs; 0: none
	pool   []int   // by job: of which type
	order  []int   // jobs that were given GPUs, in order
}

func newDivision(p *policy, s *sched.Snapshot, lease place.Lease) *division {
	p.fits.prune(len(s.Jobs))
	d := &division{
		policy: p, s: s, lease: lease, quota: place.NewQuota(s), budget: make([]int, len(s.Cluster.Types)),
		size: make([]int, len(s.Jobs)), pool: make([]int, len(s.Jobs)),
	}
	for t := range d.budget {
		d.budget[t] = s.Cluster.GPUsOf(t)
	}
	for _, i := range place.OrderBy(s, func(*sched.Job) (a, b float64) { return 0, 0 }) {
		d.claims = append(d.claims, p.claim(s, i))
	}
	return d
}

// divide gives every job its size, and returns all jobs in the order of placement.
func (d *division) divide() []int {
	fair := d.keep()
	plain, keen := d.queues()
	for _, c := range plain {
		if fair <= 0 {
			break
		}
		if d.first(c, c.job.GPUs) {
			fair -= c.job.GPUs
		}
	}
	for _, c := range keen {
		d.first(c, c.least)
	}
	for _, c := range plain {
		d.first(c, c.least)
	}
	d.grow()
	order := d.order
	for _, c := range slices.Concat(keen, plain) {
		if d.size[c.index] == 0 {
			order = append(order, c.index)
		}
	}
	return order
}

// keep retains the jobs that may not be stopped yet, and returns the rest of the
// fair share of jobs that report nothing.
func (d *division) keep() (fair int) {
	plain, held := 0, 0
	for k := range d.claims {
		c := &d.claims[k]
		if c.plain {
			plain++
		}
		if j := c.job; j.Phase == sched.Running && (j.Pinned() || d.lease.Holds(j)) {
			n := j.Placement.GPUs()
			d.give(c, d.typeOf(j), n)
			if c.plain {
				held += n
			}
		}
	}
	if plain == 0 {
		return 0
	}
	return (d.s.Cluster.GPUs()*plain+len(d.claims)-1)/len(d.claims) - held
}

// queues returns the other jobs in the order of their first units: those without
// reports by least GPU time, the others by predicted gain.
func (d *division) queues() (plain, keen []*claim) {
	type ranked struct {
		*claim
		late bool
		key  float64 // smaller goes first
	}
	var a, b []ranked
	for k := range d.claims {
		c := &d.claims[k]
		if d.size[c.index] > 0 {
			continue
		}
		j := c.job
		r := ranked{claim: c}
		if j.Phase == sched.Pending && d.s.Now.Sub(j.Since) >= d.Patience.D() {
			r.late, r.key = true, -d.s.Now.Sub(j.Since).Seconds()
		}
		if c.plain {
			if !r.late {
				r.key = j.AttainedBy(d.s.Now)
			}
			a = append(a, r)
			continue
		}
		if !r.late {
			r.key = -c.gain(c.least) / float64(c.least)
		}
		b = append(b, r)
	}
	sorted := func(of []ranked) []*claim {
		slices.SortStableFunc(of, func(x, y ranked) int {
			if x.late != y.late {
				if x.late {
					return -1
				}
				return 1
			}
			return cmp.Compare(x.key, y.key)
		})
		out := make([]*claim, len(of))
		for i, r := range of {
			out[i] = r.claim
		}
		return out
	}
	return sorted(a), sorted(b)
}

// typeOf returns the GPU type that a running job runs on.
func (d *division) typeOf(j *sched.Job) int { return d.s.Cluster.TypeOf(int(j.Placement[0].Node)) }

// first gives a job without GPUs n GPUs of a type it accepts, the one it runs on if
// that has room.
func (d *division) first(c *claim, n int) bool {
	j := c.job
	if d.size[c.index] > 0 || d.quota.Left(j) < n || (j.Phase == sched.Pending && !j.Ready(d.s.Now)) ||
		d.free.Ever(j, n, sched.CrossRack) < n {
		return false
	}
	if j.Phase == sched.Running {
		if t := d.typeOf(j); d.budget[t] >= n {
			d.give(c, t, n)
			return true
		}
	}
	types := j.GPUTypes
	if len(types) == 0 {
		types = d.s.Cluster.Types
	}
	for _, want := range types {
		if t := slices.Index(d.s.Cluster.Types, want); t >= 0 && d.budget[t] >= n {
			d.give(c, t, n)
			return true
		}
	}
	return false
}

// give adds n GPUs of a type to what a job has.
func (d *division) give(c *claim, t, n int) {
	if d.size[c.index] == 0 {
		d.order = append(d.order, c.index)
	}
	d.pool[c.index] = t
	d.size[c.index] += n
	d.budget[t] -= n
	d.quota.Add(c.job, n)
}

// grow gives what is left, step by step, to the job that gains most.
func (d *division) grow() {
	var offers place.Offers
	for k := range d.claims {
		c := &d.claims[k]
		n := d.size[c.index]
		kept := c.job.Phase == sched.Running && d.lease.Holds(c.job)
		if n == 0 || n >= c.most || kept || d.budget[d.pool[c.index]] == 0 {
			continue
		}
		if to, gain, ok := c.step(n); ok {
			offers = append(offers, place.Offer{Gain: gain, Job: k, To: to})
		}
	}
	heap.Init(&offers)
	for len(offers) > 0 {
		o := &offers[0]
		c := &d.claims[o.Job]
		n := d.size[c.index]
		if more := o.To - n; d.budget[d.pool[c.index]] >= more && d.quota.Left(c.job) >= more {
			d.give(c, d.pool[c.index], more)
			n = o.To
		} else {
			c.most = o.To - 1 // it never will fit: budgets and quotas only shrink
		}
		var ok bool
		if o.To, o.Gain, ok = c.step(n); ok {
			heap.Fix(&offers, 0)
		} else {
			heap.Pop(&offers)
		}
	}
}
