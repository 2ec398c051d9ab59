// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package division

import (
	"math"
	"slices"
)

// pair re-divides two nodes among the jobs on them and a few waiting ones: the best
// division there is, by dynamic programming over the GPUs used of each node. What
// the jobs have on other nodes stays. Its fields are scratch memory.
type pair struct {
	steps    int // of the dynamic programme, for the last pair
	l        *layout
	nodes    [2]int
	caps     [2]int // GPUs to divide
	shut     int    // bits: a job that takes no part spans this node and others
	who      []int32
	waits    int       // index in who of the first waiting job
	rest     []outside // by job
	parts    [][]part  // by job
	least    []float64
	hope     []float64 // by GPUs of both nodes
	hopes    []hope
	deadEnds deadEnds

	now, next []float64 // by state: least cost of the jobs so far
	taken     [][]int16 // by job, state: its part
	chosen    []int16
	old       []row
	fresh     row
}

// A state is the GPUs used of both nodes and, as bits, the nodes used by a job
// across several nodes.
const bitStates = 4

func (d *pair) states() int { return (d.caps[0] + 1) * d.width() }
func (d *pair) width() int  { return (d.caps[1] + 1) * bitStates }

// improve re-divides two nodes of a layout, if that is better.
func (d *pair) improve(l *layout, nodes [2]int, waiting []int32) bool {
	d.l, d.nodes, d.steps = l, nodes, 0
	d.gather(waiting)
	if len(d.who) == 0 {
		return false
	}
	most := d.caps[0] + d.caps[1]
	d.steps = len(d.who) * most * most // of computing the bound
	mark, plain := d.sign()
	if steps, found := d.deadEnds.steps(mark); plain && found {
		d.steps = steps
		return false
	}
	d.measure()
	before := 0.0
	for k, i := range d.who {
		before += l.costs[i] - d.base(k)
	}
	switch {
	case !less(d.bound(), before):
		mark.order = 0
	case !d.enumerate():
	case less(d.solve(), before):
		return d.apply()
	}
	if plain {
		d.deadEnds.add(mark, d.steps)
	}
	return false
}

// enumerate lists the parts of all jobs. It reports whether choosing among them is
// affordable.
func (d *pair) enumerate() bool {
	steps := 0
	for k := range d.who {
		d.list(k)
		steps += len(d.parts[k]) * d.states()
	}
	return steps <= maxSteps
}

// maxSteps bounds the work on one pair. Nodes with very many GPUs, or very many
// jobs, are left as they are.
const maxSteps = 1_000_000

// base returns what is subtracted from a job's costs: for a waiting job, the cost
// of waiting, which may be so large that it dwarfs the others.
func (d *pair) base(k int) float64 {
	if k < d.waits {
		return 0
	}
	return d.l.menu.none
}

// gather finds the jobs that take part and the GPUs they divide.
func (d *pair) gather(waiting []int32) {
	l := d.l
	d.who = append(d.who[:0], l.on[d.nodes[0]]...)
	for _, i := range l.on[d.nodes[1]] {
		if !slices.Contains(d.who, i) {
			d.who = append(d.who, i)
		}
	}
	d.waits = len(d.who)
	for _, i := range waiting {
		if len(l.rows[i]) == 0 {
			d.who = append(d.who, i)
		}
	}
	d.shut = 0
	for x, n := range d.nodes {
		used, wide := int32(0), int16(0)
		for _, i := range l.on[n] {
			if len(l.rows[i]) > 1 {
				wide++
			}
			for _, s := range l.rows[i] {
				if int(s.node) == n {
					used += s.gpus
				}
			}
		}
		d.caps[x] = int(l.board.free[n] + used)
		if l.board.apart && l.board.wide[n] > wide {
			d.shut |= 1 << x
		}
	}
}

// measure finds what the jobs have elsewhere.
func (d *pair) measure() {
	for len(d.parts) < len(d.who) {
		d.parts = append(d.parts, nil)
		d.taken = append(d.taken, nil)
		d.rest = append(d.rest, outside{})
	}
	for k, i := range d.who {
		d.rest[k] = d.outside(i)
		d.rest[k].allowed = d.allowance(i)
	}
}

// allowance returns how many GPUs of the two nodes a job's tenant may have in all;
// its jobs cannot use more.
func (d *pair) allowance(i int32) int {
	l := d.l
	t := l.menu.jobs[i].tenant
	if t < 0 {
		return math.MaxInt
	}
	n := l.board.quota[t]
	for _, k := range d.who {
		if l.menu.jobs[k].tenant == t {
			n += l.rows[k].on(d.nodes[0]) + l.rows[k].on(d.nodes[1])
		}
	}
	return n
}

// solve returns the least cost of all divisions.
func (d *pair) solve() float64 {
	d.now = fill(d.now, 1, 0)
	for k := range d.who {
		furthest := int32(0)
		for _, p := range d.parts[k] {
			furthest = max(furthest, p.step)
		}
		reach := min(d.states(), len(d.now)+int(furthest))
		d.next = fill(d.next, reach, math.Inf(1))
		d.taken[k] = slices.Grow(d.taken[k][:0], reach)[:reach]
		at := 0
		for x := 0; x <= d.caps[0]; x++ {
			for y := 0; y <= d.caps[1] && at < len(d.now); y++ {
				for w := int32(0); w < bitStates && at < len(d.now); w++ {
					if !math.IsInf(d.now[at], 1) {
						d.extend(k, at, [2]int32{int32(d.caps[0] - x), int32(d.caps[1] - y)}, w)
					}
					at++
				}
			}
		}
		d.now, d.next = d.next, d.now
	}
	return slices.Min(d.now)
}

// extend gives job k each of its parts, starting from one state.
func (d *pair) extend(k, at int, left [2]int32, wide int32) {
	parts, now := d.parts[k], d.now[at]
	next, taken := d.next[at:], d.taken[k][at:]
	d.steps += len(parts)
	for q := range parts {
		p := &parts[q]
		if p.gpus[0] > left[0] || p.gpus[1] > left[1] || p.wide&wide != 0 {
			continue
		}
		if c := now + p.cost; c < next[p.step] {
			next[p.step] = c
			taken[p.step] = int16(q)
		}
	}
}

// apply carries out the division that solve found. If a constraint that solve
// ignores forbids it (CPUs, memory, a tenant's limit), nothing changes.
func (d *pair) apply() bool {
	l := d.l
	state := 0
	for s, c := range d.now {
		if c < d.now[state] {
			state = s
		}
	}
	d.chosen = slices.Grow(d.chosen[:0], len(d.who))[:len(d.who)]
	for k := len(d.who) - 1; k >= 0; k-- {
		d.chosen[k] = d.taken[k][state]
		p := d.parts[k][d.chosen[k]]
		state -= int(p.step)
	}
	for len(d.old) < len(d.who) {
		d.old = append(d.old, nil)
	}
	for k, i := range d.who {
		d.old[k] = append(d.old[k][:0], l.rows[i]...)
		l.lift(i)
	}
	for k, i := range d.who {
		d.fresh = slices.DeleteFunc(append(d.fresh[:0], d.old[k]...), func(s slot) bool {
			return int(s.node) == d.nodes[0] || int(s.node) == d.nodes[1]
		})
		for x, n := range d.nodes {
			if g := d.parts[k][d.chosen[k]].gpus[x]; g > 0 {
				d.fresh = append(d.fresh, slot{int32(n), g})
			}
		}
		if !l.board.fits(&l.menu.jobs[i], d.fresh) {
			d.restore()
			return false
		}
		l.lay(i, d.fresh)
	}
	return true
}

// restore gives the jobs back what they had.
func (d *pair) restore() {
	for _, i := range d.who {
		d.l.lift(i)
	}
	for k, i := range d.who {
		d.l.lay(i, d.old[k])
	}
}
