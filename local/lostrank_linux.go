// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package local

import (
	"fmt"
	"slices"
	"time"
)

// unheard reports whether to wait for the agents of ranks that have not said yet that
// they train. A script may have none.
func (g *gang) unheard() bool {
	patience := firstPatience
	for _, r := range g.members {
		if r.link != nil {
			patience = meetPatience
		}
	}
	missing := slices.ContainsFunc(g.members, func(r *rank) bool { return !r.done && (r.link == nil || r.up < g.current) })
	return missing && time.Since(g.requestAt) < patience
}

// refill starts processes for those that died while the others went on without them.
func (g *gang) refill() {
	slots := g.empty
	g.empty = nil
	if err := g.begin(&change{order: g.order, members: slices.Clone(g.members)}, slots); err != nil {
		g.refillFailed(slots, err.Error())
	}
}

// refillFailed tries again or, after too many failures, lets the gang save its work, to
// start anew: its GPUs must not stay idle.
func (g *gang) refillFailed(slots []int, why string) {
	g.note("cannot replace a process: %s", why)
	if g.countDeath(); len(g.deaths) < mostDeaths {
		g.empty = slots
		return
	}
	g.ask(g.order.GracePeriod.D())
}

// countDeath counts a process that died, and forgets those of long ago.
func (g *gang) countDeath() {
	now := time.Now()
	g.deaths = append(slices.DeleteFunc(g.deaths, func(t time.Time) bool { return now.Sub(t) > deathsWithin }), now)
}

// died handles a rank that ended badly. It returns false if the attempt fails.
func (g *gang) died(r *rank) bool {
	c := g.change
	switch {
	case r.leaves:
		return true
	case c != nil && !c.told && slices.Contains(c.fresh, r):
		r.leaves = true
		g.giveUp(c, fmt.Sprintf("a new process ended: %s", r.ending()))
		return true
	case !g.replaces(r):
		return false
	}
	g.countDeath()
	next := &change{order: g.order, lost: true}
	members, slots := g.members, []int{r.slot}
	if c != nil {
		next.order, next.request, next.leave, members = c.order, c.request, c.leave, c.members
		if slices.Contains(c.leave, r) { // it was to go anyway
			r.leaves, slots = true, nil
		}
	}
	for _, trains := range []bool{true, false} { // rank 0 has the state
		for _, m := range members {
			if m != r && m.trained() == trains {
				next.members = append(next.members, m)
			}
		}
	}
	spec := &g.order.Spec
	if c == nil && spec.MaxGPUs > spec.MinGPUs && len(next.members) >= spec.MinGPUs {
		// It can do with fewer: the others need not wait for a new process.
		g.empty, slots = slots, nil
	}
	if err := g.begin(next, slots); err != nil {
		g.note("cannot replace process %d: %v", r.number, err)
		return false
	}
	if c != nil { // those that never trained are still new
		next.fresh = append(next.fresh, slices.DeleteFunc(slices.Clone(c.fresh), func(m *rank) bool { return m == r || m.trained() })...)
	}
	g.note("process %d died (%s); the others go on as generation %d", r.number, r.ending(), next.generation)
	g.tellPlaces(next)
	return true
}

// replaces reports whether a rank that ended is replaced: it was killed, as by a
// fault of the machine, and a rank is left that has the state of the training.
func (g *gang) replaces(r *rank) bool {
	killed := r.code > 128 && r.signal != "SIGTERM" && r.signal != "SIGINT"
	if !killed || !r.trained() || g.asked || g.noticed || g.failed != nil || g.group.outOfMemory() {
		return false
	}
	recent := slices.DeleteFunc(slices.Clone(g.deaths), func(t time.Time) bool { return time.Since(t) > deathsWithin })
	if len(recent) >= mostDeaths {
		return false
	}
	members := g.members
	if g.change != nil {
		members = g.change.members
	}
	left := false
	for _, m := range members {
		switch {
		case m == r:
		case m.done || m.link == nil && m.trained():
			return false
		default:
			left = left || m.trained()
		}
	}
	return left
}
