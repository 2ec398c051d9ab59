// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package optimus

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

// problem is a least-squares problem in full.
type problem struct {
	rows   []vector
	values []float64
	n      int
}

func (p problem) solve() vector {
	s := system{n: p.n}
	for i, row := range p.rows {
		s.add(row, p.values[i], 1)
	}
	return s.solve()
}

// error returns the sum of squared errors at x.
func (p problem) error(x vector) float64 {
	sum := 0.0
	for i, row := range p.rows {
		e := -p.values[i]
		for k := range p.n {
			e += row[k] * x[k]
		}
		sum += e * e
	}
	return sum
}

// best tries every set of unknowns: the best point without bounds that has
// nothing below zero, over all sets, is the answer.
func (p problem) best() float64 {
	least := p.error(vector{})
	for subset := 1; subset < 1<<p.n; subset++ {
		if x, ok := p.eliminate(subset); ok {
			least = min(least, p.error(x))
		}
	}
	return least
}

// eliminate solves the normal equations of a subset of the unknowns by Gauss'
// method with pivots; ok is false if they have no single solution or one below
// zero.
func (p problem) eliminate(subset int) (x vector, ok bool) {
	var index []int
	for k := range p.n {
		if subset&(1<<k) != 0 {
			index = append(index, k)
		}
	}
	n := len(index)
	m := make([][]float64, n)
	for a := range m {
		m[a] = make([]float64, n+1)
		for i, row := range p.rows {
			for b := range n {
				m[a][b] += row[index[a]] * row[index[b]]
			}
			m[a][n] += row[index[a]] * p.values[i]
		}
	}
	for c := range n {
		pivot := c
		for r := c; r < n; r++ {
			if math.Abs(m[r][c]) > math.Abs(m[pivot][c]) {
				pivot = r
			}
		}
		m[c], m[pivot] = m[pivot], m[c]
		if math.Abs(m[c][c]) < 1e-9 {
			return x, false
		}
		for r := range n {
			if r == c {
				continue
			}
			f := m[r][c] / m[c][c]
			for k := c; k <= n; k++ {
				m[r][k] -= f * m[c][k]
			}
		}
	}
	for a, k := range index {
		if x[k] = m[a][n] / m[a][a]; x[k] < 0 {
			return x, false
		}
	}
	return x, true
}

func TestSolveAgainstAllSets(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := problem{n: rapid.IntRange(1, terms).Draw(t, "unknowns")}
		// Small whole numbers make columns that depend on each other likely; more
		// digits would make some that nearly do, which the normal form cannot tell.
		entry := rapid.OneOf(
			rapid.Map(rapid.IntRange(-300, 300), func(i int) float64 { return float64(i) / 100 }),
			rapid.Map(rapid.IntRange(-2, 2), func(i int) float64 { return float64(i) }),
		)
		for range rapid.IntRange(1, 6).Draw(t, "samples") {
			var row vector
			for k := range p.n {
				row[k] = entry.Draw(t, "entry")
			}
			p.rows = append(p.rows, row)
			p.values = append(p.values, entry.Draw(t, "value"))
		}
		x := p.solve()
		for k, v := range x {
			if !(v >= 0) || (k >= p.n && v != 0) {
				t.Fatalf("x = %v; want nothing below zero, and %d unknowns", x, p.n)
			}
		}
		if got, want := p.error(x), p.best(); got > want+1e-6*(1+want) {
			t.Errorf("x = %v has error %g; the best set of unknowns has %g", x, got, want)
		}
	})
}

func TestSolve(t *testing.T) {
	for _, tc := range []struct {
		name string
		problem
		want vector
	}{
		{"exact", problem{[]vector{{1, 1}, {2, 1}, {3, 1}}, []float64{3, 5, 7}, 2}, vector{2, 1}},
		{"at the bound", problem{[]vector{{1, 1}, {2, 1}, {3, 1}}, []float64{1, 3, 5}, 2}, vector{11.0 / 7, 0}}, // 2x-1 without bounds
		{"all at the bound", problem{[]vector{{1, 2}, {3, 4}}, []float64{-1, -1}, 2}, vector{}},
		{"an unknown raised first ends at the bound", problem{[]vector{{2, 2, 1}, {3, 2, 0}, {3, 0, 3}}, []float64{2, 1, 1}, 3}, vector{0, 25.0 / 38, 7.0 / 19}},
		{"another", problem{[]vector{{0, 1, 0}, {-1, 3, 1}, {0, 2, 3}}, []float64{3, 0, 3}, 3}, vector{5.4, 1.8, 0}},
		{"equal columns: the first", problem{[]vector{{1, 1, 1}}, []float64{5}, 3}, vector{5, 0, 0}},
		{"a column of zeros", problem{[]vector{{0, 1}, {0, 1}}, []float64{2, 4}, 2}, vector{0, 3}},
		{"no samples", problem{n: 3}, vector{}},
		{"columns of very different length", problem{[]vector{{1e9, 1e-6}, {2e9, 1e-6}}, []float64{3, 4}, 2}, vector{1e-9, 2e6}},
	} {
		got := tc.solve()
		for k := range got {
			if math.Abs(got[k]-tc.want[k]) > 1e-9*(math.Abs(tc.want[k])+1e-9) {
				t.Errorf("%s: x = %v; want %v", tc.name, got, tc.want)
				break
			}
		}
	}
}

func TestFitSpeed(t *testing.T) {
	take := func(s Speed, sizes ...int) []Sample {
		var out []Sample
		for _, w := range sizes {
			out = append(out, Sample{w, s.StepTime(w)})
		}
		return out
	}
	full := Speed{Compute: 2, Fixed: 0.3, Sync: 0.05}
	for _, tc := range []struct {
		name    string
		samples []Sample
		want    Speed
		ok      bool
	}{
		{"three sizes", take(full, 1, 2, 4), full, true},
		{"many sizes", take(full, 1, 2, 3, 4, 5, 6, 7, 8, 16, 32, 64), full, true},
		{"one size: perfect scaling", []Sample{{4, 0.5}}, Speed{Compute: 2}, true},
		{"two sizes: nothing grows with workers", []Sample{{1, 1}, {2, 0.75}, {2, 0.75}}, Speed{Compute: 0.5, Fixed: 0.5}, true},
		{"two sizes, slower", []Sample{{1, 1}, {2, 2}}, Speed{Fixed: 1.5}, true},
		{"slower with every worker", []Sample{{1, 1}, {2, 2}, {3, 3}}, Speed{Sync: 1}, true},
		{"useless samples are left out", append(take(full, 1, 2, 8), Sample{0, 1}, Sample{3, -1}, Sample{5, math.NaN()}, Sample{6, math.Inf(1)}), full, true},
		{"none of use", []Sample{{0, 1}, {2, 0}}, Speed{}, false},
		{"none", nil, Speed{}, false},
	} {
		got, ok := FitSpeed(tc.samples)
		near := func(a, b float64) bool { return math.Abs(a-b) <= 1e-9 }
		if ok != tc.ok || !near(got.Compute, tc.want.Compute) || !near(got.Fixed, tc.want.Fixed) || !near(got.Sync, tc.want.Sync) {
			t.Errorf("%s: %+v, %t; want %+v, %t", tc.name, got, ok, tc.want, tc.ok)
		}
	}
}
