// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package division

import (
	"cmp"
	"slices"
)

// layout is a row for every job, on a board.
type layout struct {
	menu  *menu
	board *board
	rows  []row
	costs []float64 // by job
	on    [][]int32 // by node: the jobs that have GPUs of it

	order, failed []int32 // scratch
	ranked, jobs  []ranked
	trial, old    row
}

// ranked is an option of a job with the value that ranks it.
type ranked struct {
	by     float64
	job    int32
	option int32
}

func byRank(a, b ranked) int {
	switch {
	case a.by < b.by:
		return -1
	case a.by > b.by:
		return 1
	case a.job != b.job:
		return cmp.Compare(a.job, b.job)
	}
	return cmp.Compare(a.option, b.option)
}

// newLayout returns a layout in which no job has GPUs.
func newLayout(m *menu) *layout {
	n := len(m.jobs)
	l := &layout{menu: m, board: &board{}, rows: make([]row, n), costs: make([]float64, n), on: make([][]int32, len(m.blank.free))}
	l.clear()
	return l
}

// clear removes every job.
func (l *layout) clear() {
	l.board.copyFrom(l.menu.blank)
	for i := range l.rows {
		l.rows[i] = l.rows[i][:0]
		l.costs[i] = l.menu.none
	}
	for n := range l.on {
		l.on[n] = l.on[n][:0]
	}
}

// copyFrom makes the layout equal to another of the same menu.
func (l *layout) copyFrom(o *layout) {
	l.board.copyFrom(o.board)
	for i := range o.rows {
		l.rows[i] = append(l.rows[i][:0], o.rows[i]...)
	}
	for n := range o.on {
		l.on[n] = append(l.on[n][:0], o.on[n]...)
	}
	copy(l.costs, o.costs)
}

// sum returns the cost of all jobs.
func (l *layout) sum() float64 {
	idle, sum := l.tally()
	return float64(idle)*l.menu.none + sum
}

// tally returns the number of jobs without GPUs, and the cost of the others. They
// are counted separately because with a very negative p the first dwarfs the
// second.
func (l *layout) tally() (idle int, sum float64) {
	for i, c := range l.costs {
		if len(l.rows[i]) == 0 {
			idle++
		} else {
			sum += c
		}
	}
	return idle, sum
}

// beats reports whether the layout costs less than another, beyond rounding errors.
func (l *layout) beats(o *layout) bool {
	idle, sum := l.tally()
	idle2, sum2 := o.tally()
	if idle != idle2 {
		sum += float64(idle) * l.menu.none
		sum2 += float64(idle2) * l.menu.none
	}
	return less(sum, sum2)
}

// less reports whether a is less than b, beyond rounding errors.
func less(a, b float64) bool { return a < b-1e-9*max(b, -b) }

// lay gives a job without GPUs a row that fits.
func (l *layout) lay(i int32, r row) {
	if len(r) > 0 {
		l.layAt(i, r, l.menu.rowCost(&l.menu.jobs[i], r))
	}
}

// layAt is lay for a row whose cost is known.
func (l *layout) layAt(i int32, r row, cost float64) {
	j := &l.menu.jobs[i]
	l.rows[i] = append(l.rows[i][:0], r...)
	l.board.take(j, r)
	for _, s := range r {
		l.on[s.node] = append(l.on[s.node], i)
	}
	l.costs[i] = cost
}

// lift takes away what a job has.
func (l *layout) lift(i int32) {
	if len(l.rows[i]) == 0 {
		return
	}
	l.board.drop(&l.menu.jobs[i], l.rows[i])
	for _, s := range l.rows[i] {
		k := slices.Index(l.on[s.node], i)
		l.on[s.node] = slices.Delete(l.on[s.node], k, k+1)
	}
	l.rows[i] = l.rows[i][:0]
	l.costs[i] = l.menu.none
}

// set gives a job without GPUs an option, if that fits.
func (l *layout) set(i, o int32) bool {
	j, option := &l.menu.jobs[i], &l.menu.options[i][o]
	r, ok := l.menu.place(l.board, l.trial[:0], j, *option)
	l.trial = r
	switch {
	case !ok || len(r) == 0:
	case r.same(j.held):
		l.layAt(i, r, j.heldCost)
	case option.one:
		l.layAt(i, r, option.cost)
	default: // it may be closer together than the option asks for
		l.lay(i, r)
	}
	return ok
}

// replace gives a job another option, if that is better and fits.
func (l *layout) replace(i, o int32) bool {
	if !less(l.menu.options[i][o].cost, l.costs[i]) {
		return false
	}
	l.old = append(l.old[:0], l.rows[i]...)
	l.lift(i)
	if l.set(i, o) {
		return true
	}
	l.lay(i, l.old)
	return false
}
