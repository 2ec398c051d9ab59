// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package auction

import (
	"cmp"
	"math"
	"slices"
)

// Want is what an app could use of an offer.
type Want struct {
	App    string
	Gang   int                // GPUs come in multiples of this; 0 stands for 1
	Task   int                // GPUs of one machine come in multiples of this; 0 stands for 1
	GPUs   int                // at most this many more
	Holds  []Share            // what it has, outside the offer
	Usable func(Machine) bool // machines that suit it; nil: all
	Turn   uint64             // where to begin among equally good places; give each app a different one
}

func (w Want) gang() int { return max(1, w.Gang) }
func (w Want) task() int { return max(1, w.Task) }

// Table makes the rows of a bid: for every number of gangs at most four placements,
// except those that are no better than a smaller one. rho returns the app's
// finish-time fairness with everything it would then have, by machine; it must not
// keep the slice.
//
// The placements are: what is free on the machines that the app occupies, then
// near them; the one machine on which the GPUs fit best; the fewest machines of
// one rack; the fewest machines of all.
func Table(o Offer, w Want, rho func([]Share) float64) []Row {
	g := newGround(o, w)
	rows := []Row{{Rho: rho(g.with(nil))}}
	for gpus := w.gang(); gpus <= min(w.GPUs, g.gpus); gpus += w.gang() {
		for _, take := range g.placements(gpus) {
			rows = append(rows, Row{Take: take, Rho: rho(g.with(take))})
		}
	}
	return lean(rows)
}

// lean drops rows that take at least as much of every machine as another row and
// are no better.
func lean(rows []Row) []Row {
	out := rows[:0:0]
	for _, r := range rows {
		if !slices.ContainsFunc(out, func(s Row) bool { return s.Rho <= r.Rho && within(s.Take, r.Take) }) {
			out = append(out, r)
		}
	}
	return out
}

// within reports whether a takes at most what b takes of every machine. Both
// are by machine.
func within(a, b []Share) bool {
	i := 0
	for _, s := range a {
		for i < len(b) && b[i].Machine < s.Machine {
			i++
		}
		if i == len(b) || b[i].Machine != s.Machine || b[i].GPUs < s.GPUs {
			return false
		}
	}
	return true
}

// ground is an offer as one app sees it.
type ground struct {
	want   Want
	gpus   int
	home   []Share // free on machines that the app occupies, most held first
	all    []Share // the rest too, most free first
	racks  [][]Share
	away   []Share // all but home, if there is one
	nearby []Share // of these, in racks in which the app has GPUs
	rackOf func(int) string
	held   []Share // by machine
	buf    []Share
}

func newGround(o Offer, w Want) *ground {
	g := &ground{want: w, rackOf: func(m int) string { return o.Machines[m].Rack }}
	held, near := map[int]int{}, map[string]bool{}
	for _, s := range w.Holds {
		held[s.Machine] += s.GPUs
		near[g.rackOf(s.Machine)] = true
	}
	for m, n := range held {
		g.held = append(g.held, Share{m, n})
	}
	sortShares(g.held)
	most, machines := 0, len(o.Machines)
	free := 0
	for i := range o.Machines {
		if o.Machines[i].Free > 0 {
			free++
		}
	}
	inTurn := make([]Share, 0, free)
	task, first := w.task(), int(w.Turn%uint64(max(1, machines)))
	for k := range machines {
		m := k + first
		if m >= machines {
			m -= machines
		}
		free := o.Machines[m].Free
		if free < task || w.Usable != nil && !w.Usable(o.Machines[m]) {
			continue
		}
		free -= free % task
		g.gpus += free
		most = max(most, free)
		inTurn = append(inTurn, Share{m, free})
		if len(held) > 0 && held[m] > 0 {
			g.home = append(g.home, Share{m, free})
		}
	}
	g.all = mostFirst(inTurn, most)
	slices.SortFunc(g.home, func(a, b Share) int {
		return cmp.Or(cmp.Compare(held[b.Machine], held[a.Machine]), cmp.Compare(a.Machine, b.Machine))
	})
	g.byRack()
	if len(g.home) == 0 {
		return g
	}
	for _, s := range g.all {
		if held[s.Machine] == 0 {
			g.away = append(g.away, s)
			if near[g.rackOf(s.Machine)] {
				g.nearby = append(g.nearby, s)
			}
		}
	}
	return g
}

// byRack groups all machines by rack, in the order in which racks first occur.
func (g *ground) byRack() {
	at := map[string]int{}
	of, sizes := make([]int, len(g.all)), []int{} // by machine: its rack; by rack: its machines
	last, r := "", -1
	for i, s := range g.all {
		if rack := g.rackOf(s.Machine); r < 0 || rack != last {
			known := false
			if r, known = at[rack]; !known {
				r = len(sizes)
				at[rack] = r
				sizes = append(sizes, 0)
			}
			last = rack
		}
		of[i] = r
		sizes[r]++
	}
	rest := make([]Share, len(g.all))
	g.racks = make([][]Share, len(sizes))
	for r, n := range sizes {
		g.racks[r], rest = rest[:0:n], rest[n:]
	}
	for i, s := range g.all {
		g.racks[of[i]] = append(g.racks[of[i]], s)
	}
}

// mostFirst sorts shares by their number of GPUs, at most most, the largest first, and
// keeps the order of equal ones. Every bid sorts all machines, so it counts them.
func mostFirst(shares []Share, most int) []Share {
	at := make([]int, most+1) // where the next share of so many GPUs goes
	for _, s := range shares {
		at[s.GPUs]++
	}
	next := 0
	for n := most; n >= 0; n-- {
		at[n], next = next, next+at[n]
	}
	out := make([]Share, len(shares))
	for _, s := range shares {
		out[at[s.GPUs]] = s
		at[s.GPUs]++
	}
	return out
}

// with returns what the app has together with what it would take, by machine. The
// slice is reused.
func (g *ground) with(take []Share) []Share {
	g.buf = append(append(g.buf[:0], g.held...), take...)
	sortShares(g.buf)
	out := g.buf[:0]
	for _, s := range g.buf {
		if n := len(out); n > 0 && out[n-1].Machine == s.Machine {
			out[n-1].GPUs += s.GPUs
		} else {
			out = append(out, s)
		}
	}
	return out
}

// placements returns the distinct ways to take a number of GPUs.
func (g *ground) placements(gpus int) [][]Share {
	var out [][]Share
	add := func(take []Share) {
		if take == nil {
			return
		}
		sortShares(take)
		if !slices.ContainsFunc(out, func(t []Share) bool { return slices.Equal(t, take) }) {
			out = append(out, take)
		}
	}
	if len(g.home) > 0 {
		add(g.atHome(gpus))
	}
	turn := int((g.want.Turn + uint64(gpus/g.want.gang())) % uint64(max(1, len(g.racks))))
	add(fewest(g.all, gpus, 1))
	add(g.oneRack(gpus, turn))
	add(fewest(g.all, gpus, len(g.all)))
	return out
}

// atHome fills the machines that the app occupies, then the fewest others, in its
// racks if those have enough.
func (g *ground) atHome(gpus int) []Share {
	var take []Share
	for _, s := range g.home {
		if n := min(s.GPUs, gpus); n > 0 {
			take = append(take, Share{s.Machine, n})
			gpus -= n
		}
	}
	if gpus == 0 {
		return take
	}
	for _, others := range [][]Share{g.nearby, g.away} {
		if rest := fewest(others, gpus, len(others)); rest != nil {
			return append(take, rest...)
		}
	}
	return nil
}

// oneRack returns the fewest machines of one rack; among several such racks the
// first from turn on, so that not every app bids for the same one.
func (g *ground) oneRack(gpus, turn int) []Share {
	var best []Share
	least := math.MaxInt
	for i := range g.racks {
		rack := g.racks[(i+turn)%len(g.racks)]
		if n := machines(rack, gpus); n < least {
			best, least = rack, n
		}
	}
	return fewest(best, gpus, len(best))
}

// machines returns the fewest machines, most free first, that have a number of
// GPUs; a large number if all together have too few.
func machines(from []Share, gpus int) int {
	for i, s := range from {
		if gpus -= s.GPUs; gpus <= 0 {
			return i + 1
		}
	}
	return math.MaxInt
}

// fewest takes GPUs from the fewest of some machines, which are in order of what
// is free, most first: whole machines, and the rest where it fits best. It
// returns nil if that takes more than so many machines.
func fewest(from []Share, gpus, most int) []Share {
	var take []Share
	for i := 0; i < len(from) && len(take) < most; i++ {
		if from[i].GPUs < gpus {
			take = append(take, from[i])
			gpus -= from[i].GPUs
			continue
		}
		// The last machine with enough is the tightest; the first of its kind.
		last, _ := slices.BinarySearchFunc(from[i:], gpus, func(s Share, need int) int {
			if s.GPUs >= need {
				return -1
			}
			return 1
		})
		fit := from[i+last-1].GPUs
		first, _ := slices.BinarySearchFunc(from[i:], fit, func(s Share, n int) int { return cmp.Compare(n, s.GPUs) })
		return append(take, Share{from[i+first].Machine, gpus})
	}
	return nil
}
