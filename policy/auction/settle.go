// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package auction

import "slices"

// seating is one seat of one bidder.
type seating struct {
	bidder, seat int
}

// settle returns the seats of all bidders, with interchangeable machines swapped so
// that as many bidders as possible get the machine they named: an app that wins
// back what it had should not have to move.
func (s *solver) settle() [][]seat {
	out := make([][]seat, len(s.seats))
	on := make([][]seating, len(s.p.free)) // by machine
	for j, seats := range s.seats {
		out[j] = slices.Clone(seats)
		for k, seat := range seats {
			on[seat.machine] = append(on[seat.machine], seating{j, k})
		}
	}
	// wishes counts the seats on one machine whose bidder named another.
	wishes := func(from, to int32) int {
		n := 0
		for _, w := range on[from] {
			if s.now(w.bidder).parts[w.seat].asked == to {
				n++
			}
		}
		return n
	}
	fixed := func(m int32) bool {
		return slices.ContainsFunc(on[m], func(w seating) bool { return s.now(w.bidder).parts[w.seat].machine >= 0 })
	}
	move := func(m int32) {
		for _, w := range on[m] {
			out[w.bidder][w.seat].machine = m
		}
	}
	for j := range out {
		for k := range out[j] {
			a, b := out[j][k].machine, s.now(j).parts[k].asked
			if a == b || s.p.free[a] != s.p.free[b] || fixed(a) || fixed(b) ||
				wishes(a, b)+wishes(b, a) <= wishes(a, a)+wishes(b, b) {
				continue
			}
			on[a], on[b] = on[b], on[a]
			move(a)
			move(b)
		}
	}
	return out
}
