// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package auction

import (
	"math"
	"slices"
)

// pay returns for every bidder the fraction of its row that it keeps: the product
// of what the others have, over the product of what they would have without it. A
// bidder that takes nothing displaces no one and keeps all.
//
// Each bidder is left out in turn, and the search continues from the solution with
// the GPUs it freed. If that finds a better solution for all, which happens only if
// the first was not optimal, that solution is adopted and the payments start over,
// while tries last. So no bidder pays for GPUs that it does not keep from others.
func (s *solver) pay(opt Options, f *facts) []float64 {
	s.purse = opt.tries() / 2
	for {
		last := s.purse < opt.tries()/4
		if keep, done := s.payOnce(opt, f, last); done {
			return keep
		}
		s.tries = opt.tries() / 8
		s.purse -= s.tries
		s.tradeAll()
	}
}

func (s *solver) payOnce(opt Options, f *facts, last bool) (keep []float64, done bool) {
	keep = make([]float64, len(s.p.bidders))
	content := s.p.content()
	useExact := opt.Method == Exact || opt.Method == BySize && s.p.small()
	start := s.save()
	f.paid = true
	for j := range s.p.bidders {
		keep[j] = 1
		others := start.sum - s.now(j).worth
		if s.at[j] == 0 || others == content-s.p.bidders[j].best() {
			continue
		}
		s.without(j, opt)
		proven := false
		if useExact {
			var nodes int
			proven, nodes = exact(s, opt.nodes())
			f.nodes += nodes
		}
		f.paid = f.paid && proven
		without := s.sum
		s.absent = -1
		s.readmit(j)
		found := max(0, s.sum-start.sum) // gained by the others without harm to j
		if found > 0 && !last {
			return nil, false
		}
		harm := without - others - found
		keep[j] = min(1, max(math.SmallestNonzeroFloat64, math.Exp(-harm.log())))
		s.restore(start)
	}
	return keep, true
}

// without leaves a bidder out and gives its GPUs to the others.
func (s *solver) without(j int, opt Options) {
	clear(s.fresh)
	clear(s.moved)
	s.freshen(s.seats[j])
	s.leave(j)
	s.absent = j
	granted := max(200, opt.tries()/4/len(s.p.bidders))
	s.tries = granted
	s.grow()
	s.trade()
	s.purse -= granted - s.tries + 1
}

// saved is a solution to come back to.
type saved struct {
	at    []int
	seats [][]seat
	sum   worth
}

func (s *solver) save() saved {
	out := saved{at: slices.Clone(s.at), seats: make([][]seat, len(s.seats)), sum: s.sum}
	for j := range s.seats {
		out.seats[j] = slices.Clone(s.seats[j])
	}
	return out
}

// restore returns to a saved solution, changing only what differs.
func (s *solver) restore(to saved) {
	var changed []int
	for j := range s.seats {
		if s.at[j] != to.at[j] || !slices.Equal(s.seats[j], to.seats[j]) {
			changed = append(changed, j)
			s.leave(j)
		}
	}
	for _, j := range changed {
		s.back(j, to.at[j], to.seats[j])
	}
}
