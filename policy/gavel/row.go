// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package gavel

import (
	"math"

	"github.com/fairway-gpu/fairway/sched/num"
)

// row is what the linear program sees of a set of identical jobs.
type row struct {
	need  float64   // throughput that each must have
	count float64   // number of jobs
	scale float64   // GPUs of each job
	speed []float64 // by GPU type: throughput of each; 0: it cannot run there
	gain  []float64 // by GPU type: the value of all its time there; nil: nothing

	best   float64 // the largest speed
	block  int     // 1 + the block that it is in; 0: none
	frozen bool    // need is fixed
}

// corner is an extreme point of a row's feasible times, on at most two GPU types.
// Corners of the same code are of the same kind in every row.
type corner struct {
	code int
	on   [2]int
	time [2]float64
}

// The codes of corners, for a number of types: nothing; exactly the need on type i;
// all time on type i; all time on types i and j with exactly the need.
func codeNeed(i int) int           { return 1 + i }
func codeAll(types, i int) int     { return 1 + types + i }
func codePair(types, i, j int) int { return 1 + 2*types + i*types + j }

// slack absorbs rounding errors in throughputs.
const slack = 1e-9

// cheapest finds the corner of the row with the least cost: the price of its GPU
// time, less its gain. It returns that cost.
func (r *row) cheapest(prices []float64, best *corner) float64 {
	need, types := r.need, len(r.speed)
	// The corner, in pieces: this is where a decision spends most of its time.
	code, on, with, part, rest, least := 0, 0, 0, 0.0, 0.0, math.Inf(1)
	if need <= 0 {
		least = 0
	}
	for i, fast := range r.speed {
		if fast <= 0 || fast*(1+slack) < need || need <= 0 && r.gain == nil {
			continue
		}
		all := r.rate(i, prices)
		if need > 0 {
			if x := min(1, need/fast); x*all < least {
				code, on, with, part, rest, least = codeNeed(i), i, i, x, 0, x*all
			}
		}
		if r.gain != nil && all < least {
			code, on, with, part, rest, least = codeAll(types, i), i, i, 1, 0, all
		}
		for j, slow := range r.speed {
			if slow <= 0 || slow >= need || fast <= slow {
				continue
			}
			x := min(1, (need-slow)/(fast-slow))
			if cost := x*all + (1-x)*r.rate(j, prices); cost < least {
				code, on, with, part, rest, least = codePair(types, i, j), i, j, x, 1-x, cost
			}
		}
	}
	best.code, best.on[0], best.on[1], best.time[0], best.time[1] = code, on, with, part, rest
	return least
}

// rate returns the cost of all time on a type.
func (r *row) rate(i int, prices []float64) float64 {
	cost := prices[i] * r.scale
	if r.gain != nil {
		cost -= r.gain[i]
	}
	return cost
}

// rise reports whether slightly more throughput of a row would have a cost.
func (p *problem) rise(k int, prices []float64) bool {
	r := &p.rows[k]
	cost := func() float64 {
		if r.block > 0 {
			_, cost := p.cheapest(&p.blocks[r.block-1], prices)
			return cost
		}
		return r.cheapest(prices, new(corner))
	}
	now, need := cost(), r.need
	if r.need = min(r.best, need*1.001); need == 0 {
		r.need = r.best / 1000
	}
	then := cost()
	r.need = need
	return then-now > 1e-6*r.scale*r.need/r.best*num.Mean(prices)
}
