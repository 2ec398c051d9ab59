// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package auction

import (
	"fmt"
	"math"
)

// Method says how the proportional-fair choice is made.
type Method uint8

// The methods.
const (
	BySize Method = iota // Exact if the problem is small, else Greedy
	Exact                // branch and bound; optimal unless it hits Options.Nodes
	Greedy               // upgrades by gain per GPU, then exchanges between two bidders
)

// Options are the knobs of an auction. The zero value gives the defaults.
type Options struct {
	Method   Method
	Rounding Rounding // of what is won
	MaxRows  int      // of a bid; 0: DefaultMaxRows
	Nodes    int      // of one exact search; 0: DefaultNodes
	Tries    int      // exchanges of all greedy searches of one auction together; 0: DefaultTries
}

// Defaults of Options, and the limits of what BySize considers small.
const (
	DefaultNodes  = 20_000
	DefaultTries  = 1_000_000
	SmallBidders  = 12
	SmallMachines = 64 // with something free
)

func (o Options) nodes() int {
	if o.Nodes > 0 {
		return o.Nodes
	}
	return DefaultNodes
}

func (o Options) tries() int {
	if o.Tries > 0 {
		return o.Tries
	}
	return DefaultTries
}

// Award is the row that an app gets in the proportional-fair choice.
type Award struct {
	App     string
	Bid     int // index among the bids
	Row     int // index in the bid
	Rho     float64
	Take    []Share // the GPUs, possibly on other machines like those of the row
	Dropped int     // rows that were dropped: no better than a smaller one
}

// Solution is one row for every app such that all of them fit into the offer.
type Solution struct {
	Awards []Award // by app name
	Log    float64 // the gain: the logarithm of the product of 1/rho, relative to the present
	Bound  float64 // no solution has a larger Log
	Proven bool    // Log is the optimum
	Nodes  int     // of the exact search
}

func prepare(o Offer, bids []Bid, opt Options) (*problem, []Refusal, error) {
	if err := o.check(); err != nil {
		return nil, nil, fmt.Errorf("read offer: %w", err)
	}
	if len(bids) > maxBidders {
		return nil, nil, fmt.Errorf("read bids: there are %d; want at most %d", len(bids), maxBidders)
	}
	good, refused := Check(o, bids, opt.MaxRows)
	return newProblem(o, bids, good), refused, nil
}

// facts are what is known about a solution.
type facts struct {
	proven bool // the choice is optimal
	paid   bool // and so are those without each bidder
	nodes  int
	bound  worth
}

func (p *problem) small() bool {
	machines := 0
	for _, c := range p.classes {
		machines += len(c)
	}
	return len(p.bidders) <= SmallBidders && machines <= SmallMachines
}

func (p *problem) solve(opt Options) (*solver, facts) {
	s := newSolver(p)
	s.climb(opt)
	f := facts{bound: p.bound()}
	if s.sum >= f.bound {
		f.proven = true
	}
	if opt.Method == Exact || opt.Method == BySize && p.small() {
		f.proven, f.nodes = exact(s, opt.nodes())
		if f.proven {
			f.bound = s.sum
		}
	}
	return s, f
}

// content returns the worth if every bidder has its best row.
func (p *problem) content() worth {
	sum := worth(0)
	for j := range p.bidders {
		sum += p.bidders[j].best()
	}
	return sum
}

// bound returns an upper bound on the worth of any solution: that of the best
// relaxation in which all GPUs are equally good and have a price.
func (p *problem) bound() worth {
	gpus := 0
	for _, f := range p.free {
		gpus += int(f)
	}
	best, low, high := math.Inf(1), 0.0, 0.0
	for j := range p.bidders {
		high = max(high, float64(p.bidders[j].best()))
	}
	for range 60 {
		price := (low + high) / 2
		if low == 0 && best == math.Inf(1) {
			price = 0
		}
		sum, sold := price*float64(gpus), 0
		for j := range p.bidders {
			top, taken := 0.0, 0
			for g, w := range p.bidders[j].within {
				if net := float64(w) - price*float64(g); net > top {
					top, taken = net, g
				}
			}
			sum += top
			sold += taken
		}
		best = min(best, sum)
		if sold <= gpus {
			high = price
		} else {
			low = price
		}
		if high-low < 1 {
			break
		}
	}
	// Rounded up by more than the error of the sums above, but not beyond what all
	// would have with their best rows.
	return min(p.content(), worth(math.Ceil(best*(1+1e-12)))+worth(len(p.bidders)))
}

func (s *solver) solution(bids []Bid, f facts) Solution {
	out := Solution{Log: s.sum.log(), Bound: f.bound.log(), Proven: f.proven, Nodes: f.nodes}
	seats := s.settle()
	for j := range s.p.bidders {
		b := &s.p.bidders[j]
		row := s.now(j).row
		out.Awards = append(out.Awards, Award{
			App: bids[b.bid].App, Bid: b.bid, Row: row, Rho: bids[b.bid].Rows[row].Rho,
			Take: shares(seats[j]), Dropped: b.dropped,
		})
	}
	return out
}

// shares returns seats as shares, by machine.
func shares(seats []seat) []Share {
	out := make([]Share, 0, len(seats))
	for _, s := range seats {
		out = append(out, Share{int(s.machine), int(s.gpus)})
	}
	sortShares(out)
	return out
}
