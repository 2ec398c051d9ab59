// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package optimus

import (
	"cmp"
	"slices"

	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/place"
)

// place turns shares into placements: unchanged ones stay, then the smallest goes
// first. It reports whether every job got all of its share; a job that did not will
// be offered no more than it got.
func (d *decision) place() bool {
	var moves []*claim
	for i := range d.claims {
		c := &d.claims[i]
		switch {
		case c.gpus == 0 || len(d.plan.Want[c.index]) > 0:
		case d.stay(c, c.gpus):
		default:
			moves = append(moves, c)
		}
	}
	slices.SortStableFunc(moves, func(a, b *claim) int { return cmp.Compare(a.gpus, b.gpus) })
	all := true
	for _, c := range moves {
		if n := d.settle(c); n < c.gpus {
			d.quota.Add(c.job, n-c.gpus)
			c.gpus, c.most = n, n
			all = false
		}
	}
	return all
}

// stay lets a running job continue where it is, if that is n GPUs of its pool.
func (d *decision) stay(c *claim, n int) bool {
	return c.job.Phase == sched.Running && n == c.job.Placement.GPUs() && c.pool == d.typeOf(c.job) && d.keep(c)
}

// keep lets a running job continue where it is, if its GPUs are still free.
func (d *decision) keep(c *claim) bool {
	if c.job.Phase != sched.Running || !d.free.Fits(c.job, c.job.Placement) {
		return false
	}
	d.free.Take(c.job, c.job.Placement)
	d.plan.Want[c.index] = c.job.Placement
	return true
}

// settle places a job at its share, or at the largest smaller size that fits, and
// returns that size.
func (d *decision) settle(c *claim) int {
	j := c.job
	for n := c.gpus; n >= c.least; n = before(j, n) {
		if d.stay(c, n) {
			return n
		}
		if d.free.OfType(c.pool) < n {
			continue
		}
		if p, ok := place.MostFree(d.free, d.only(j, c.pool), n); ok {
			d.plan.Want[c.index] = p
			return n
		}
	}
	return 0
}

// fill offers what is still free to the jobs without GPUs, first come, first
// served, and sets the reasons of the others.
func (d *decision) fill() {
	for i := range d.claims {
		c := &d.claims[i]
		if len(d.plan.Want[c.index]) == 0 {
			d.plan.Why[c.index] = d.rest(c)
		}
	}
}

// rest gives a job some of what is left, or returns the reason why not.
func (d *decision) rest(c *claim) sched.Reason {
	j := c.job
	switch {
	case !d.mayRun(j):
		return sched.Reason{Code: sched.BackOff, Until: j.NotBefore}
	case d.quota.Left(j) < c.least:
		return d.quota.Why(j, c.least)
	}
	if d.quota.Left(j) >= j.Placement.GPUs() && d.keep(c) {
		d.quota.Add(j, j.Placement.GPUs())
		return sched.Reason{}
	}
	if d.free.Total() >= c.least {
		if p, ok := place.MostFree(d.free, j, c.least); ok {
			d.quota.Add(j, c.least)
			d.plan.Want[c.index] = p
			return sched.Reason{}
		}
	}
	why := d.free.Why(j, c.least, sched.CrossRack)
	if why.Code == sched.Full {
		why.Code = sched.Behind
	}
	return why
}

// changeable reports whether a job runs whose share a later decision could change
// without any event.
func (d *decision) changeable() bool {
	return slices.ContainsFunc(d.claims, func(c claim) bool { return c.elastic && len(d.plan.Want[c.index]) > 0 })
}
