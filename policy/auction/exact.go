// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package auction

import (
	"cmp"
	"slices"
)

// search is a depth-first branch and bound. Bidders decide in turn, those with most
// at stake first. A branch is cut if even a relaxation of the rest cannot beat the
// best known solution, or if the same GPUs were left to the same bidders before
// with at least as much worth.
type search struct {
	p     *problem
	room  *room
	order []int     // bidders, in the order of decision
	bound [][]worth // by depth and GPUs left: most worth if all machines were one
	seen  map[string]worth
	nodes int
	limit int

	at    []int // by bidder, as the search goes
	seats [][]seat

	best      worth
	bestAt    []int
	bestSeats [][]seat
	key       []byte
}

// exact improves a solution to the best one. The result is proven optimal unless
// the search hit its node limit.
func exact(s *solver, limit int) (proven bool, nodes int) {
	p := s.p
	x := &search{
		p: p, room: newRoom(p), seen: map[string]worth{}, limit: limit,
		at: make([]int, len(p.bidders)), seats: make([][]seat, len(p.bidders)),
		best: s.sum,
	}
	for j := range p.bidders {
		if j != s.absent {
			x.order = append(x.order, j)
		}
	}
	slices.SortStableFunc(x.order, func(a, b int) int { return cmp.Compare(p.bidders[b].best(), p.bidders[a].best()) })
	x.relax()
	x.decide(0, 0)
	if x.bestAt != nil {
		for _, j := range x.order {
			s.leave(j)
		}
		for _, j := range x.order {
			s.back(j, x.bestAt[j], x.bestSeats[j])
		}
	}
	return x.nodes <= x.limit, x.nodes
}

// relax computes the bound: the multiple-choice knapsack of the bidders from a
// depth on, as if every GPU were on one machine.
func (x *search) relax() {
	x.bound = make([][]worth, len(x.order)+1)
	x.bound[len(x.order)] = make([]worth, x.room.total+1)
	for d := len(x.order) - 1; d >= 0; d-- {
		b := &x.p.bidders[x.order[d]]
		below := x.bound[d+1]
		here := slices.Clone(below)
		for g := 1; g < len(b.within) && g < len(here); g++ {
			if b.within[g] == b.within[g-1] {
				continue
			}
			for left := g; left < len(here); left++ {
				here[left] = max(here[left], below[left-g]+b.within[g])
			}
		}
		x.bound[d] = here
	}
}

func (x *search) decide(depth int, sum worth) {
	x.nodes++
	if x.nodes > x.limit {
		return
	}
	if depth == len(x.order) {
		if sum > x.best || x.bestAt == nil && sum == x.best {
			x.keep(sum)
		}
		return
	}
	if x.hopeless(depth, sum) {
		return
	}
	x.state(depth)
	if before, ok := x.seen[string(x.key)]; ok && before >= sum {
		return
	}
	x.seen[string(x.key)] = sum
	j := x.order[depth]
	choices := x.p.bidders[j].choices
	for c := len(choices) - 1; c >= 0; c-- {
		if x.room.fits(&choices[c]) {
			x.at[j] = c
			x.place(depth, sum+choices[c].worth, 0)
		}
	}
	x.at[j], x.seats[j] = 0, x.seats[j][:0]
}

// beats reports whether a bound can still beat the best solution. The first
// solution found counts even if it only equals the one that the search began with,
// so that the result does not depend on that one.
func (x *search) beats(bound worth) bool {
	return bound > x.best || x.bestAt == nil && bound == x.best
}

func (x *search) hopeless(depth int, sum worth) bool {
	if !x.beats(sum + x.bound[depth][x.room.total]) {
		return true
	}
	alone := sum // each of the rest takes the best row that fits alone
	for _, j := range x.order[depth:] {
		choices := x.p.bidders[j].choices
		for c := len(choices) - 1; c >= 0; c-- {
			if x.room.fits(&choices[c]) {
				alone += choices[c].worth
				break
			}
		}
	}
	return !x.beats(alone)
}

// place tries every distinct way to seat the parts of a bidder's choice, from one
// part on, and continues with the next bidder.
func (x *search) place(depth int, sum worth, from int) {
	j := x.order[depth]
	c := &x.p.bidders[j].choices[x.at[j]]
	if from == len(c.parts) {
		x.decide(depth+1, sum)
		return
	}
	q := c.parts[from]
	if q.machine >= 0 {
		x.seat(depth, sum, q.machine)
		return
	}
	machines := x.p.classes[q.class]
	for free := q.gpus; int(free) < len(x.room.atLeast[q.class]); free++ {
		plain := false // one machine stands for all that no row names
		for _, m := range machines {
			if x.room.free[m] != free || on(x.seats[j], m) || pins(c, m) || plain && !x.p.special[m] {
				continue
			}
			plain = plain || !x.p.special[m]
			x.seat(depth, sum, m)
		}
	}
}

// seat puts the next part of a bidder's choice on a machine and continues.
func (x *search) seat(depth int, sum worth, m int32) {
	j := x.order[depth]
	from := len(x.seats[j])
	gpus := x.p.bidders[j].choices[x.at[j]].parts[from].gpus
	if x.room.free[m] < gpus || x.nodes > x.limit {
		return
	}
	x.room.add(m, -gpus)
	x.seats[j] = append(x.seats[j], seat{m, gpus})
	x.place(depth, sum, from+1)
	x.seats[j] = x.seats[j][:from]
	x.room.add(m, gpus)
}

// pins reports whether a choice names a machine.
func pins(c *choice, m int32) bool {
	for _, q := range c.parts[:c.pinned] {
		if q.machine == m {
			return true
		}
	}
	return false
}

func (x *search) keep(sum worth) {
	x.best = sum
	x.bestAt = slices.Clone(x.at)
	x.bestSeats = make([][]seat, len(x.seats))
	for j, seats := range x.seats {
		x.bestSeats[j] = slices.Clone(seats)
	}
}

// state makes the key of what is left at a depth. Machines of a class that no row
// names are counted, not named.
func (x *search) state(depth int) {
	x.key = append(x.key[:0], byte(depth), byte(depth>>8))
	for _, machines := range x.p.classes {
		first := len(x.key)
		for _, m := range machines {
			if !x.p.special[m] {
				x.key = append(x.key, byte(x.room.free[m]), byte(x.room.free[m]>>8))
			}
		}
		sortPairs(x.key[first:])
		for _, m := range machines {
			if x.p.special[m] {
				x.key = append(x.key, byte(x.room.free[m]), byte(x.room.free[m]>>8))
			}
		}
	}
}

// sortPairs sorts a few two-byte numbers.
func sortPairs(b []byte) {
	for i := 2; i < len(b); i += 2 {
		for k := i; k > 0 && (b[k+1] < b[k-1] || b[k+1] == b[k-1] && b[k] < b[k-2]); k -= 2 {
			b[k], b[k-2] = b[k-2], b[k]
			b[k+1], b[k-1] = b[k-1], b[k+1]
		}
	}
}
