// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package gavel

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/fairway-gpu/fairway/place"
	"github.com/fairway-gpu/fairway/sched"
)

// round turns shares of time into a plan: the round-based mechanism.
type round struct {
	*policy
	s      *sched.Snapshot
	claims []claim
	begin  time.Time // of the round that it is now
	fresh  bool      // nobody has divided the GPUs in this round yet
	plan   sched.Plan
	quota  place.Quota
	budget []int // GPUs not spoken for, by type
}

func newRound(p *policy, s *sched.Snapshot, claims []claim) *round {
	r := &round{
		policy: p, s: s, claims: claims, begin: s.Now.Truncate(p.Round.D()), fresh: true,
		plan: sched.NewPlan(s), quota: place.NewQuota(s), budget: make([]int, len(s.Cluster.Types)),
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

// crowded reports whether some job waits, so that its priority may matter.
func (r *round) crowded() bool {
	return slices.ContainsFunc(r.claims, func(c claim) bool { return c.on < 0 })
}

// run fills in the plan. In a fresh round the jobs with the highest priorities
// get the GPUs; later in a round, jobs that run go on, and only GPUs that are
// free are given away.
func (r *round) run() {
	chosen := make([]int, len(r.claims)) // type for each claim; -1: none
	for k := range r.claims {
		chosen[k] = -1
		c := &r.claims[k]
		if c.on >= 0 && (!r.fresh || c.j.NonPreemptible) {
			chosen[k] = c.on
			r.resume(c)
		}
	}
	r.choose(chosen)
	r.settle(chosen)
	r.fill()
	for k := range r.claims {
		r.note(&r.claims[k])
	}
	r.wake()
}

// bid is a job's wish for a type.
type bid struct {
	claim    int
	gpuType  int
	priority float64
	time     float64
}

// bids returns all wishes, the strongest first.
func (r *round) bids(chosen []int) []bid {
	var out []bid
	for k := range r.claims {
		c := &r.claims[k]
		if chosen[k] >= 0 || !r.eligible(c) {
			continue
		}
		for t, x := range c.time {
			if x > 0 {
				out = append(out, bid{k, t, r.priority(c, t), x})
			}
		}
	}
	slices.SortFunc(out, func(a, b bid) int {
		return cmp.Or(cmp.Compare(b.priority, a.priority), cmp.Compare(b.time, a.time),
			cmp.Compare(a.claim, b.claim), cmp.Compare(a.gpuType, b.gpuType))
	})
	return out
}

func (r *round) eligible(c *claim) bool { return c.on >= 0 || c.j.Ready(r.s.Now) }

// never is the priority of a job that was never on a type, for all of its time.
const never = 1e9

// priority is how far a job is behind its share on a type.
func (r *round) priority(c *claim, t int) float64 {
	x := c.time[t]
	if r.Goal == Shortest { // it is not about shares: those who gain most for each GPU go first
		return c.gain[t] / float64(c.scale)
	}
	if c.on == t {
		x *= r.Stick
	}
	if c.got[t] == 0 {
		return x * never
	}
	got := float64(c.got[t])
	if r.Turns > 1 {
		got = math.Pow(r.Turns, math.Floor(math.Log(got/parts)/math.Log(r.Turns)+1e-9))
	}
	return x / got
}

// choose gives types to jobs in order of priority, as long as there are GPUs by
// number.
func (r *round) choose(chosen []int) {
	for k, t := range chosen {
		if t >= 0 {
			r.budget[t] -= r.claims[k].scale
		}
	}
	for _, b := range r.bids(chosen) {
		c := &r.claims[b.claim]
		if chosen[b.claim] >= 0 || r.budget[b.gpuType] < c.scale || r.quota.Left(c.j) < c.scale {
			continue
		}
		chosen[b.claim] = b.gpuType
		r.budget[b.gpuType] -= c.scale
		r.quota.Add(c.j, c.scale)
	}
	// Only what is placed holds quota from here on.
	r.quota.Clear()
	for k := range r.claims {
		if c := &r.claims[k]; len(r.plan.Want[c.job]) > 0 {
			r.quota.Add(c.j, c.scale)
		}
	}
}

// settle places the chosen jobs: those that stay, where they are; the others,
// large before small.
func (r *round) settle(chosen []int) {
	var moving []int
	for k, t := range chosen {
		c := &r.claims[k]
		switch {
		case t < 0 || len(r.plan.Want[c.job]) > 0:
		case t == c.on && r.resume(c):
		default:
			moving = append(moving, k)
		}
	}
	slices.SortStableFunc(moving, func(a, b int) int { return cmp.Compare(r.claims[b].scale, r.claims[a].scale) })
	for _, k := range moving {
		r.start(&r.claims[k], chosen[k])
	}
}

// resume lets a running job go on where it is.
func (r *round) resume(c *claim) bool {
	stays := c.j.NonPreemptible
	if !r.free.Fits(c.j, c.j.Placement) || (!stays && r.quota.Left(c.j) < c.scale) {
		return false
	}
	r.take(c, c.j.Placement)
	return true
}

// start places a job on a type.
func (r *round) start(c *claim, t int) bool {
	if r.free.OfType(t) < c.scale || r.quota.Left(c.j) < c.scale {
		return false
	}
	only := c.only(r.s.Cluster.Types[t])
	p, ok := r.free.Within(&only, c.scale, sched.CrossRack)
	if !ok {
		return false
	}
	r.quota.Add(c.j, c.scale)
	r.plan.Want[c.job] = p
	return true
}

func (r *round) take(c *claim, p sched.Placement) {
	r.free.Take(c.j, p)
	r.quota.Add(c.j, p.GPUs())
	r.plan.Want[c.job] = p
}

// fill gives what is left to jobs that were not chosen: those that run stay, the
// others take the type that is best for them, least served first.
func (r *round) fill() {
	var waiting []int
	for k := range r.claims {
		if c := &r.claims[k]; len(r.plan.Want[c.job]) == 0 && r.eligible(c) && (c.on < 0 || !r.resume(c)) {
			waiting = append(waiting, k)
		}
	}
	slices.SortStableFunc(waiting, func(a, b int) int {
		return cmp.Compare(r.claims[a].got.sum(), r.claims[b].got.sum())
	})
	for _, k := range waiting {
		r.anywhere(&r.claims[k])
	}
	for k := range r.claims {
		if c := &r.claims[k]; len(r.plan.Want[c.job]) == 0 {
			r.plan.Why[c.job] = r.why(c)
		}
	}
}

// anywhere starts a job on the fastest type with room for it. A running job of
// another size than it asked for waits as what it asked for.
func (r *round) anywhere(c *claim) {
	c.scale = c.j.GPUs
	order := make([]int, len(r.s.Cluster.Types))
	for t := range order {
		order[t] = t
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(c.speedOn(b), c.speedOn(a)) })
	for _, t := range order {
		if c.j.Accepts(r.s.Cluster.Types[t]) && r.start(c, t) {
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
	if r.quota.Left(c.j) < c.j.GPUs {
		return r.quota.Why(c.j, c.j.GPUs)
	}
	why := r.free.Why(c.j, c.j.GPUs, sched.CrossRack)
	if why.Code == sched.Full {
		why.Code = sched.Behind
	}
	return why
}

// note books the rest of the round for a job that has been given GPUs in it, and
// marks the round as divided.
func (r *round) note(c *claim) {
	n := &r.plan.Notes[c.job]
	want := r.plan.Want[c.job]
	if len(want) > 0 && (r.fresh || c.on < 0) {
		if t := r.s.Cluster.TypeOf(int(want[0].Node)); t < maxTypes {
			rest := r.begin.Add(r.Round.D()).Sub(r.s.Now)
			c.got[t] += max(1, int(math.Round(parts*float64(rest)/float64(r.Round.D()))))
		}
		n.Count = c.got.pack(min(len(r.s.Cluster.Types), maxTypes))
	}
	if r.fresh || n.Since.Before(r.begin) {
		n.Since = r.s.Now
	}
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
}

// parts is the number of parts of a round in which time is counted.
const parts = 60

// received is the time that a job was given on each type, in parts of a round.
type received [maxTypes]int

func (g received) sum() int {
	sum := 0
	for _, n := range g {
		sum += n
	}
	return sum
}

// width is the number of bits for each type in the one number that a note holds.
func width(types int) int { return min(30, 62/max(1, types)) }

// pack puts the times into one number. When one has become too large for its
// bits, all are halved: only their ratios matter.
func (g received) pack(types int) int {
	w := width(types)
	for slices.Max(g[:]) >= 1<<w {
		for t := range g {
			g[t] = (g[t] + 1) / 2
		}
	}
	out := 0
	for t := range types {
		out |= g[t] << (t * w)
	}
	return out
}

// unpack is the inverse of pack; a note of another policy gives some times.
func unpack(n, types int) received {
	var g received
	w := width(types)
	for t := range types {
		g[t] = max(0, n) >> (t * w) & (1<<w - 1)
	}
	return g
}
