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

// Maker makes the tables of bids one after the other, in the memory of the last.
type Maker struct {
	rack  []int // by machine: the number of its rack
	racks int
	ground
}

// NewMaker returns one for offers of the same machines: they may differ in what is free.
func NewMaker(machines []Machine) *Maker {
	m, known := &Maker{rack: make([]int, len(machines))}, map[string]int{}
	for i := range machines {
		r, ok := known[machines[i].Rack]
		if !ok {
			r = len(known)
			known[machines[i].Rack] = r
		}
		m.rack[i] = r
	}
	m.racks = len(known)
	return m
}

// Table makes the rows of a bid: for every number of gangs at most four placements,
// except those that are no better than a smaller one. rho returns the app's
// finish-time fairness with everything it would then have, by machine; it must not
// keep the slice.
//
// The placements are: what is free on the machines that the app occupies, then
// near them; the one machine on which the GPUs fit best; the fewest machines of
// one rack; the fewest machines of all.
func (m *Maker) Table(o Offer, w Want, rho func([]Share) float64) []Row {
	m.see(o, w)
	g := &m.ground
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
	byRack [][]Share
	away   []Share // all but home, if there is one
	nearby []Share // of these, in racks in which the app has GPUs
	held   []Share // by machine

	buf, inTurn, rest []Share // scratch
	at, slot, sizes   []int
}

// holds returns how many GPUs of a machine the app has.
func (g *ground) holds(machine int) int {
	for _, s := range g.held {
		if s.Machine == machine {
			return s.GPUs
		}
	}
	return 0
}

// see looks at an offer for an app.
func (m *Maker) see(o Offer, w Want) {
	g := &m.ground
	g.want, g.gpus = w, 0
	g.held = added(append(g.held[:0], w.Holds...))
	g.inTurn, g.home, g.away, g.nearby = g.inTurn[:0], g.home[:0], g.away[:0], g.nearby[:0]
	most, machines := 0, len(o.Machines)
	task, first := w.task(), int(w.Turn%uint64(max(1, machines)))
	for k := range machines {
		i := k + first
		if i >= machines {
			i -= machines
		}
		free := o.Machines[i].Free
		if free < task || w.Usable != nil && !w.Usable(o.Machines[i]) {
			continue
		}
		free -= free % task
		g.gpus += free
		most = max(most, free)
		g.inTurn = append(g.inTurn, Share{i, free})
		if g.holds(i) > 0 {
			g.home = append(g.home, Share{i, free})
		}
	}
	g.mostFirst(most)
	slices.SortFunc(g.home, func(a, b Share) int {
		return cmp.Or(cmp.Compare(g.holds(b.Machine), g.holds(a.Machine)), cmp.Compare(a.Machine, b.Machine))
	})
	m.divide()
	if len(g.home) == 0 {
		return
	}
	for _, s := range g.all {
		if g.holds(s.Machine) == 0 {
			g.away = append(g.away, s)
			if slices.ContainsFunc(g.held, func(h Share) bool { return m.rack[h.Machine] == m.rack[s.Machine] }) {
				g.nearby = append(g.nearby, s)
			}
		}
	}
}

// divide groups all machines by rack, in the order in which racks first occur.
func (m *Maker) divide() {
	g := &m.ground
	g.sizes = g.sizes[:0]
	g.slot = slices.Grow(g.slot[:0], m.racks)[:m.racks] // by rack: 1 + its place in that order
	clear(g.slot)
	for _, s := range g.all {
		at := &g.slot[m.rack[s.Machine]]
		if *at == 0 {
			g.sizes = append(g.sizes, 0)
			*at = len(g.sizes)
		}
		g.sizes[*at-1]++
	}
	g.rest = slices.Grow(g.rest[:0], len(g.all))[:len(g.all)]
	rest := g.rest
	g.byRack = g.byRack[:0]
	for _, n := range g.sizes {
		g.byRack, rest = append(g.byRack, rest[:0:n]), rest[n:]
	}
	for _, s := range g.all {
		of := &g.byRack[g.slot[m.rack[s.Machine]]-1]
		*of = append(*of, s)
	}
}

// mostFirst sorts the machines by their number of GPUs, at most most, the largest first, and
// keeps the order of equal ones. Every bid sorts all machines, so it counts them.
func (g *ground) mostFirst(most int) {
	g.at = slices.Grow(g.at[:0], most+1)[:most+1] // where the next share of so many GPUs goes
	clear(g.at)
	for _, s := range g.inTurn {
		g.at[s.GPUs]++
	}
	next := 0
	for n := most; n >= 0; n-- {
		g.at[n], next = next, next+g.at[n]
	}
	g.all = slices.Grow(g.all[:0], len(g.inTurn))[:len(g.inTurn)]
	for _, s := range g.inTurn {
		g.all[g.at[s.GPUs]] = s
		g.at[s.GPUs]++
	}
}

// with returns what the app has together with what it would take, by machine. The
// slice is reused.
func (g *ground) with(take []Share) []Share {
	g.buf = append(append(g.buf[:0], g.held...), take...)
	return added(g.buf)
}

// added sorts shares and adds up those of the same machine, in place.
func added(shares []Share) []Share {
	sortShares(shares)
	out := shares[:0]
	for _, s := range shares {
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
	turn := int((g.want.Turn + uint64(gpus/g.want.gang())) % uint64(max(1, len(g.byRack))))
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
	for i := range g.byRack {
		rack := g.byRack[(i+turn)%len(g.byRack)]
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
