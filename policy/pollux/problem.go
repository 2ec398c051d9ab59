// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package pollux

import (
	"cmp"
	"slices"

	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/place"
)

// problem is a snapshot as a search sees it: what each job may have, and what that
// costs. It does not change during a search.
type problem struct {
	fitness
	s     *sched.Snapshot
	apart bool // a node hosts at most one job that spans several nodes

	jobs     []job       // those that a search may move, by Seq
	fixed    int         // number of the others: pinned, or waiting for a back-off to end
	rest     float64     // sum of their costs
	none     float64     // cost of a job without GPUs
	share    int         // GPUs of a fair share
	scale    float64     // of every value: nodes for each GPU
	withheld []bool      // by job in the snapshot: it may not start (place.Withheld)
	limits   []int       // by tenant: GPUs that its movable jobs may hold; 0 if it has no limit
	free     *place.Free // holds only the pinned jobs
	blank    *board      // the same as a board

	reaches map[demand][]reach // by type
}

// newProblem prepares a snapshot. Free is a view in which every GPU is free.
func newProblem(s *sched.Snapshot, c Config, free *place.Free, known *curves) *problem {
	p := &problem{
		fitness: fitness{c.P}, s: s, apart: c.Apart, free: free,
		jobs: make([]job, 0, len(s.Jobs)), limits: make([]int, len(s.Tenants)), reaches: map[demand][]reach{},
	}
	p.none = p.cost(0)
	p.divide()
	pinned := p.sort()
	for _, j := range pinned {
		free.Take(j.Job, j.Placement)
		if t, ok := s.Tenant(j.Job); ok {
			p.limits[t] = max(0, p.limits[t]-j.Placement.GPUs())
		}
	}
	p.blank = newBoard(p, pinned)
	for i := range p.jobs {
		p.prepare(&p.jobs[i], c, known)
	}
	for i := range pinned {
		j := &pinned[i]
		p.prepare(j, c, known)
		p.rest += p.cost(p.rowValue(j, rowOf(j.Placement)))
	}
	return p
}

// divide computes the fair share of a job, and the limits of the tenants.
func (p *problem) divide() {
	c, nodes := p.s.Cluster, 0
	for _, n := range c.Nodes {
		if n.State != sched.Down && n.Usable() != 0 {
			nodes++
		}
	}
	jobs := max(1, len(p.s.Jobs))
	p.scale = float64(nodes) / float64(max(1, c.GPUs()))
	p.share = max(1, (c.GPUs()+jobs-1)/jobs)
	for i, t := range p.s.Tenants {
		if limit := t.Limit(); limit < sched.NoLimit {
			p.limits[i] = limit
		}
	}
}

// sort collects the jobs that may be moved, and returns the pinned ones.
func (p *problem) sort() (pinned []job) {
	p.withheld = place.Withheld(p.s)
	for i, j := range p.s.Jobs {
		switch {
		case j.Phase == sched.Running && j.Pinned():
			pinned = append(pinned, job{Job: j, index: i})
		case j.Phase == sched.Pending && !j.Ready(p.s.Now) || p.withheld != nil && p.withheld[i]:
			p.rest += p.none
			p.fixed++
		default:
			p.jobs = append(p.jobs, job{Job: j, index: i})
		}
	}
	p.fixed += len(pinned)
	bySeq := func(a, b job) int { return cmp.Compare(a.Seq, b.Seq) }
	slices.SortFunc(p.jobs, bySeq)
	slices.SortFunc(pinned, bySeq)
	return pinned
}

// spreadLoss is the fraction of its speed that a job without a model is assumed to
// lose across nodes, and again across racks: just enough to prefer a compact
// placement.
const spreadLoss = 1e-3

// value returns what n GPUs of a kind at a span are worth to a job: its speed
// relative to a fair share (equation 15), before the cost of a restart.
func (p *problem) value(k *kind, at span, n int) float64 {
	if k.curve == nil {
		return p.scale * float64(n) / float64(p.share) * (1 - spreadLoss*float64(at))
	}
	return p.scale * k.curve.goodput(at, n) / k.fair
}

// rowValue returns what a row is worth to the job, before the cost of a restart. A
// row of several types counts as the type of its first node.
func (p *problem) rowValue(j *job, r row) float64 {
	if len(r) == 0 {
		return 0
	}
	if k := j.kind(p.s.Cluster.TypeOf(int(r[0].node))); k != nil {
		return p.value(k, p.spanOf(r), r.gpus())
	}
	return 0
}

// spanOf returns how far apart the slots of a row are.
func (p *problem) spanOf(r row) span {
	if len(r) < 2 {
		return local
	}
	rack := p.s.Cluster.RackOf(int(r[0].node))
	for _, s := range r[1:] {
		if p.s.Cluster.RackOf(int(s.node)) != rack {
			return far
		}
	}
	return near
}

// rowCost returns the cost of a row, including that of a restart.
func (p *problem) rowCost(j *job, r row) float64 {
	switch {
	case len(r) == 0:
		return p.none
	case len(j.held) > 0 && r.same(j.held):
		return j.heldCost
	}
	return p.cost(j.factor * p.rowValue(j, r))
}

// reachOf returns how many GPUs of each type a demand could get.
func (p *problem) reachOf(d demand) []reach {
	if known, ok := p.reaches[d]; ok {
		return known
	}
	c := p.s.Cluster
	out := make([]reach, len(c.Types))
	racks := make([]int, len(c.Racks)*len(c.Types))
	for i := range c.Nodes {
		n, t := p.blank.room(d, i), c.TypeOf(i)
		in := &racks[c.RackOf(i)*len(c.Types)+t]
		*in += n
		out[t].node = max(out[t].node, n)
		out[t].rack = max(out[t].rack, *in)
		out[t].all += n
	}
	p.reaches[d] = out
	return out
}

// digest hashes what a search depends on, independently of the snapshot's order: it
// seeds this decision.
func (p *problem) digest() uint64 {
	h := uint64(14695981039346656037) // FNV-1a, by words
	mix := func(x uint64) { h = (h ^ x) * 1099511628211 }
	mix(uint64(p.s.Now.UnixNano()))
	for i := range p.jobs {
		j := &p.jobs[i]
		mix(uint64(j.Seq))
		mix(uint64(j.Starts))
		for _, s := range j.held {
			mix(uint64(s.node)<<32 | uint64(s.gpus))
		}
	}
	return h
}
