// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package gavel

import (
	"cmp"
	"slices"
	"time"

	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/place"
)

// round turns shares of time into a plan: the round-based mechanism.
type round struct {
	*policy
	s      *sched.Snapshot
	claims []claim
	begin  time.Time // of the current round
	fresh  bool      // the GPUs of this round are not divided yet
	plan   sched.Plan
	quota  place.Quota
	budget []int // GPUs not yet allocated, by type
	chosen []int // by claim: type; -1: none

	// Of jobs that share.
	shares []share
	with   []int                 // by claim: the claim it was chosen to share with; -1: none
	seated map[sched.Slice][]int // claims on seats
}

func newRound(p *policy, s *sched.Snapshot, claims []claim) *round {
	r := &round{
		policy: p, s: s, claims: claims, begin: s.Now.Truncate(p.Round.D()), fresh: true,
		plan: sched.NewPlan(s), quota: place.NewQuota(s), budget: make([]int, len(s.Cluster.Types)),
	}
	if p.Sharing > 0 {
		r.seated = map[sched.Slice][]int{}
	}
	r.plan.Notes = make([]sched.Note, len(s.Jobs))
	for i, j := range s.Jobs {
		r.plan.Notes[i] = j.Note
		r.fresh = r.fresh && j.Note.Since.Before(r.begin)
	}
	for t := range r.budget {
		r.budget[t] = p.free.OfType(t)
	}
	return r
}

// crowded reports whether a job waits, so that priorities may matter.
func (r *round) crowded() bool {
	return slices.ContainsFunc(r.claims, func(c claim) bool { return c.on < 0 })
}

// run fills in the plan. In a fresh round the jobs with the highest priorities get
// the GPUs; later in a round, running jobs continue, and only free GPUs are
// allocated.
func (r *round) run() {
	r.chosen, r.with = make([]int, len(r.claims)), make([]int, len(r.claims))
	for k := range r.claims {
		r.chosen[k], r.with[k] = -1, -1
		c := &r.claims[k]
		if c.on >= 0 && (!r.fresh || c.j.Pinned()) {
			r.chosen[k] = c.on
			r.resume(k)
		}
	}
	r.choose()
	r.settle()
	r.fill()
	for k := range r.claims {
		r.note(k)
	}
	r.wake()
}

// settle places the chosen jobs: those that stay keep their place; the others
// follow, large before small.
func (r *round) settle() {
	var moving []int
	for k, t := range r.chosen {
		c := &r.claims[k]
		switch {
		case t < 0 || len(r.plan.Want[c.job]) > 0:
		case t == c.on && r.stays(k) && r.resume(k):
		default:
			moving = append(moving, k)
		}
	}
	slices.SortStableFunc(moving, func(a, b int) int { return cmp.Compare(r.claims[b].scale, r.claims[a].scale) })
	for _, k := range moving {
		r.startPair(k, r.chosen[k])
	}
	for _, k := range moving {
		if len(r.plan.Want[r.claims[k].job]) == 0 {
			r.start(k, r.chosen[k])
		}
	}
}

// resume lets a running job continue where it is.
func (r *round) resume(k int) bool {
	c := &r.claims[k]
	stays := c.j.Pinned()
	if !r.free.Fits(c.j, c.j.Placement) || (!stays && !r.quota.FitsMilli(c.j, r.milli(c.j.Placement))) {
		return false
	}
	r.free.Take(c.j, c.j.Placement)
	r.place(k, c.j.Placement)
	return true
}

// start places a job on a type.
func (r *round) start(k, t int) bool {
	c := &r.claims[k]
	if r.free.OfType(t) < c.scale || !r.quota.FitsMilli(c.j, r.holds(c)) {
		return false
	}
	only := c.only(r.s.Cluster.Types[t])
	if c.seats {
		only.MilliGPU = 0 // it gets GPUs without other jobs
	}
	p, ok := r.find(c, &only)
	if !ok {
		return false
	}
	r.place(k, p)
	return true
}

// place records the GPUs that a claim has taken.
func (r *round) place(k int, p sched.Placement) {
	c := &r.claims[k]
	r.quota.AddMilli(c.j, r.milli(p))
	r.plan.Want[c.job] = p
	if r.seated != nil && c.seats && len(p) == 1 && p[0].Milli == seat {
		r.seated[p[0]] = append(r.seated[p[0]], k)
	}
}

// fill gives what is left to jobs that were not chosen: running ones stay, the
// others take their best type, least served first.
func (r *round) fill() {
	var waiting []int
	for k := range r.claims {
		if c := &r.claims[k]; len(r.plan.Want[c.job]) == 0 && r.eligible(c) && (c.on < 0 || !r.goesOn(k)) {
			waiting = append(waiting, k)
		}
	}
	if r.Goal != FIFO {
		slices.SortStableFunc(waiting, func(a, b int) int {
			x, y := &r.claims[a], &r.claims[b]
			return cmp.Compare(x.got.sum()+x.shared.sum(), y.got.sum()+y.shared.sum())
		})
	}
	for _, k := range waiting {
		r.anywhere(k)
	}
	r.fillSeats(waiting)
	for k := range r.claims {
		if c := &r.claims[k]; len(r.plan.Want[c.job]) == 0 {
			r.plan.Why[c.job] = r.why(c)
		}
	}
}

// anywhere starts a job on the fastest type with room for it. A job that runs at
// another size than it asked for counts with the size it asked for while it waits.
func (r *round) anywhere(k int) {
	c := &r.claims[k]
	c.scale = c.j.GPUs
	order := make([]int, len(r.s.Cluster.Types))
	for t := range order {
		order[t] = t
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(c.speedOn(b), c.speedOn(a)) })
	for _, t := range order {
		if c.j.Accepts(r.s.Cluster.Types[t]) && r.start(k, t) {
			return
		}
	}
}

func (c *claim) speedOn(t int) float64 {
	if t >= maxTypes {
		return 0
	}
	return c.speed[t]
}

func (r *round) why(c *claim) sched.Reason {
	if !r.eligible(c) {
		return sched.Reason{Code: sched.BackOff, Until: c.j.NotBefore}
	}
	if !r.quota.FitsMilli(c.j, r.holds(c)) {
		return r.quota.Why(c.j, c.j.GPUs)
	}
	why := r.free.Why(c.j, c.j.GPUs, sched.CrossRack)
	if why.Code == sched.Full {
		why.Code = sched.Behind
	}
	return why
}

// wake asks for the next round if it may differ from this one.
func (r *round) wake() {
	for k := range r.claims {
		c := &r.claims[k]
		if place.Waits(r.plan, c.job) || (len(r.plan.Want[c.job]) > 0 && len(r.s.Cluster.Types) > 1) {
			r.plan.WakeBy(r.s.Now, r.begin.Add(r.Round.D()))
			return
		}
	}
	if r.shared() { // jobs that share may be alone from then on
		r.plan.WakeBy(r.s.Now, r.begin.Add(r.Round.D()))
	}
}
