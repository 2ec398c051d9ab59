// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package auction

import (
	"fmt"
	"math/rand/v2"
)

// Rounding says how a fraction of a row becomes whole gangs.
type Rounding uint8

// The roundings.
const (
	// Floor keeps the largest whole number of gangs within the fraction. A row of
	// one gang is lost whenever there is any payment.
	Floor Rounding = iota
	// Chance keeps the whole row with the probability of the fraction, else
	// nothing.
	Chance
	// Mixed keeps what Floor keeps, plus one gang with the probability that makes
	// the expected number of GPUs match the fraction.
	Mixed
)

func (r Rounding) String() string {
	if r > Mixed {
		return fmt.Sprintf("rounding(%d)", uint8(r))
	}
	return [...]string{"floor", "chance", "mixed"}[r]
}

// Outcome is the result of the auction for one app.
type Outcome struct {
	Award
	Keep float64 // the fraction of the row that the app keeps, in (0,1]; the rest is its hidden payment
	Got  []Share // what it receives
}

// Result is the result of an auction.
type Result struct {
	Solution
	Outcomes []Outcome // by app name
	Refused  []Refusal // by app name
	Withheld []Share   // won and paid away, by machine
	Unsold   []Share   // won by no app, by machine

	// Exact says that the choice and every payment are optimal, as in the theory.
	// Otherwise a search hit its limit or was greedy.
	Exact bool
}

// Run holds a partial-allocation auction. All randomness comes from rng, which only
// Chance and Mixed need; otherwise it may be nil. The order of the bids does not
// matter.
func Run(o Offer, bids []Bid, opt Options, rng *rand.Rand) (Result, error) {
	if opt.Rounding > Mixed || opt.Rounding != Floor && rng == nil {
		return Result{}, fmt.Errorf("round %s: want floor, or chance or mixed with a source of randomness", opt.Rounding)
	}
	p, refused, err := prepare(o, bids, opt)
	if err != nil {
		return Result{}, err
	}
	s, f := p.solve(opt)
	keep := s.pay(opt, &f)
	if f.bound < s.sum {
		f.bound = s.sum
	}
	res := Result{Solution: s.solution(bids, f), Refused: refused, Exact: f.proven && f.paid}
	won, got := make([]int, len(o.Machines)), make([]int, len(o.Machines))
	for j, a := range res.Awards {
		bid := bids[a.Bid]
		gpus := fraction{keep[j], opt.Rounding, rng}.gpus(Total(a.Take), bid.gang())
		out := Outcome{Award: a, Keep: keep[j], Got: trim(o, bid, a.Take, gpus)}
		for _, s := range a.Take {
			won[s.Machine] += s.GPUs
		}
		for _, s := range out.Got {
			got[s.Machine] += s.GPUs
		}
		res.Outcomes = append(res.Outcomes, out)
	}
	for m := range o.Machines {
		if paid := won[m] - got[m]; paid > 0 {
			res.Withheld = append(res.Withheld, Share{m, paid})
		}
		if unsold := o.Machines[m].Free - won[m]; unsold > 0 {
			res.Unsold = append(res.Unsold, Share{m, unsold})
		}
	}
	return res, nil
}
