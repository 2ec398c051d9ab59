// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package tune

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// bracket is a group of trials that are compared with each other.
type bracket struct {
	first, trials int       // numbers
	levels        []float64 // iterations of the rungs, ascending, all below the total
}

// rungs is successive halving: with one bracket or several, synchronous or not.
type rungs struct {
	eta, max float64
	async    bool
	brackets func(trials int) []bracket
}

// oneBracket puts all trials into one bracket.
func oneBracket(c Config) func(int) []bracket {
	levels := c.Levels
	if len(levels) == 0 {
		levels = ladder(c.Min, c.Max, c.Eta)
	}
	return func(trials int) []bracket { return []bracket{{0, trials, levels}} }
}

// ladder returns the rungs from the first to the last below the total.
func ladder(first, whole, eta float64) []float64 {
	var out []float64
	for l := first; l < whole*(1-1e-9); l *= eta {
		out = append(out, l)
	}
	return out
}

// hyperBrackets divides trials into the brackets of HyperBand, the most aggressive
// first, and repeats until all trials have one.
func hyperBrackets(c Config) func(int) []bracket {
	steepest := int(math.Log(c.Max/c.Min)/math.Log(c.Eta) + 1e-9)
	return func(trials int) []bracket {
		var out []bracket
		for at := 0; at < trials; {
			for s := steepest; s >= 0 && at < trials; s-- {
				n := math.Ceil(float64(steepest+1) / float64(s+1) * math.Pow(c.Eta, float64(s)))
				size := trials - at
				if n < float64(size) {
					size = int(n)
				}
				out = append(out, bracket{at, size, ladder(c.Max*math.Pow(c.Eta, -float64(s)), c.Max, c.Eta)})
				at += size
			}
		}
		return out
	}
}

// place is a trial at a rung.
type place struct {
	job   int
	value float64
}

// members returns the trials of a bracket by index, and how many are still to start.
func (b bracket) members(v *view) (jobs []int, coming int) {
	for i := range v.jobs {
		if n := v.jobs[i].Number; n >= b.first && n < b.first+b.trials {
			jobs = append(jobs, i)
		}
	}
	return jobs, max(0, b.trials-len(jobs))
}

// rung returns the rung up to which a trial may run.
func (v *view) rung(i int) int {
	if up, ok := v.promote[i]; ok {
		return up
	}
	return v.jobs[i].Rung
}

// table returns the trials that have reached a rung, the best first, and how many
// still may. A trial that only ran past it before it could be paused does not count.
func (v *view) table(members []int, number int, level float64) (table []place, coming int) {
	for _, i := range members {
		if value, ok := v.jobs[i].bestBy(level); ok && v.rung(i) >= number {
			table = append(table, place{i, value})
		} else if v.active(i) {
			coming++
		}
	}
	slices.SortFunc(table, func(a, b place) int {
		return cmp.Or(cmp.Compare(a.value, b.value), cmp.Compare(v.jobs[a.job].Number, v.jobs[b.job].Number))
	})
	return table, coming
}

func (r *rungs) judge(v *view) {
	for _, b := range r.brackets(v.Trials) {
		members, unborn := b.members(v)
		for k, level := range b.levels {
			table, coming := v.table(members, k, level)
			r.judgeRung(v, rung{k, level, table, coming + unborn})
		}
	}
}

// rung is one comparison.
type rung struct {
	number int
	level  float64
	table  []place
	coming int // trials that may still reach it
}

func (r *rungs) judgeRung(v *view, g rung) {
	now, most := r.survivors(len(g.table)), max(1, r.survivors(len(g.table)+g.coming))
	switch {
	case g.coming == 0:
		now = max(1, now)
	case !r.async:
		now = 0
	}
	for rank, p := range g.table {
		switch {
		case !v.active(p.job) || v.rung(p.job) != g.number:
		case rank < now:
			v.promote[p.job] = g.number + 1
		case rank >= most:
			v.stop(p.job, fmt.Sprintf("ranks %d of %d at %g iterations; of %d at most, the best %d go on",
				rank+1, len(g.table), g.level, len(g.table)+g.coming, most))
		default:
			v.waits[p.job] = true
		}
	}
}

// survivors returns how many of n trials continue.
func (r *rungs) survivors(n int) int { return int(float64(n)/r.eta + 1e-9) }

// phases assumes that the best 1/eta of every rung continue.
func (r *rungs) phases(v *view) []Phase {
	var out []Phase
	demand := 1
	for i := range v.jobs {
		demand = max(demand, v.jobs[i].Demand)
	}
	for _, b := range r.brackets(v.Trials) {
		members, unborn := b.members(v)
		expected := unborn
		for _, i := range members {
			if v.jobs[i].State != Failed {
				expected++
			}
		}
		begin := 0.0
		for k, level := range append(slices.Clone(b.levels), r.max) {
			there, coming := v.table(members, k, level)
			jobs := expected - len(there)
			iterations := level - begin
			if coming > 0 && coming >= jobs { // all have started: the slowest counts
				iterations = min(iterations, v.longest(members, level))
			}
			out = append(out, Phase{Jobs: max(0, jobs), Iterations: iterations, Demand: demand})
			expected, begin = min(expected, max(1, r.survivors(expected))), level
		}
	}
	return out
}

// longest returns the most iterations that an active trial needs to reach a level.
func (v *view) longest(members []int, level float64) float64 {
	most := 0.0
	for _, i := range members {
		if v.active(i) {
			most = max(most, level-v.jobs[i].Done)
		}
	}
	return most
}
