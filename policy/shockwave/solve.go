// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package shockwave

import (
	"cmp"
	"math"
	"slices"
)

// problem is to divide the GPU-rounds of a window.
type problem struct {
	jobs     []job
	window   int
	capacity int     // GPU-rounds
	makespan float64 // cost of a round of the longest time left
	price    float64 // logarithm of the price of the last division: a first guess
}

// answer is a division: the rounds of each job. No division is worth more than value
// by more than gap.
type answer struct {
	rounds     []int
	value, gap float64
}

// prepare completes what is known about the jobs. It gives up the rounds that they must
// have, if there are too few GPUs for them, and weighs the jobs instead.
func (p *problem) prepare() {
	used, fit := 0, true
	for k := range p.jobs {
		x := &p.jobs[k]
		x.most = int(math.Ceil(min(x.left, float64(p.window))))
		x.past = (begun/(1-begun) + x.progress) / (1 - x.progress) * x.left
		used += x.must * x.gpus
		fit = fit && x.must <= x.most
	}
	fit = fit && used <= p.capacity
	for k := range p.jobs {
		if fit {
			p.jobs[k].weight = 1
		} else {
			p.jobs[k].must = 0
		}
	}
}

// The work that a plan may cost.
const (
	exactSteps  = 100_000 // of the exact search within one bound
	boundedJobs = 40_000  // jobs times bounds
	leastBounds = 4
	mostBounds  = 16
)

// span is a range of bounds of the longest time left, of which the first has been
// tried.
type span struct {
	first, end int
	welfare    float64 // no plan within the first bound has more
}

// solve divides the rounds by branch and bound on the longest time left: a tighter
// bound costs progress and saves makespan.
func (p *problem) solve() answer {
	bounds, least := p.bounds()
	best := answer{rounds: make([]int, len(p.jobs)), value: math.Inf(-1)}
	// promise returns what no plan of a span is worth more than.
	promise := func(s span) float64 { return s.welfare - p.makespan*least[s.end-1] }
	last := len(bounds) - 1
	open := []span{{0, max(1, last), p.try(bounds[0], &best)}}
	if last > 0 {
		open = append(open, span{last, last + 1, p.try(bounds[last], &best)})
	}
	limit := min(mostBounds, max(leastBounds, boundedJobs/max(1, len(p.jobs))))
	for len(open) < limit {
		at := -1
		for i, s := range open {
			if s.end-s.first > 1 && promise(s) > best.value+tiny(best.value) && (at < 0 || promise(s) > promise(open[at])) {
				at = i
			}
		}
		if at < 0 {
			break
		}
		s := open[at]
		middle := (s.first + s.end) / 2
		open[at].end = middle
		open = append(open, span{middle, s.end, p.try(bounds[middle], &best)})
	}
	for _, s := range open {
		if more := promise(s) - best.value; more > tiny(best.value) {
			best.gap = max(best.gap, more)
		}
	}
	return best
}

// tiny is a difference that rounding explains.
func tiny(v float64) float64 { return 1e-9 * (1 + math.Abs(v)) }

// mostValues is the number of bounds above which they are taken from a grid.
const mostValues = 512

// bounds returns values for the longest time left after the window, largest first,
// for which the GPUs suffice: all that it can have if these are few. least is the
// smallest that it can have in a plan that keeps to each of them, but not to the next.
func (p *problem) bounds() (bounds, least []float64) {
	now, floor := 0.0, 0.0
	for k := range p.jobs {
		x := &p.jobs[k]
		now, floor = max(now, x.left), max(floor, x.left-float64(x.most))
	}
	all := []float64{now, floor}
	for k := range p.jobs {
		x := &p.jobs[k]
		for n := 0; len(all) <= mostValues && n <= x.most && x.left-float64(n) > floor; n++ {
			all = append(all, x.left-float64(n))
		}
	}
	grid := len(all) > mostValues
	if grid {
		const steps = 64
		all = all[:0]
		for i := range steps + 1 {
			all = append(all, floor+(now-floor)*float64(i)/steps)
		}
	}
	slices.SortFunc(all, func(a, b float64) int { return cmp.Compare(b, a) })
	all = slices.Compact(all)
	least = all
	if grid && len(all) > 1 {
		least = append(slices.Clone(all[1:]), floor)
	}
	n := max(1, p.feasible(all))
	return all[:n], least[:n]
}

// feasible returns how many of the bounds, largest first, leave GPUs enough.
func (p *problem) feasible(bounds []float64) int {
	n, _ := slices.BinarySearchFunc(bounds, p.capacity, func(bound float64, capacity int) int {
		used := 0
		for k := range p.jobs {
			used += p.jobs[k].least(bound) * p.jobs[k].gpus
		}
		return cmp.Compare(used, capacity+1) // below 0: it fits
	})
	return n
}

// try plans with the longest time left bounded, and keeps the plan if it is the best
// so far. It returns an upper limit of the progress of all jobs within the bound.
func (p *problem) try(bound float64, best *answer) (welfare float64) {
	rounds := make([]int, len(p.jobs))
	for k := range p.jobs {
		rounds[k] = p.jobs[k].least(bound)
	}
	keep := func() (progress float64) {
		progress = p.progress(rounds)
		if v := progress - p.makespan*longest(p.jobs, rounds); v > best.value {
			best.rounds, best.value = slices.Clone(rounds), v
		}
		return progress
	}
	if p.exact(rounds) {
		return keep()
	}
	welfare = p.bisect(rounds)
	p.finish(rounds)
	keep()
	return welfare
}

// progress returns the value of the progress of all jobs.
func (p *problem) progress(rounds []int) float64 {
	sum := 0.0
	for k := range p.jobs {
		sum += p.jobs[k].value(rounds[k])
	}
	return sum
}

// longest returns the longest time left of any job.
func longest(jobs []job, rounds []int) float64 {
	out := 0.0
	for k := range jobs {
		out = max(out, jobs[k].left-float64(rounds[k]))
	}
	return out
}
