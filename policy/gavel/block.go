// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package gavel

import "math"

// maxBlock is the number of jobs in a block, so that each has up to three
// partners.
const maxBlock = 4

// block is a few jobs of the same size, any two of which may share GPUs. Shared
// time is time of both jobs, so a block is solved as a whole, by its own small
// linear program.
type block struct {
	rows  []int // in problem.rows, one for each job
	pairs []pair
	count float64 // number of identical blocks
	scale float64 // GPUs of each job
}

// pair is two jobs of a block.
type pair struct {
	a, b int     // in block.rows
	slow [2]slow // of a and of b
}

// slow is how many times slower a job is beside another, by GPU type; 0: the two
// may not share there.
type slow [maxTypes]float64

// play is a part of a block's time: a job alone on a type, or a pair.
type play struct {
	part int // a job, by its place in the block; then pairs
	on   int // type
	time float64
}

// blockTableau has, for each job, a line for its need and one for its time. The
// first basis has every job alone on its best type for as long as it needs, which
// is always feasible.
type blockTableau struct {
	lines [2 * maxBlock][]float64 // right-hand side last
	cost  []float64               // reduced
	basis [2 * maxBlock]int
	rows  int // 2 for each job
	width int // variables; the right-hand side follows
	at    []float64
}

// load writes the program of a block at prices.
func (t *blockTableau) load(p *problem, b *block, prices []float64) {
	jobs, types := len(b.rows), len(p.gpus)
	parts := jobs + len(b.pairs)
	t.rows, t.width = 2*jobs, parts*types+2*jobs
	if need := (t.rows + 1) * (t.width + 1); cap(t.at) < need {
		t.at = make([]float64, need)
	} else {
		t.at = t.at[:need]
		clear(t.at)
	}
	for i := range t.rows {
		t.lines[i] = t.at[i*(t.width+1) : (i+1)*(t.width+1)]
	}
	t.cost = t.at[t.rows*(t.width+1) : (t.rows+1)*(t.width+1)]
	for part := range parts {
		for on := range types {
			t.cost[part*types+on] = p.rate(b, part, on, prices)
		}
	}
	for i, n := range b.rows {
		t.loadJob(p, b, i, &p.rows[n])
	}
}

// loadJob writes the two lines of a job, with its basic variables eliminated.
func (t *blockTableau) loadJob(p *problem, b *block, i int, r *row) {
	types, jobs := len(p.gpus), len(b.rows)
	fast := 0
	for on, speed := range r.speed {
		if speed > r.speed[fast] {
			fast = on
		}
	}
	need, time := t.lines[2*i], t.lines[2*i+1]
	unit := 1 / r.speed[fast]
	write := func(part, on int, factor float64) {
		v := part*types + on
		need[v] = factor * r.speed[on] * unit
		time[v] = 1 - need[v]
	}
	for on, speed := range r.speed {
		if speed > 0 {
			write(i, on, 1)
		}
	}
	for k := range b.pairs {
		for side, job := range [2]int{b.pairs[k].a, b.pairs[k].b} {
			for on := range r.speed {
				if s := b.pairs[k].slow[side][on]; job == i && s > 0 {
					write(jobs+k, on, 1/s)
				}
			}
		}
	}
	surplus := (jobs+len(b.pairs))*types + 2*i
	need[surplus], time[surplus] = -unit, unit
	time[surplus+1] = 1
	need[t.width] = min(1, r.need*unit)
	time[t.width] = 1 - need[t.width]
	t.basis[2*i], t.basis[2*i+1] = i*types+fast, surplus+1
	if c := t.cost[t.basis[2*i]]; c != 0 {
		eliminate(t.cost, need, c)
	}
}

// rate returns the cost of all time of a part of a block on a type; 0 if it cannot
// run there.
func (p *problem) rate(b *block, part, on int, prices []float64) float64 {
	if part < len(b.rows) {
		if r := &p.rows[b.rows[part]]; r.speed[on] > 0 {
			return r.rate(on, prices)
		}
		return 0
	}
	k := &b.pairs[part-len(b.rows)]
	if k.slow[0][on] == 0 {
		return 0
	}
	return prices[on]*b.scale - p.gain(b, part, on)
}

// gain returns what all time of a part of a block on a type is worth.
func (p *problem) gain(b *block, part, on int) float64 {
	if part < len(b.rows) {
		if r := &p.rows[b.rows[part]]; r.gain != nil {
			return r.gain[on]
		}
		return 0
	}
	k := &b.pairs[part-len(b.rows)]
	sum := 0.0
	for side, job := range [2]int{k.a, k.b} {
		if r := &p.rows[b.rows[job]]; r.gain != nil && k.slow[side][on] > 0 {
			sum += r.gain[on] / k.slow[side][on]
		}
	}
	return sum
}

// solve pivots until no step lowers the cost: by the largest decrease at first,
// then, if that takes long, by Bland's rule, which cannot cycle.
func (t *blockTableau) solve() {
	most := 0.0
	for v := range t.width {
		most = max(most, math.Abs(t.cost[v]))
	}
	eps := 1e-12 * most
	const quick, enough = 100, 2000
	for step := range enough {
		in, low := -1, -eps
		for v := range t.width {
			if c := t.cost[v]; c < low {
				if in, low = v, c; step > quick {
					break
				}
			}
		}
		if in < 0 {
			return
		}
		out := t.leaving(in)
		if out < 0 {
			return
		}
		t.pivot(out, in)
	}
}

// leaving returns the line that bounds a variable most.
func (t *blockTableau) leaving(in int) int {
	best, ratio := -1, 0.0
	for i := range t.rows {
		line := t.lines[i]
		if line[in] <= tiny {
			continue
		}
		q := line[t.width] / line[in]
		if best < 0 || q < ratio || (q == ratio && t.basis[i] < t.basis[best]) {
			best, ratio = i, q
		}
	}
	return best
}

func (t *blockTableau) pivot(out, in int) {
	line := t.lines[out]
	by := 1 / line[in]
	for v := range line {
		line[v] *= by
	}
	for i := range t.rows {
		if other := t.lines[i]; i != out && other[in] != 0 {
			eliminate(other, line, other[in])
		}
	}
	eliminate(t.cost, line, t.cost[in])
	t.basis[out] = in
}

// cheapest returns the times of a block that meet its needs at the least cost.
func (p *problem) cheapest(b *block, prices []float64) ([]play, float64) {
	t, types := &p.tableau, len(p.gpus)
	t.load(p, b, prices)
	t.solve()
	out := make([]play, 0, t.rows)
	for i := range t.rows {
		v, time := t.basis[i], t.lines[i][t.width]
		if v < (len(b.rows)+len(b.pairs))*types && time > slack {
			out = append(out, play{v / types, v % types, min(1, time)})
		}
	}
	return out, -t.cost[t.width]
}
