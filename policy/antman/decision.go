// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package antman

import (
	"math/bits"
	"slices"

	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/place"
)

// decision is the work on one plan.
type decision struct {
	*policy
	s     *sched.Snapshot
	order []int // jobs by submission
	plan  sched.Plan
	quota place.Quota

	guaranteed []bool // by job: it has the guarantee
	firm       []bool // by job: it runs with the guarantee
	stride     int    // between the GPUs of two nodes
	host       []int  // by GPU: 1 + the job that holds most of it; 0: none
	guest      []int  // by GPU: 1 + the job that holds a small part; 0: none
	open       []sched.GPUSet
	failed     []misfit
}

// guaranteed, as Note.Level, marks a job that runs with the guarantee.
const guaranteed = 1

func newDecision(p *policy, s *sched.Snapshot) *decision {
	c := s.Cluster
	d := &decision{
		policy: p, s: s, plan: sched.NewPlan(s), quota: place.NewQuota(s),
		order:      place.OrderBy(s, func(*sched.Job) (a, b float64) { return 0, 0 }),
		guaranteed: make([]bool, len(s.Jobs)), firm: make([]bool, len(s.Jobs)),
		stride: c.MaxGPUs(), open: make([]sched.GPUSet, len(c.Nodes)),
	}
	d.host, d.guest = make([]int, len(c.Nodes)*d.stride), make([]int, len(c.Nodes)*d.stride)
	d.plan.Suspend = true
	for i := range c.Nodes {
		if c.Nodes[i].State == sched.Ready {
			d.open[i] = c.Nodes[i].Usable()
		}
	}
	return d
}

// classify determines who has the guarantee: running jobs that had it, then the
// others in order of submission, as far as the quotas reach.
func (d *decision) classify() {
	common := d.s.Cluster.GPUs()
	left := make([]int, len(d.s.Tenants)+1) // by tenant; the last one is the common quota
	for t := range d.s.Tenants {
		left[t] = d.s.Quota(t)
		common -= left[t]
	}
	left[len(d.s.Tenants)] = max(0, common)
	whole := sched.Guarantees(slices.Clone(left))
	take := func(i int) {
		j := d.s.Jobs[i]
		t, n := whole.Of(d.s, j), gpus(j)
		if left[t] >= n {
			left[t] -= n
			d.guaranteed[i] = true
		} else if n <= whole[t] {
			left[t] = 0 // kept for it
		}
	}
	for _, i := range d.order {
		if d.had(d.s.Jobs[i]) {
			take(i)
		}
	}
	for _, i := range d.order {
		j := d.s.Jobs[i]
		if !d.had(j) && d.mayRun(j) && d.hosts.Ever(j, gpus(j), sched.CrossRack) >= gpus(j) {
			take(i)
		}
	}
}

// had reports whether a job already runs with the guarantee.
func (d *decision) had(j *sched.Job) bool {
	return j.Phase == sched.Running && j.Note.Level == guaranteed && !d.small(j.Placement)
}

func (d *decision) mayRun(j *sched.Job) bool {
	return j.Phase == sched.Running || j.Ready(d.s.Now)
}

// gpus returns the GPUs a job runs on or asks for.
func gpus(j *sched.Job) int {
	if j.Phase == sched.Running {
		return j.Placement.GPUs()
	}
	return j.GPUs
}

// small reports whether a placement is that of a guest.
func (d *decision) small(p sched.Placement) bool { return len(p) > 0 && int(p[0].Milli) <= d.Guest }

// each calls yield with the index of every GPU of a placement until it returns
// false; it reports whether it never did.
func (d *decision) each(p sched.Placement, yield func(gpu int) bool) bool {
	for _, s := range p {
		for g := s.GPUs; g != 0; g &= g - 1 {
			if !yield(int(s.Node)*d.stride + bits.TrailingZeros64(uint64(g))) {
				return false
			}
		}
	}
	return true
}

// run lets a job run on GPUs that are free for it.
func (d *decision) run(i int, p sched.Placement) {
	j := d.s.Jobs[i]
	d.plan.Want[i], d.plan.Why[i] = p, sched.Reason{}
	d.quota.AddMilli(j, p.Milli())
	d.live.Take(j, p)
	small := d.small(p)
	closes := small || !j.Shareable || j.GPUUtil == 0 || j.GPUUtil >= d.Busy
	d.each(p, func(gpu int) bool {
		if small {
			d.guest[gpu] = 1 + i
		} else {
			d.host[gpu] = 1 + i
		}
		return true
	})
	for _, s := range p {
		if closes {
			d.open[s.Node] &^= s.GPUs
		}
		whole := sched.Placement{{Node: s.Node, Milli: sched.WholeGPU, GPUs: s.GPUs}}
		d.idle.Take(j, whole) // some of these GPUs may be taken already: this adds the CPUs
		if !small {
			d.hosts.Take(j, whole)
		}
	}
}

// fits reports whether a job can hold a placement beside the jobs that run so far.
func (d *decision) fits(i int, p sched.Placement) bool {
	j := d.s.Jobs[i]
	if !d.live.Fits(j, p) {
		return false
	}
	small := d.small(p)
	for _, s := range p {
		node := &d.s.Cluster.Nodes[s.Node]
		if !d.each(sched.Placement{s}, func(gpu int) bool {
			with := d.guest[gpu]
			if small {
				if with != 0 {
					return false
				}
				with = d.host[gpu]
			} else if d.host[gpu] != 0 {
				return false
			}
			if with == 0 {
				return true
			}
			other := d.s.Jobs[with-1]
			if small {
				return d.suit(other, j, node) && !d.apart(other, j)
			}
			return d.suit(j, other, node)
		}) {
			return false
		}
	}
	return true
}

// suit reports whether an opportunistic job may share the GPUs of another job on a
// node.
func (d *decision) suit(host, guest *sched.Job, node *sched.Node) bool {
	return host.Shareable && guest.Shareable && host.GPUUtil > 0 && guest.GPUUtil > 0 && host.GPUUtil < d.Busy &&
		host.GPUUtil+guest.GPUUtil <= d.MaxUtil && (node.GPUMemory == 0 || host.GPUMemory+guest.GPUMemory <= node.GPUMemory) &&
		d.bound.Holds(string(node.Type), []float64{host.GPUUtil, guest.GPUUtil})
}

// apart reports whether such a guest has harmed such a host.
func (d *decision) apart(host, guest *sched.Job) bool {
	_, bad := d.harmed.Get(host, guest)
	return bad
}

// keep leaves jobs where they are: those that are not preemptible, then those that
// run with the guarantee.
func (d *decision) keep() {
	for _, i := range d.order {
		if j := d.s.Jobs[i]; j.Phase == sched.Running && j.Pinned() {
			d.run(i, j.Placement)
			d.firm[i] = d.guaranteed[i] && !d.small(j.Placement)
		}
	}
	for _, i := range d.order {
		j := d.s.Jobs[i]
		if d.had(j) && !j.Pinned() && d.guaranteed[i] && d.fits(i, j.Placement) {
			d.run(i, j.Placement)
			d.firm[i] = true
		}
	}
}
