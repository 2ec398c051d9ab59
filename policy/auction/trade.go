// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package auction

import (
	"math"
	"slices"
)

// loss is the least worth that one bidder gives up to free a number of GPUs, and
// the least that any other bidder does.
type loss struct {
	least, second worth
	bidder        int
}

const never = worth(math.MaxInt64)

// price computes the losses. They are lower bounds: they consider numbers of GPUs,
// not their machines.
func (s *solver) price() {
	for g := range s.losses {
		s.losses[g] = loss{never, never, -1}
	}
	for j := range s.p.bidders {
		now := s.now(j)
		for g := 0; g <= now.gpus; g++ {
			w := now.worth - s.p.bidders[j].bestWithin(now.gpus-g)
			switch l := &s.losses[g]; {
			case w < l.least:
				l.least, l.second, l.bidder = w, l.least, j
			case w < l.second:
				l.second = w
			}
		}
	}
}

// trade improves the solution by exchanges between two bidders: one gets a better
// choice, and another, which was in its way, takes the best that is left. It stops
// when no exchange gains, or when the tries are used up. It considers only choices
// in a class in which GPUs were given up, and bidders whose choice has changed:
// elsewhere nothing gained before.
func (s *solver) trade() {
	s.price()
	look := make([]bool, len(s.fresh))
	for s.tries > 0 && (slices.Contains(s.fresh, true) || slices.Contains(s.moved, true)) {
		look, s.fresh = s.fresh, look
		clear(s.fresh)
		for j := range s.p.bidders {
			all := s.moved[j]
			s.moved[j] = false
			for j != s.absent && s.better(j, look, all) {
				s.price()
			}
		}
	}
}

// tradeAll trades until nothing gains anywhere, or the tries are used up. Only then
// can a gain without a bidder be attributed to its absence.
func (s *solver) tradeAll() {
	for before := worth(-1); s.sum > before && s.tries > 0; {
		before = s.sum
		for c := range s.fresh {
			s.fresh[c] = true
		}
		s.trade()
	}
}

// better finds a better choice for bidder j and takes it.
func (s *solver) better(j int, look []bool, all bool) bool {
	choices := s.p.bidders[j].choices
	for c := len(choices) - 1; c > s.at[j] && s.tries > 0; c-- {
		now, to := s.now(j), &choices[c]
		gain := to.worth - now.worth
		need := max(0, to.gpus-now.gpus-s.room.total)
		if gain <= 0 || need >= len(s.losses) {
			continue
		}
		l := s.losses[need]
		if l.bidder == j {
			l.least = l.second
		}
		if gain > l.least && (all || s.touches(to, look)) && s.exchange(j, c, gain) {
			return true
		}
	}
	return false
}

// touches reports whether a choice has a part in a class to consider.
func (s *solver) touches(c *choice, look []bool) bool {
	for _, q := range c.parts {
		if look[q.class] || s.fresh[q.class] {
			return true
		}
	}
	return false
}

// exchange gives bidder j a choice, at the cost of at most one other bidder. It
// changes nothing if that does not gain.
func (s *solver) exchange(j, c int, gain worth) bool {
	was, to := s.at[j], &s.p.bidders[j].choices[c]
	s.spare = append(s.spare[:0], s.seats[j]...)
	s.leave(j)
	s.tries -= 1 + len(s.p.bidders)/32 // considering all of them costs as much
	stuck := s.room.blocked(to)
	if stuck < 0 {
		s.freshen(s.spare)
		s.sit(j, c)
		return true
	}
	for i := range s.p.bidders {
		if i != j && s.mayYield(i, to, to.parts[stuck], gain) && s.yield(i, j, c, gain) {
			s.freshen(s.spare)
			return true
		}
	}
	s.back(j, was, s.spare)
	return false
}

// back restores a bidder that has nothing to its former seats.
func (s *solver) back(j, was int, seats []seat) {
	s.room.take(seats)
	s.seats[j] = append(s.seats[j][:0], seats...)
	s.at[j] = was
	s.sum += s.now(j).worth
}

// mayYield reports whether bidder i is in the way of a part of a choice and
// could lose less than the gain.
func (s *solver) mayYield(i int, to *choice, q part, gain worth) bool {
	helps := false
	for _, seat := range s.seats[i] {
		if (q.machine == seat.machine || q.machine < 0 && q.class == s.p.classOf[seat.machine]) &&
			s.room.free[seat.machine]+seat.gpus >= q.gpus {
			helps = true
			break
		}
	}
	if !helps {
		return false
	}
	now := s.now(i)
	left := s.room.total + now.gpus - to.gpus
	return left >= 0 && now.worth-s.p.bidders[i].bestWithin(left) < gain
}

// yield moves bidder i out of the way of bidder j, which has nothing and wants
// a choice, if that gains.
func (s *solver) yield(i, j, c int, gain worth) bool {
	s.tries--
	was := s.at[i]
	s.other = append(s.other[:0], s.seats[i]...)
	floor := s.now(i).worth - gain
	s.leave(i)
	if !s.room.fits(&s.p.bidders[j].choices[c]) {
		s.back(i, was, s.other)
		return false
	}
	s.sit(j, c)
	choices := s.p.bidders[i].choices
	for d := len(choices) - 1; d >= 0 && choices[d].worth > floor; d-- {
		if s.room.fits(&choices[d]) {
			s.freshen(s.other)
			s.moved[i] = true
			s.sit(i, d)
			return true
		}
	}
	s.leave(j)
	s.back(i, was, s.other)
	return false
}
