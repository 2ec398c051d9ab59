// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package auction

import (
	"math/rand/v2"
	"slices"
	"strings"
)

// Grant is GPUs given to an app outside the auction.
type Grant struct {
	App  string
	Take []Share // by machine
}

// PlaceLeftovers gives what the auction left to apps that can use it, gang by gang:
// first to apps that did not bid, so that hidden payments are real, and only what
// none of these can use to bidders. Within each group a gang goes to an app that
// already has GPUs of the machine, else to one that has GPUs in its rack, else to
// any; ties are drawn from rng. The offer is what is left; Want.Turn is ignored.
// Grants are in the order of the apps, those that did not bid first.
func PlaceLeftovers(left Offer, others, bidders []Want, rng *rand.Rand) []Grant {
	free := Offer{Machines: slices.Clone(left.Machines)}
	var out []Grant
	for _, group := range [][]Want{others, bidders} {
		h := newHandout(free, group, rng)
		h.run()
		for i, w := range h.wants {
			if len(h.given[i]) > 0 {
				out = append(out, Grant{w.App, h.given[i]})
			}
		}
	}
	return out
}

// handout is the distribution of what is left to one group of apps.
type handout struct {
	free  Offer
	wants []Want // by app name
	has   []map[int]int
	racks []map[string]bool
	given [][]Share
	near  []int // scratch of one
	maker *Maker
	rng   *rand.Rand
}

func newHandout(free Offer, group []Want, rng *rand.Rand) *handout {
	h := &handout{free: free, wants: slices.Clone(group), rng: rng}
	slices.SortStableFunc(h.wants, func(a, b Want) int { return strings.Compare(a.App, b.App) })
	h.given = make([][]Share, len(h.wants))
	for _, w := range h.wants {
		has, racks := map[int]int{}, map[string]bool{}
		for _, s := range w.Holds {
			if s.GPUs > 0 {
				has[s.Machine] += s.GPUs
				racks[free.Machines[s.Machine].Rack] = true
			}
		}
		h.has, h.racks = append(h.has, has), append(h.racks, racks)
	}
	return h
}

func (h *handout) run() {
	sameMachine := func(app, m int) bool { return h.has[app][m] > 0 }
	sameRack := func(app, m int) bool { return h.racks[app][h.free.Machines[m].Rack] }
	anywhere := func(int, int) bool { return true }
	for _, near := range []func(app, m int) bool{sameMachine, sameRack, anywhere} {
		for m := range h.free.Machines {
			for h.one(m, near) {
			}
		}
	}
	for h.spread() {
	}
}

// one gives a gang on one machine to one of the apps that are near it.
func (h *handout) one(m int, near func(app, m int) bool) bool {
	machine := h.free.Machines[m]
	if machine.Free == 0 {
		return false
	}
	apps := h.near[:0]
	for i := range h.wants {
		w := &h.wants[i]
		if w.GPUs >= w.gang() && w.gang() <= machine.Free && near(i, m) && (w.Usable == nil || w.Usable(machine)) {
			apps = append(apps, i)
		}
	}
	if len(apps) == 0 {
		return false
	}
	h.near = apps
	i := apps[h.rng.IntN(len(apps))]
	h.give(i, []Share{{m, h.wants[i].gang()}})
	return true
}

// spread gives a gang that is larger than what any machine has left to one of the
// apps that need it, on the fewest machines, in one rack if possible.
func (h *handout) spread() bool {
	for _, i := range h.rng.Perm(len(h.wants)) {
		w := h.wants[i]
		if w.GPUs < w.gang() {
			continue
		}
		w.Holds, w.Turn = nil, 0
		if h.maker == nil {
			h.maker = NewMaker(h.free.Machines)
		}
		h.maker.see(h.free, w)
		g := &h.maker.ground
		take := g.oneRack(w.gang(), 0)
		if take == nil {
			take = fewest(g.all, w.gang(), len(g.all))
		}
		if take != nil {
			h.give(i, take)
			return true
		}
	}
	return false
}

func (h *handout) give(i int, take []Share) {
	for _, s := range take {
		h.free.Machines[s.Machine].Free -= s.GPUs
		h.has[i][s.Machine] += s.GPUs
		h.racks[i][h.free.Machines[s.Machine].Rack] = true
		h.wants[i].GPUs -= s.GPUs
		at := slices.IndexFunc(h.given[i], func(g Share) bool { return g.Machine == s.Machine })
		if at < 0 {
			h.given[i] = append(h.given[i], s)
		} else {
			h.given[i][at].GPUs += s.GPUs
		}
	}
	sortShares(h.given[i])
}
