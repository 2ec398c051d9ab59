// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package philly

import (
	"cmp"
	"slices"

	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/place"
)

// Schedule implements sched.Policy.
func (p *policy) Schedule(s *sched.Snapshot) sched.Plan {
	p.free = p.free.For(s.Cluster)
	p.ideal.Reset(s.Cluster)
	d := decision{
		policy: p, s: s, plan: sched.NewPlan(s), quota: place.NewQuota(s), search: search{free: p.free},
		failed: map[wish]bool{}, hopeless: map[wish]bool{}, reasons: map[wish]sched.Reason{},
	}
	d.plan.Notes = make([]sched.Note, len(s.Jobs))
	d.declare()
	d.keep()
	if p.Gather {
		d.gather()
	}
	d.serve(func(v *vc) *[]int { return &v.queue }, d.within)
	d.serve(func(v *vc) *[]int { return &v.over }, d.borrow)
	return d.plan
}

// decision is the work on one plan.
type decision struct {
	*policy
	s      *sched.Snapshot
	plan   sched.Plan
	search search
	quota  place.Quota
	vcs    []vc // by index of the tenant; the last one is for tenants without a quota
	pool   bool // no tenant has a quota

	// Free GPUs only decrease while jobs are placed, so what did not fit once does
	// not fit again, and what preemption could not do it cannot do later. A
	// preemption clears all three, and a gang that lets go of its GPUs the first two.
	failed   map[wish]bool
	hopeless map[wish]bool
	reasons  map[wish]sched.Reason

	victims  []int // running jobs of VCs above their quota, the youngest run first
	searched bool  // victims is filled
	lost     []int // scratch: GPUs taken from each VC

	kept map[int]sched.Placement // with Config.Gather: what incomplete gangs keep, by index of the job
}

// vc is a virtual cluster.
type vc struct {
	quota  int
	held   int
	weight float64
	queue  []int // jobs that wait, by index, in order
	over   []int // those that the quota does not cover
}

// wish is what a job insists on at its rung.
type wish struct {
	ask
	rung rung
}

func (d *decision) declare() {
	all := d.s.Cluster.GPUs()
	d.vcs = make([]vc, len(d.s.Tenants)+1)
	rest := all
	for i, share := range d.s.Shares() {
		d.vcs[i] = vc{quota: d.s.Quota(i), weight: share}
		rest -= d.vcs[i].quota
	}
	d.pool = rest == all
	d.vcs[len(d.s.Tenants)] = vc{quota: max(0, rest), weight: 1}
}

// of returns the index of a job's VC.
func (d *decision) of(j *sched.Job) int {
	t, ok := d.s.Tenant(j)
	for ; ok && t >= 0; t = d.s.Parent(t) {
		if d.pool || d.vcs[t].quota > 0 || d.s.Tenants[t].Borrow {
			return t
		}
	}
	return len(d.vcs) - 1
}

// hold charges GPUs for a job; a negative number returns them.
func (d *decision) hold(j *sched.Job, n int) {
	d.vcs[d.of(j)].held += n
	d.quota.Add(j, n)
}

// keep leaves running jobs where they are and puts the others into the queues
// of their VCs.
func (d *decision) keep() {
	for i, j := range d.s.Jobs {
		if j.Phase == sched.Running && d.free.Fits(j, j.Placement) {
			d.free.Take(j, j.Placement)
			d.hold(j, j.Placement.GPUs())
			d.plan.Want[i] = j.Placement
			continue
		}
		v := &d.vcs[d.of(j)]
		v.queue = append(v.queue, i)
	}
	for i := range d.vcs {
		slices.SortFunc(d.vcs[i].queue, func(a, b int) int {
			x, y := d.s.Jobs[a], d.s.Jobs[b]
			return cmp.Or(cmp.Compare(y.Priority, x.Priority), x.Submitted.Compare(y.Submitted), cmp.Compare(x.Seq, y.Seq))
		})
	}
}

// serve calls try for every job of the VCs' lists, always for the next job of the
// VC with the lowest usage.
func (d *decision) serve(list func(*vc) *[]int, try func(v *vc, i int)) {
	for {
		var v *vc
		for i := range d.vcs {
			if w := &d.vcs[i]; len(*list(w)) > 0 && (v == nil || d.usage(w) < d.usage(v)) {
				v = w
			}
		}
		if v == nil {
			return
		}
		// While the VC gets nothing, it stays first.
		queue, held := list(v), v.held
		for len(*queue) > 0 && v.held == held {
			i := (*queue)[0]
			*queue = (*queue)[1:]
			try(v, i)
		}
	}
}

// usage returns the fraction of its share that a VC holds.
func (d *decision) usage(v *vc) float64 {
	switch {
	case d.pool:
		return float64(v.held) / v.weight
	case v.quota > 0:
		return float64(v.held) / float64(v.quota)
	}
	return 1 + float64(v.held)
}

// within serves a job if its VC's quota covers it, and defers it otherwise.
func (d *decision) within(v *vc, i int) {
	j := d.s.Jobs[i]
	d.plan.Notes[i] = j.Note
	d.letGo(i)
	ask, ok := d.ask(j)
	switch {
	case j.Phase == sched.Pending && !j.Ready(d.s.Now):
		d.plan.Why[i] = sched.Reason{Code: sched.BackOff, Until: j.NotBefore}
	case !ok:
		d.plan.Why[i] = d.free.Why(j, ask.GPUs, sched.CrossRack)
	case d.quota.Left(j) < ask.GPUs:
		d.plan.Why[i] = d.quota.Why(j, ask.GPUs)
	case !d.pool && v.held+ask.GPUs > v.quota:
		v.over = append(v.over, i)
		d.takeBack(i) // until it is its turn to borrow
	default:
		d.try(i, ask, true)
	}
}

// borrow serves a job from what VCs within their quota leave idle.
func (d *decision) borrow(v *vc, i int) {
	j := d.s.Jobs[i]
	d.letGo(i)
	ask, _ := d.ask(j)
	idle := min(d.quota.Left(j), d.idle(j))
	if idle < ask.GPUs {
		d.plan.Why[i] = sched.Reason{Code: sched.OverQuota, Need: ask.GPUs, Have: max(idle, v.quota-v.held)}
		return
	}
	d.try(i, ask, false)
}

// ask is what a job asks for, and the best that the cluster could give it.
type ask struct {
	place.Shape
	best locality
}

// ask returns what a job asks for; ok is false if the cluster cannot give it.
func (d *decision) ask(j *sched.Job) (a ask, ok bool) {
	a.Shape = place.ShapeOf(j, j.StartSize())
	a.best = d.ideal.Of(j, a.Shape, func(empty *place.Free, j *sched.Job) locality {
		return (&search{free: empty}).ideal(j, a.GPUs)
	})
	return a, a.best.nodes > 0
}

// try lets a job make its attempt, if one is in progress. covered says that its
// VC's quota covers the job.
func (d *decision) try(i int, ask ask, covered bool) {
	j := d.s.Jobs[i]
	a := d.attempt(j, d.s.Now)
	w := wish{ask, a.rung}
	if a.open {
		p, ok := d.find(j, w)
		if !ok && covered {
			p, ok = d.preempt(j, w)
		}
		if ok {
			d.hold(j, w.GPUs)
			d.plan.Want[i], d.plan.Notes[i] = p, sched.Note{}
			return
		}
	}
	why := d.why(j, w)
	if !a.open && why.Code == sched.Fragmented && why.Have >= why.Need {
		why = sched.Reason{Code: sched.BackOff}
	}
	why.Until = a.next
	d.plan.Why[i], d.plan.Notes[i] = why, a.note()
	d.plan.WakeBy(d.s.Now, a.next)
	if d.Gather && a.open {
		if !d.takeBack(i) {
			d.keepPart(i, w)
		}
		d.plan.WakeBy(d.s.Now, a.next.Add(-d.BackOff.D())) // others may have them then
	}
}

// find takes GPUs for a wish, unless it is known to fail.
func (d *decision) find(j *sched.Job, w wish) (sched.Placement, bool) {
	if d.failed[w] {
		return nil, false
	}
	p, ok := d.search.find(j, w)
	d.failed[w] = !ok
	return p, ok
}

// why returns the reason why a job with that wish waits.
func (d *decision) why(j *sched.Job, w wish) sched.Reason {
	r, known := d.reasons[w]
	if !known {
		r = d.fragmented(j, w)
		d.reasons[w] = r
	}
	return r
}

func (d *decision) fragmented(j *sched.Job, w wish) sched.Reason {
	level := w.best.level(w.rung)
	r := d.free.Why(j, w.GPUs, level)
	switch {
	case r.Code == sched.Full && !d.pool:
		r.Code, r.Level = sched.Fragmented, sched.CrossRack
	case r.Code == sched.Fragmented && w.rung == fewest && w.best.nodes > 1:
		gpus, _, rack := d.search.most(j, w.best.nodes)
		r.Have, r.Where = gpus, int32(rack+1)
	}
	return r
}

// idle returns the largest number of free GPUs of one kind that the job accepts.
func (d *decision) idle(j *sched.Job) int {
	most := 0
	for t, name := range d.s.Cluster.Types {
		if j.Accepts(name) {
			most = max(most, d.free.OfType(t))
		}
	}
	return most
}
