// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package auction

import (
	"cmp"
	"container/heap"
	"math"
	"slices"
)

// solver holds one solution and changes it step by step.
type solver struct {
	p      *problem
	room   *room
	at     []int    // by bidder: its choice
	seats  [][]seat // by bidder
	sum    worth    // of all choices
	absent int      // a bidder that must take nothing; -1: none
	tries  int      // exchanges that may still be tried
	purse  int      // tries left for all payments
	fresh  []bool   // by class: GPUs were given up there and not yet reconsidered
	moved  []bool   // by bidder: its choice has changed since it was considered
	losses []loss   // by number of GPUs given up: the cheapest
	spare  []seat   // of the bidder that wants more, during a try
	other  []seat   // of the bidder that yields
}

func newSolver(p *problem) *solver {
	return &solver{
		p:      p,
		room:   newRoom(p),
		at:     make([]int, len(p.bidders)),
		seats:  make([][]seat, len(p.bidders)),
		absent: -1,
		fresh:  make([]bool, len(p.classes)),
		moved:  make([]bool, len(p.bidders)),
		losses: make([]loss, p.most+1),
	}
}

func (s *solver) now(j int) *choice { return &s.p.bidders[j].choices[s.at[j]] }

// leave gives up what bidder j has.
func (s *solver) leave(j int) {
	s.room.give(s.seats[j])
	s.sum -= s.now(j).worth
	s.at[j], s.seats[j] = 0, s.seats[j][:0]
}

// sit gives a bidder without GPUs a choice that fits.
func (s *solver) sit(j, c int) {
	s.seats[j] = s.room.place(&s.p.bidders[j].choices[c], s.seats[j][:0])
	s.at[j] = c
	s.sum += s.now(j).worth
}

// freshen marks the classes of seats that are given up.
func (s *solver) freshen(seats []seat) {
	for _, seat := range seats {
		s.fresh[s.p.classOf[seat.machine]] = true
	}
}

// climb finds a good solution from two starting points and keeps the better one:
// upgrades from nothing, by gain per GPU; and each bidder's best row that fits, by
// gain. The second is worth at least the best single row, and so 1/n of the best
// solution for n bidders, however much they compete.
func (s *solver) climb(opt Options) {
	s.tries = opt.tries() / 4
	s.grow()
	s.tradeAll()
	first := s.save()
	order := make([]int, len(s.p.bidders))
	for j := range order {
		order[j] = j
		s.leave(j)
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(s.p.bidders[b].best(), s.p.bidders[a].best()) })
	for _, j := range order {
		s.readmit(j)
	}
	s.tries = opt.tries() / 4
	s.tradeAll()
	if s.sum <= first.sum {
		s.restore(first)
	}
}

// readmit gives a bidder without GPUs the best choice that fits.
func (s *solver) readmit(j int) {
	choices := s.p.bidders[j].choices
	for c := len(choices) - 1; c > 0; c-- {
		if s.room.fits(&choices[c]) {
			s.sit(j, c)
			return
		}
	}
}

// upgrade is a better choice for a bidder.
type upgrade struct {
	bidder, choice int
	rate           float64 // worth per additional GPU
}

// next returns the upgrade of bidder j that fits and gains most per GPU.
func (s *solver) next(j int) (best upgrade, found bool) {
	choices := s.p.bidders[j].choices
	now := s.now(j)
	if s.at[j] == len(choices)-1 {
		return best, false
	}
	s.room.give(s.seats[j])
	defer s.room.take(s.seats[j])
	for c := s.at[j] + 1; c < len(choices); c++ {
		to := &choices[c]
		gain := to.worth - now.worth
		if gain <= 0 {
			continue
		}
		rate := math.Inf(1) // as good for no more GPUs: the better placement
		if more := to.gpus - now.gpus; more > 0 {
			rate = float64(gain) / float64(more)
		}
		if (!found || rate > best.rate) && s.room.fits(to) {
			best, found = upgrade{j, c, rate}, true
		}
	}
	return best, found
}

// queue is a heap of upgrades, the best first.
type queue []upgrade

func (q queue) Len() int { return len(q) }
func (q queue) Less(a, b int) bool {
	return cmp.Or(cmp.Compare(q[b].rate, q[a].rate), cmp.Compare(q[a].bidder, q[b].bidder)) < 0
}
func (q queue) Swap(a, b int) { q[a], q[b] = q[b], q[a] }
func (q *queue) Push(x any)   { *q = append(*q, x.(upgrade)) }
func (q *queue) Pop() any {
	last := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	return last
}

// grow takes upgrades, the best per GPU first, until none fits. The sum never
// falls. A queued upgrade may no longer fit, so it is looked up again when its turn
// comes. That is sound because free GPUs only shrink, except where a bidder moves;
// trading finds those.
func (s *solver) grow() {
	q := make(queue, 0, len(s.p.bidders))
	for j := range s.p.bidders {
		if j == s.absent {
			continue
		}
		if u, ok := s.next(j); ok {
			q = append(q, u)
		}
	}
	heap.Init(&q)
	for len(q) > 0 {
		j := q[0].bidder
		u, ok := s.next(j)
		switch {
		case !ok:
			heap.Pop(&q)
			continue
		case u.rate < q[0].rate:
			q[0] = u
			heap.Fix(&q, 0)
			continue
		}
		s.freshen(s.seats[j])
		s.leave(j)
		s.sit(j, u.choice)
		if u, ok = s.next(j); ok {
			q[0] = u
			heap.Fix(&q, 0)
		} else {
			heap.Pop(&q)
		}
	}
}
