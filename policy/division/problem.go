// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package division

import (
	"cmp"
	"slices"

	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/place"
)

// problem is a snapshot as a search sees it: what each job may have, and what that
// costs. It does not change during a search.
type problem struct {
	Rules
	objective Objective
	s         *sched.Snapshot

	jobs      []Job       // those that a search may move, by Seq
	stays     []bool      // by job in the snapshot: it runs, and the division leaves it there
	waits     []Job       // that the division leaves waiting
	still     int         // number of the others: fixed, or waiting for a back-off to end
	rest      float64     // sum of their costs, but for those of stays
	none      float64     // cost of a job without GPUs
	withheld  []bool      // by job in the snapshot: it may not start (place.Withheld)
	limited   []bool      // by tenant: there is a limit to what it may hold
	someLimit bool        // for some tenant there is
	limits    []int       // by tenant: GPUs that its movable jobs may hold, where limited
	free      *place.Free // holds only the fixed jobs
	blank     *board      // the same as a board

	reaches map[demand][]reach // by type
	open    map[demand][]int   // see openTo
	memory  *memory
}

// newProblem prepares a snapshot. Free is a view in which every GPU is free.
func newProblem(s *sched.Snapshot, r Rules, o Objective, free *place.Free, known *Curves, m *memory) *problem {
	o.Begin(s)
	m.reset()
	p := &problem{
		Rules: r, objective: o, s: s, free: free, memory: m, none: o.Idle(),
		limited: make([]bool, len(s.Tenants)), limits: make([]int, len(s.Tenants)), reaches: map[demand][]reach{}, open: map[demand][]int{},
	}
	p.withheld = place.Withheld(s)
	p.yield()
	p.limit()
	fixed, running := p.sort()
	for i := range fixed {
		p.take(fixed[i].Job, p.fixedAt(&fixed[i]))
	}
	p.leave(running)
	p.blank = newBoard(p)
	for i := range fixed {
		p.blank.hold(fixed[i].Job, p.fixedAt(&fixed[i]))
	}
	for _, i := range running {
		if p.stays[i] {
			p.blank.hold(s.Jobs[i], s.Jobs[i].Placement)
		}
	}
	for i := range p.jobs {
		p.prepare(&p.jobs[i], known)
	}
	for i := range p.waits { // nobody asks for their costs
		p.describe(&p.waits[i])
		p.accept(&p.waits[i], nil)
	}
	for i := range fixed {
		j := &fixed[i]
		p.prepare(j, known)
		p.rest += p.costAt(j, rowOf(p.fixedAt(j)), true)
	}
	return p
}

// take books the place of a fixed job.
func (p *problem) take(j *sched.Job, at sched.Placement) {
	p.free.Take(j, at)
	if t, ok := p.s.Tenant(j); ok {
		p.limits[t] = max(0, p.limits[t]-at.GPUs())
	}
}

// yield takes in jobs that were to be left where they are, but for which the fixed jobs leave
// no GPUs within the limits of their tenants and of those above.
func (p *problem) yield() {
	if p.Leave == nil || p.Fixed == nil || len(p.s.Tenants) == 0 {
		return
	}
	quota := place.NewQuota(p.s)
	for i, j := range p.s.Jobs {
		quota.AddMilli(j, p.fixedAt(&Job{Job: j, Index: i}).Milli())
	}
	for i, j := range p.s.Jobs {
		if !p.Leave[i] || p.fixedAt(&Job{Job: j, Index: i}) != nil {
			continue
		}
		if p.Leave[i] = quota.Fits(j, j.Placement); p.Leave[i] {
			quota.AddMilli(j, j.Placement.Milli())
		}
	}
}

// leave fixes running jobs where they are, by index. Those that the fixed jobs leave no
// room are moved with the others.
func (p *problem) leave(running []int) {
	if len(running) == 0 {
		return
	}
	p.stays = make([]bool, len(p.s.Jobs))
	moved := len(p.jobs)
	for _, i := range running {
		j := p.s.Jobs[i]
		if !p.free.Fits(j, j.Placement) {
			p.jobs = append(p.jobs, Job{Job: j, Index: i})
			continue
		}
		p.stays[i] = true
		p.still++
		p.take(j, j.Placement)
	}
	if len(p.jobs) > moved {
		slices.SortFunc(p.jobs, bySeq)
	}
}

func bySeq(a, b Job) int { return cmp.Compare(a.Seq, b.Seq) }

// limit finds the limits of the tenants.
func (p *problem) limit() {
	for i, limit := range p.caps() {
		if p.Limits != nil {
			limit = min(limit, p.Limits[i])
		}
		if limit < sched.NoLimit {
			p.limited[i], p.limits[i], p.someLimit = true, limit, true
		}
	}
}

// caps returns the limits of the tenants' own jobs.
func (p *problem) caps() []int {
	want, firm := make([]int, len(p.s.Tenants)), make([]int, len(p.s.Tenants))
	var able []*sched.Job
	if p.s.Nested() {
		for i, j := range p.s.Jobs {
			t, ok := p.s.Tenant(j)
			if !ok || j.Phase == sched.Pending && !p.able(i) {
				continue
			}
			job := Job{Job: j, Index: i}
			at := p.fixedAt(&job)
			if at == nil && p.Leave != nil && p.Leave[i] {
				at = j.Placement
			}
			if at == nil {
				able = append(able, j)
			}
			firm[t] += at.GPUs()
			want[t] += max(j.GPUs, j.MaxGPUs, at.GPUs())
		}
	}
	slices.SortFunc(able, func(a, b *sched.Job) int { return cmp.Compare(a.Seq, b.Seq) })
	return p.s.Caps(want, firm, able)
}

// able reports whether a waiting job could start if it had GPUs.
func (p *problem) able(i int) bool {
	j := p.s.Jobs[i]
	n := j.NextSize(0)
	return j.Ready(p.s.Now) && (p.withheld == nil || !p.withheld[i]) && n > 0 && p.free.Ever(j, n, sched.CrossRack) >= n
}

// fixedAt returns where a job has to be; nil: anywhere.
func (p *problem) fixedAt(j *Job) sched.Placement {
	if j.Phase == sched.Running && (j.Pinned() || p.stays != nil && p.stays[j.Index]) {
		return j.Placement
	}
	if p.Fixed != nil {
		return p.Fixed[j.Index]
	}
	return nil
}

// sort collects the jobs that may be moved, and returns those that have a fixed place and,
// by index, those that the division leaves where they run.
func (p *problem) sort() (fixed []Job, running []int) {
	if p.jobs = p.memory.jobs; p.Leave == nil {
		p.jobs = slices.Grow(p.jobs, len(p.s.Jobs))
	} else {
		running = make([]int, 0, len(p.s.Jobs))
	}
	for i, j := range p.s.Jobs {
		job := Job{Job: j, Index: i}
		switch {
		case p.fixedAt(&job) != nil:
			fixed = append(fixed, job)
		case j.Phase == sched.Pending && !j.Ready(p.s.Now) || p.withheld != nil && p.withheld[i]:
			p.rest += p.none
			p.still++
		case p.Leave == nil || !p.Leave[i] || j.Placement.Shared():
			p.jobs = append(p.jobs, job)
		case j.Phase == sched.Running:
			running = append(running, i)
		default:
			p.waits = append(p.waits, job)
		}
	}
	p.memory.jobs = p.jobs
	p.still += len(fixed) + len(p.waits)
	p.rest += float64(len(p.waits)) * p.none
	slices.SortFunc(p.jobs, bySeq)
	slices.SortFunc(fixed, bySeq)
	slices.SortFunc(running, func(a, b int) int { return cmp.Compare(p.s.Jobs[a].Seq, p.s.Jobs[b].Seq) })
	return fixed, running
}

// costAt returns what a row costs a job that keeps it, or moves there. A row of
// several types counts as the type of its first node.
func (p *problem) costAt(j *Job, r row, kept bool) float64 {
	if len(r) == 0 {
		return p.none
	}
	if k := j.kind(p.s.Cluster.TypeOf(int(r[0].node))); k != nil {
		return p.objective.Cost(j, k, p.spanOf(r), r.gpus(), kept)
	}
	return p.none
}

// spanOf returns how far apart the slots of a row are.
func (p *problem) spanOf(r row) Span {
	if len(r) < 2 {
		return Local
	}
	rack := p.s.Cluster.RackOf(int(r[0].node))
	for _, s := range r[1:] {
		if p.s.Cluster.RackOf(int(s.node)) != rack {
			return Far
		}
	}
	return Near
}

// rowCost returns the cost of a row, including that of a restart.
func (p *problem) rowCost(j *Job, r row) float64 {
	switch {
	case len(r) == 0:
		return p.none
	case len(j.held) > 0 && r.same(j.held):
		return j.heldCost
	}
	return p.costAt(j, r, false)
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
