// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package division

import (
	"math"
	"slices"
)

// menu lists what every job may get, with its prices.
type menu struct {
	*problem
	options [][]option // by job; the first is nothing
	least   []float64  // by job: cost of the cheapest option
	market  *market
	cuts    cuts        // scratch of trim
	keen    []int32     // jobs, the one that gains most from its favourite first
	tables  [][]float64 // by job: see table; nil: not made yet

	gpu    float64 // see gpuPrice
	priced bool    // it is known, for these options
}

// newMenu lists the options of all jobs and opens the market.
func newMenu(p *problem) *menu {
	m := &menu{problem: p, options: make([][]option, len(p.jobs)), tables: make([][]float64, len(p.jobs))}
	m.list()
	m.least = make([]float64, len(m.options))
	for i, options := range m.options {
		m.least[i] = m.none
		for _, o := range options {
			m.least[i] = min(m.least[i], o.cost)
		}
	}
	m.market = newMarket(m)
	return m
}

// maxDense bounds the number of sizes, over all jobs, that are tried one by one:
// each costs a search for the best batch size.
const maxDense = 1500

// list fills in the options: all sizes if there are few; else some sizes far apart,
// and then those around the one that the job would choose.
func (m *menu) list() {
	count := 0
	for i := range m.jobs {
		j := &m.jobs[i]
		count += (j.most-j.fewest)/j.demand.task + 1
	}
	dense := count <= maxDense
	var sizes []int
	for i := range m.jobs {
		j := &m.jobs[i]
		if dense {
			sizes = j.between(sizes[:0], j.fewest, j.most, 1)
		} else {
			sizes = j.sparse(sizes[:0])
		}
		m.options[i] = m.problem.options(j, sizes)
	}
	if dense {
		return
	}
	price := m.gpuPrice()
	for i := range m.jobs {
		j := &m.jobs[i]
		if j.fewest == j.most {
			continue // it has one size
		}
		low, high := m.around(i, price)
		const most = 12 // sizes
		sizes = j.sparse(sizes[:0])
		few := len(sizes)
		if sizes = j.between(sizes, low+1, high-1, max(1, (high-low)/most)); len(sizes) == few {
			continue // it has these options
		}
		slices.Sort(sizes)
		m.options[i] = m.problem.options(j, slices.Compact(sizes))
		m.priced = false
	}
}

// held returns the choice in which every job keeps what it has.
func (m *menu) held() []int32 {
	choice := make([]int32, len(m.options))
	for i := range choice {
		if len(m.jobs[i].held) > 0 {
			choice[i] = 1 // see options
		}
	}
	return choice
}

// between appends every step-th of the sizes from low to high that the job can run
// at.
func (j *Job) between(out []int, low, high, step int) []int {
	for n := low; n <= high; n += step {
		if j.legal(n) {
			out = append(out, n)
		}
	}
	return out
}

// sparse appends sizes far apart, ascending: each about twice the previous one, up
// to a whole node, and then whole nodes.
func (j *Job) sparse(out []int) []int {
	node := 1
	for _, k := range j.Kinds {
		node = max(node, k.reach.node)
	}
	begin := len(out)
	add := func(n int) {
		for n > j.fewest && !j.legal(n) {
			n--
		}
		if j.legal(n) && (len(out) == begin || n > out[len(out)-1]) {
			out = append(out, n)
		}
	}
	for n := j.fewest; n < min(node, j.most); n *= 2 {
		add(n)
	}
	for n := node; n < j.most; n *= 2 {
		add(n)
	}
	add(j.most)
	return out
}

// around returns the sizes next to the one that a job would choose at a price per
// GPU.
func (m *menu) around(i int, price float64) (low, high int) {
	best, least := int32(0), math.Inf(1)
	for _, o := range m.options[i] {
		if c := o.cost + price*float64(o.gpus); c < least {
			best, least = o.gpus, c
		}
	}
	high = int(best)
	for _, o := range m.options[i] {
		n := int(o.gpus)
		if n < int(best) {
			low = max(low, n)
		}
		if n > int(best) && (high == int(best) || n < high) {
			high = n
		}
	}
	return low, high
}

// maxTable is the largest number of GPUs in a job's table. A job that has more
// takes no part in the division of pairs of nodes.
const maxTable = 256

// spread is the row of a table after those of the spans: the cheaper of near and
// far.
const spread = spans

// table returns the costs of a job's options by number of GPUs, in rows of length
// size by type and span (see costRow). A size that is no option costs as much as
// having no GPUs.
func (m *menu) table(i int32) (costs []float64, size int) {
	size = min(m.jobs[i].most, maxTable) + 1
	if m.tables[i] == nil {
		m.tabulate(i, size)
	}
	return m.tables[i], size
}

// costRow returns the row of a table for a type and a span, or spread.
func costRow(table []float64, size, t int, at Span) []float64 {
	begin := (t*int(spread+1) + int(at)) * size
	return table[begin : begin+size]
}

// tabulate makes a table of the options of a job.
func (m *menu) tabulate(i int32, size int) {
	types := len(m.s.Cluster.Types)
	need := types * int(spread+1) * size
	if cap(m.memory.costs)-len(m.memory.costs) < need {
		const piece = 1 << 15
		m.memory.costs = make([]float64, 0, max(piece, need, 2*cap(m.memory.costs)))
	}
	begin := len(m.memory.costs)
	m.memory.costs = m.memory.costs[:begin+need]
	table := fill(m.memory.costs[begin:begin:begin+need], need, m.none)
	for _, o := range m.options[i] {
		if int(o.gpus) >= size {
			continue
		}
		within := func(at Span) *float64 { return &costRow(table, size, int(o.kind), at)[o.gpus] }
		switch o.way {
		case oneNode:
			*within(Local) = o.cost
		case oneRack:
			*within(Near) = min(*within(Near), o.cost)
		case anywhere: // also in one rack
			*within(Near) = min(*within(Near), o.cost)
			*within(Far) = o.cost
		}
	}
	for t := range types {
		together, apart, least := costRow(table, size, t, Near), costRow(table, size, t, Far), costRow(table, size, t, spread)
		for n := range least {
			least[n] = min(together[n], apart[n])
		}
	}
	m.tables[i] = table
}

// fill returns n values, in the memory of s if possible.
func fill(s []float64, n int, value float64) []float64 {
	s = slices.Grow(s[:0], n)[:n]
	for i := range s {
		s[i] = value
	}
	return s
}

// eager orders the jobs by what they gain from their favourite option.
func (m *menu) eager() {
	list := make([]ranked, 0, len(m.options))
	for i, options := range m.options {
		least := m.none
		for _, o := range options {
			least = min(least, o.cost+m.market.price(i, o))
		}
		if least < m.none {
			list = append(list, ranked{by: least, job: int32(i)})
		}
	}
	slices.SortFunc(list, byRank)
	m.keen = make([]int32, len(list))
	for k, r := range list {
		m.keen[k] = r.job
	}
}
