// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package gavel

// tiny counts as zero in a tableau whose entries are near 1.
const tiny = 1e-10

// program is a linear program: maximise gain*x subject to use*x <= limit and
// x >= 0, with limits of 0 or more, so that x = 0 is a start. The master programs
// here have one row for each GPU type and few columns.
type program struct {
	gain  []float64   // by column
	use   [][]float64 // by column, by row
	limit []float64   // by row
}

// solution is an optimum and the prices of the rows, its dual.
type solution struct {
	x      []float64
	prices []float64
	value  float64
}

// solve runs the simplex method on a dense tableau. It pivots by Bland's rule, the
// lowest column and then the lowest variable, which cannot cycle and makes the
// result deterministic. The program must be bounded; an unbounded column is
// skipped.
func (p *program) solve() solution {
	rows, cols := len(p.limit), len(p.gain)
	t := newTableau(p)
	for {
		in := t.entering()
		if in < 0 {
			break
		}
		out := t.leaving(in)
		if out < 0 {
			t.cost[in] = 0 // unbounded
			continue
		}
		t.pivot(out, in)
	}
	s := solution{x: make([]float64, cols), prices: make([]float64, rows)}
	for r, v := range t.basis {
		if v < cols {
			s.x[v] = t.cells[r][t.width]
			s.value += p.gain[v] * s.x[v]
		}
	}
	for r := range rows {
		s.prices[r] = max(0, -t.cost[cols+r])
	}
	return s
}

// tableau has a line for each row, with the right-hand side last, and the
// reduced gains.
type tableau struct {
	cells [][]float64
	cost  []float64
	basis []int // by row: the variable that is not zero
	width int   // variables, slacks included
}

func newTableau(p *program) *tableau {
	rows, cols := len(p.limit), len(p.gain)
	t := &tableau{width: cols + rows, basis: make([]int, rows), cells: make([][]float64, rows)}
	t.cost = make([]float64, t.width+1)
	copy(t.cost, p.gain)
	all := make([]float64, rows*(t.width+1))
	for r := range t.cells {
		line := all[r*(t.width+1) : (r+1)*(t.width+1)]
		for c := range cols {
			line[c] = p.use[c][r]
		}
		line[cols+r] = 1
		line[t.width] = p.limit[r]
		t.cells[r], t.basis[r] = line, cols+r
	}
	return t
}

// entering returns the first variable that would raise the value; -1: none.
func (t *tableau) entering() int {
	for v := range t.width {
		if t.cost[v] > tiny {
			return v
		}
	}
	return -1
}

// leaving returns the row that bounds a variable most; -1: none does.
func (t *tableau) leaving(in int) int {
	best, ratio := -1, 0.0
	for r, line := range t.cells {
		if line[in] <= tiny {
			continue
		}
		q := line[t.width] / line[in]
		if best < 0 || q < ratio || (q == ratio && t.basis[r] < t.basis[best]) {
			best, ratio = r, q
		}
	}
	return best
}

func (t *tableau) pivot(row, in int) {
	line := t.cells[row]
	by := line[in]
	for c := range line {
		line[c] /= by
	}
	for r, other := range t.cells {
		if r != row && other[in] != 0 {
			eliminate(other, line, other[in])
		}
	}
	eliminate(t.cost, line, t.cost[in])
	t.basis[row] = in
}

// eliminate subtracts a multiple of a line from another.
func eliminate(from, line []float64, factor float64) {
	for c := range from {
		from[c] -= factor * line[c]
	}
}
