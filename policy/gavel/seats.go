// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package gavel

import (
	"cmp"
	"slices"

	"github.com/fairway-gpu/fairway/sched"
)

// apart is the slowdown in a pair above which a job that should be alone takes its
// own GPUs, and up to which it accepts a partner when a waiting job has no other
// place.
const apart = 1.1

// holds returns how much of its tenant's quota a job will hold, in thousandths of
// GPUs.
func (r *round) holds(c *claim) int {
	if c.seats {
		return c.scale * seat
	}
	return c.scale * sched.WholeGPU
}

// milli returns how much of a quota a placement holds: unless jobs share, GPUs
// count as whole.
func (r *round) milli(p sched.Placement) int {
	if r.Sharing > 0 {
		return p.Milli()
	}
	return p.GPUs() * sched.WholeGPU
}

// second reports whether a running job is the second of a pair that continues; its
// GPUs are counted with the first.
func (r *round) second(k int) bool {
	partner := r.claims[k].partner
	return partner >= 0 && partner < k && r.chosen[partner] >= 0
}

// sharedBids adds the bids of pairs.
func (r *round) sharedBids(out []bid) []bid {
	for i := range r.shares {
		x := &r.shares[i]
		a, b := &r.claims[x.a], &r.claims[x.b]
		if (r.chosen[x.a] < 0 || r.chosen[x.b] < 0) && r.eligible(a) && r.eligible(b) {
			out = append(out, bid{x.a, x.b, x.gpuType, r.priorityOf(x), x.time})
		}
	}
	return out
}

// priorityOf is how far two jobs are behind their shared time, each by the time it
// has shared with any job.
func (r *round) priorityOf(x *share) float64 {
	a, b, t := &r.claims[x.a], &r.claims[x.b], x.gpuType
	if r.byGain() {
		return (a.gain[t]/x.slow[0] + b.gain[t]/x.slow[1]) / float64(a.scale)
	}
	time := x.time
	if a.on == t && a.partner == x.b {
		time *= r.Stick
	}
	return (r.behind(time, a.shared[t]) + r.behind(time, b.shared[t])) / 2
}

// choosePair grants the bid of a pair: GPUs for one of them, or a seat beside the
// one that continues in this round.
func (r *round) choosePair(x bid) {
	a, b := x.claim, x.partner
	if r.chosen[a] >= 0 {
		a, b = b, a
	}
	c, partner := &r.claims[a], &r.claims[b]
	if r.chosen[a] >= 0 || !r.quota.FitsMilli(c.j, r.holds(c)) {
		return
	}
	if r.chosen[b] >= 0 {
		// A job chosen to be alone, or with another, is not disturbed.
		if r.chosen[b] == x.gpuType && r.with[b] < 0 && r.lone(b) {
			r.chosen[a], r.with[a], r.with[b] = x.gpuType, b, a
			r.quota.AddMilli(c.j, r.holds(c))
		}
		return
	}
	if r.budget[x.gpuType] < c.scale {
		return
	}
	r.quota.AddMilli(c.j, r.holds(c))
	if !r.quota.FitsMilli(partner.j, r.holds(partner)) {
		r.quota.AddMilli(c.j, -r.holds(c))
		return
	}
	r.quota.AddMilli(partner.j, r.holds(partner))
	r.budget[x.gpuType] -= c.scale
	r.chosen[a], r.chosen[b] = x.gpuType, x.gpuType
	r.with[a], r.with[b] = b, a
}

// lone reports whether a job has its place and is alone there.
func (r *round) lone(k int) bool {
	p := r.plan.Want[r.claims[k].job]
	return r.claims[k].seats && len(p) == 1 && len(r.seated[p[0]]) == 1
}

// together reports whether the current round counts as shared time: as chosen, else
// as it is.
func (r *round) together(k int) bool {
	if r.with[k] >= 0 {
		return true
	}
	c := &r.claims[k]
	p := r.plan.Want[c.job]
	return (r.chosen[k] < 0 || c.j.Pinned()) && len(p) == 1 && len(r.seated[p[0]]) > 1
}

// stays reports whether a running job that was chosen for its type can continue
// where it is, beside any job that is there.
func (r *round) stays(k int) bool {
	c := &r.claims[k]
	if !c.seats {
		return true
	}
	if with := r.with[k]; with >= 0 { // one of the two moves to the other
		partner := &r.claims[with]
		onSeats := func(c *claim) bool { return c.on == r.chosen[k] && c.onSeats() }
		return c.partner == with || (onSeats(c) && (!onSeats(partner) || k < with) && len(r.plan.Want[partner.job]) == 0)
	}
	switch partner := c.partner; {
	case partner < 0 || r.chosen[partner] != c.on:
		return true
	case r.with[partner] >= 0:
		return false
	default: // both are to be alone: the first stays
		own, other, _ := r.canPair(r.s.Cluster.Types[c.on], 0, c.j, r.claims[partner].j)
		return k < partner || max(own, other) <= apart
	}
}

// goesOn lets a job that was not chosen continue where it is: alone, or beside a
// suitable job.
func (r *round) goesOn(k int) bool {
	c := &r.claims[k]
	if c.seats && !c.j.Pinned() && !r.empty(c.j.Placement) && !r.accepts(k, c.j.Placement) {
		return false
	}
	return r.resume(k)
}

// empty reports whether no job is on the GPUs of a placement.
func (r *round) empty(p sched.Placement) bool {
	for _, s := range p {
		if s.GPUs&^r.free.OnNode(int(s.Node)) != 0 {
			return false
		}
	}
	return true
}

// accepts reports whether a job may share the GPUs of another one.
func (r *round) accepts(k int, at sched.Placement) bool {
	if len(at) != 1 || len(r.seated[at[0]]) != 1 {
		return false
	}
	host := r.seated[at[0]][0]
	if r.with[host] == k {
		return true
	}
	node := &r.s.Cluster.Nodes[at[0].Node]
	slow, _, ok := r.canPair(node.Type, node.GPUMemory, r.claims[host].j, r.claims[k].j)
	return ok && (slow <= apart || r.chosen[host] < 0)
}

// find takes GPUs for a claim: seats, if it may share and is on one node. j is the
// claim's job with added requirements.
func (r *round) find(c *claim, j *sched.Job) (sched.Placement, bool) {
	mark := r.free.Mark()
	p, ok := r.free.Within(j, c.scale, sched.CrossRack)
	switch {
	case !ok || !c.seats:
	case len(p) == 1:
		r.free.Rollback(mark)
		p[0].Milli = seat
		r.free.Take(c.j, p)
	case !r.quota.FitsMilli(c.j, p.Milli()):
		r.free.Rollback(mark)
		return nil, false
	}
	return p, ok
}

// startPair places a job beside the one it was chosen to share with, or both
// where there is room for both.
func (r *round) startPair(k, t int) {
	with := r.with[k]
	if c := &r.claims[k]; with < 0 || len(r.plan.Want[c.job]) > 0 {
		return
	}
	c, partner := &r.claims[k], &r.claims[with]
	if at := r.plan.Want[partner.job]; len(at) > 0 {
		r.sit(k, at)
		return
	}
	if r.free.OfType(t) < c.scale || !r.quota.FitsMilli(c.j, r.holds(c)) {
		return
	}
	both := c.only(r.s.Cluster.Types[t])
	both.MilliGPU = 0
	both.CPUs += partner.j.CPUs
	both.Memory += partner.j.Memory
	both.GPUMemory += partner.j.GPUMemory
	both.MaxSpread = sched.SameMachine
	if c.j.MaxSpread == sched.SameSlot || partner.j.MaxSpread == sched.SameSlot {
		both.MaxSpread = sched.SameSlot
	}
	both.TaskGPUs = c.scale
	both.Avoid = slices.Concat(c.j.Avoid, partner.j.Avoid)
	if p, ok := r.find(c, &both); ok {
		r.place(k, p)
		r.sit(with, p)
	}
}

// sit puts a job beside the one at a placement.
func (r *round) sit(k int, at sched.Placement) bool {
	c := &r.claims[k]
	if len(at) != 1 || at[0].GPUs.Len() != c.scale || len(r.seated[at[0]]) != 1 {
		return false
	}
	node := &r.s.Cluster.Nodes[at[0].Node]
	if node.State != sched.Ready || !c.j.Suits(node) || slices.Contains(c.j.Avoid, node.Name) ||
		(c.j.MaxSpread != sched.NoLevel && r.s.Cluster.Level(at) > c.j.MaxSpread) ||
		!r.free.Fits(c.j, at) || !r.quota.FitsMilli(c.j, c.scale*seat) {
		return false
	}
	p := slices.Clone(at)
	r.free.Take(c.j, p)
	r.place(k, p)
	return true
}

// shared reports whether any jobs share.
func (r *round) shared() bool {
	for k := range r.claims {
		if p := r.plan.Want[r.claims[k].job]; r.seated != nil && len(p) == 1 && len(r.seated[p[0]]) > 1 {
			return true
		}
	}
	return false
}

// mostHosts is how many places are tried for a waiting job.
const mostHosts = 32

// fillSeats gives the seats beside light jobs to jobs that still wait.
func (r *round) fillSeats(waiting []int) {
	if r.Sharing == 0 {
		return
	}
	hosts := map[int][]int{} // by size, the lightest first
	for k := range r.claims {
		if r.lone(k) {
			n := r.plan.Want[r.claims[k].job].GPUs()
			hosts[n] = append(hosts[n], k)
		}
	}
	for _, of := range hosts {
		slices.SortStableFunc(of, func(a, b int) int { return cmp.Compare(r.claims[a].j.GPUUtil, r.claims[b].j.GPUUtil) })
	}
	for _, k := range waiting {
		c := &r.claims[k]
		if !c.seats || len(r.plan.Want[c.job]) > 0 {
			continue
		}
		of := hosts[c.scale]
		for i, host := range of[:min(mostHosts, len(of))] {
			at := r.plan.Want[r.claims[host].job]
			if r.accepts(k, at) && r.sit(k, at) {
				hosts[c.scale] = slices.Delete(of, i, i+1)
				break
			}
		}
	}
}
