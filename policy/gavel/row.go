// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package gavel

import (
	"math"

	"github.com/fairway-gpu/fairway/sched/num"
)

// row is what the linear program sees of a set of identical jobs.
type row struct {
	count float64   // number of jobs
	scale float64   // GPUs of each job
	speed []float64 // by GPU type: throughput of each; 0: it cannot run there
	best  float64   // the largest speed
	gain  []float64 // by GPU type: the value of all its time there; nil: nothing

	need   float64 // throughput that each must have
	frozen bool    // need is fixed
	block  int     // 1 + the block that it is in; 0: none
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
	*best = corner{}
	least := math.Inf(1)
	if r.need <= 0 {
		if least = 0; r.gain == nil {
			return least
		}
	}
	types := len(r.speed)
	for i, fast := range r.speed {
		if fast <= 0 || fast*(1+slack) < r.need {
			continue
		}
		all := r.rate(i, prices)
		if x := min(1, r.need/fast); r.need > 0 && x*all < least {
			*best, least = corner{codeNeed(i), [2]int{i, i}, [2]float64{x, 0}}, x*all
		}
		if r.gain != nil && all < least {
			*best, least = corner{codeAll(types, i), [2]int{i, i}, [2]float64{1, 0}}, all
		}
		for j, slow := range r.speed {
			if slow <= 0 || slow >= r.need || fast <= slow {
				continue
			}
			x := min(1, (r.need-slow)/(fast-slow))
			if cost := x*all + (1-x)*r.rate(j, prices); cost < least {
				*best, least = corner{codePair(types, i, j), [2]int{i, j}, [2]float64{x, 1 - x}}, cost
			}
		}
	}
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
