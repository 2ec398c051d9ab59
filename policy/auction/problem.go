// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package auction

import (
	"cmp"
	"math"
	"slices"
)

// worth is the logarithm of how much better a row is than the present, log(rho now
// / rho then), in fixed point: sums do not depend on their order, and scaling all
// rho by a constant changes nothing.
type worth int64

// unit is the worth of a factor e. With rho from MinRho to MaxRho a row is
// worth less than 35 units, so that the sum over 65,536 bidders fits.
const unit = 1 << 40

const maxBidders = 1 << 16

func worthOf(now, then float64) worth { return worth(math.Round(math.Log(now/then) * unit)) }

func (w worth) log() float64 { return float64(w) / unit }

// part is a number of GPUs of one machine, or of any machine of a class.
type part struct {
	machine int32 // -1: any of the class
	class   int32
	gpus    int32
	asked   int32 // the machine that the row names
}

// choice is a preprocessed row of a bid. Its parts are in order: machines first,
// then classes, in each class the larger parts first.
type choice struct {
	parts  []part
	pinned int // number of parts that name a machine
	gpus   int
	worth  worth
	row    int // index in the bid
}

type bidder struct {
	choices []choice // by worth, ascending; the first takes nothing
	within  []worth  // by number of GPUs: the best worth with at most that many
	dropped int      // rows that are no better than a smaller one
	bid     int      // index among the bids
}

func (b *bidder) best() worth { return b.choices[len(b.choices)-1].worth }

// bestWithin returns the most worth that a number of GPUs can give.
func (b *bidder) bestWithin(gpus int) worth {
	return b.within[min(gpus, len(b.within)-1)]
}

// problem is the choice of one row per bidder within what is on offer.
type problem struct {
	free    []int32
	classOf []int32   // by machine; -1: nothing is free on it
	classes [][]int32 // interchangeable machines, ascending
	special []bool    // by machine: some row means exactly this one
	bidders []bidder  // by app name
	most    int       // GPUs of the largest choice
}

func newProblem(o Offer, bids []Bid, good []int) *problem {
	p := &problem{
		free:    make([]int32, len(o.Machines)),
		classOf: make([]int32, len(o.Machines)),
		special: make([]bool, len(o.Machines)),
		bidders: make([]bidder, 0, len(good)),
	}
	type likeness struct{ rack, kind, model string }
	seen := map[likeness]int32{}
	for i, m := range o.Machines {
		if m.Free == 0 {
			p.classOf[i] = -1
			continue
		}
		key := likeness{m.Rack, m.Kind, m.Type}
		c, ok := seen[key]
		if !ok {
			c = int32(len(p.classes))
			seen[key] = c
			p.classes = append(p.classes, nil)
		}
		p.free[i], p.classOf[i] = int32(m.Free), c
		p.classes[c] = append(p.classes[c], int32(i))
	}
	for _, i := range good {
		p.bidders = append(p.bidders, p.bidder(bids[i], i))
	}
	return p
}

func (p *problem) bidder(b Bid, index int) bidder {
	held := make([]bool, len(p.free))
	for _, s := range b.Holds {
		held[s.Machine] = held[s.Machine] || s.GPUs > 0
	}
	now := 0.0
	for _, row := range b.Rows {
		if len(row.Take) == 0 {
			now = row.Rho
		}
	}
	choices := make([]choice, 0, len(b.Rows))
	for i, row := range b.Rows {
		choices = append(choices, p.choice(row, held, choice{row: i, worth: worthOf(now, row.Rho)}))
	}
	out := bidder{choices: undominated(choices), bid: index}
	out.dropped = len(b.Rows) - len(out.choices)
	most := 0
	for _, c := range out.choices {
		most = max(most, c.gpus)
		for _, part := range c.parts[:c.pinned] {
			p.special[part.machine] = true
		}
	}
	p.most = max(p.most, most)
	out.within = make([]worth, most+1)
	for _, c := range out.choices {
		out.within[c.gpus] = max(out.within[c.gpus], c.worth)
	}
	for g := 1; g <= most; g++ {
		out.within[g] = max(out.within[g], out.within[g-1])
	}
	return out
}

func (p *problem) choice(row Row, held []bool, c choice) choice {
	c.parts = make([]part, 0, len(row.Take))
	for _, s := range row.Take {
		q := part{machine: -1, class: p.classOf[s.Machine], gpus: int32(s.GPUs), asked: int32(s.Machine)}
		if row.Pinned || held[s.Machine] || len(p.classes[q.class]) == 1 {
			q.machine = int32(s.Machine)
			c.pinned++
		}
		c.parts = append(c.parts, q)
		c.gpus += s.GPUs
	}
	slices.SortFunc(c.parts, func(a, b part) int {
		return cmp.Or(
			cmp.Compare(min(b.machine, 0), min(a.machine, 0)),
			cmp.Compare(a.machine, b.machine),
			cmp.Compare(a.class, b.class),
			cmp.Compare(b.gpus, a.gpus),
			cmp.Compare(a.asked, b.asked),
		)
	})
	return c
}

// undominated returns, by worth, the choices that are worth more than every choice
// that fits wherever they fit.
func undominated(choices []choice) []choice {
	slices.SortStableFunc(choices, func(a, b choice) int {
		return cmp.Or(cmp.Compare(a.gpus, b.gpus), cmp.Compare(b.worth, a.worth), compareParts(a, b), cmp.Compare(a.row, b.row))
	})
	kept := choices[:0:0]
	for _, c := range choices {
		if !slices.ContainsFunc(kept, func(k choice) bool { return k.worth >= c.worth && k.inside(c) }) {
			kept = append(kept, c)
		}
	}
	slices.SortStableFunc(kept, func(a, b choice) int { return cmp.Compare(a.worth, b.worth) })
	return kept
}

// compareParts orders choices by what they take, so that the order of rows in
// a bid does not matter.
func compareParts(a, b choice) int {
	return slices.CompareFunc(a.parts, b.parts, func(x, y part) int {
		return cmp.Or(cmp.Compare(x.machine, y.machine), cmp.Compare(x.class, y.class), cmp.Compare(x.gpus, y.gpus), cmp.Compare(x.asked, y.asked))
	})
}

// inside reports whether c fits wherever d fits: every part of c has its own part
// of d that is at least as large, on the same machine or in the same class.
func (c choice) inside(d choice) bool {
	if len(c.parts) > len(d.parts) {
		return false
	}
	i := 0
	for _, q := range c.parts {
		for i < len(d.parts) && !(d.parts[i].machine == q.machine && d.parts[i].class == q.class) {
			i++
		}
		if i == len(d.parts) || d.parts[i].gpus < q.gpus {
			return false
		}
		i++
	}
	return true
}
