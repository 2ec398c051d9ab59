// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package learn

import (
	"math"

	"github.com/fairway-gpu/fairway/policy/interfere"
)

// predictor predicts the slowdown of one job of a pair.
type predictor func(own, other interfere.Load) interfere.Estimate

// method is a way to predict slowdowns, for comparison.
type method struct {
	name string
	fit  func([]Pair) (predictor, error)
}

// Ours is the name of the method in use.
const Ours = "ours"

// methods are the methods to compare; the first is the one in use.
func methods() []method {
	return []method{
		{Ours, ours},
		{"published curve", func([]Pair) (predictor, error) { return of(interfere.Published().TimeSlice), nil }},
		{"straight lines, refitted", straightLines},
		{"table", monotoneTable},
	}
}

func of(s *interfere.Sharing) predictor {
	m := &interfere.Model{TimeSlice: s}
	return func(own, other interfere.Load) interfere.Estimate {
		return m.Slowdown(interfere.TimeSlice, own, []interfere.Load{other})
	}
}

func ours(pairs []Pair) (predictor, error) {
	s, err := Sharing(pairs)
	if err != nil {
		return nil, err
	}
	return of(s), nil
}

// bounded adds the spread of the pairs to a method that only gives means.
func bounded(mean func(own, other interfere.Load) float64, pairs []Pair) predictor {
	bare := func(own, other interfere.Load) interfere.Estimate {
		m := mean(own, other)
		return interfere.Estimate{Pressure: m, Mean: m}
	}
	bounds := &interfere.Model{TimeSlice: &interfere.Sharing{Form: interfere.Overload, Spread: spread(bare, pairs)}}
	return func(own, other interfere.Load) interfere.Estimate {
		m := mean(own, other)
		return bounds.Around(interfere.TimeSlice, m, m)
	}
}

// straightLines is the two-sided form of the published fit: speed as a sum of
// constant, own and other utilisation, and overcommitment.
func straightLines(pairs []Pair) (predictor, error) {
	terms := func(own, other interfere.Load) []float64 {
		return []float64{1, own.Util, other.Util, max(0, own.Util+other.Util-1)}
	}
	var rows [][]float64
	var speeds []float64
	for _, s := range samples(pairs) {
		rows, speeds = append(rows, terms(s.own, s.others[0])), append(speeds, 1/s.slowdown)
	}
	c := leastSquares(rows, speeds)
	return bounded(func(own, other interfere.Load) float64 {
		speed := 0.0
		for i, t := range terms(own, other) {
			speed += c[i] * t
		}
		return 1 / within(speed, 0.1, 1)
	}, pairs), nil
}

// tableEdges are the bounds of the utilisations of a table's cells.
var tableEdges = []float64{0.25, 0.5, 0.75, 0.95}

// monotoneTable is the mean of the measurements by own and other utilisation,
// shrunk towards the overall mean where a cell has little data, and non-decreasing
// in the other's utilisation.
func monotoneTable(pairs []Pair) (predictor, error) {
	const cells, prior = 5, 2.0
	cell := func(u float64) int {
		for i, e := range tableEdges {
			if u < e {
				return i
			}
		}
		return cells - 1
	}
	var sums, counts [cells][cells]float64
	total := 0.0
	all := samples(pairs)
	for _, s := range all {
		i, j := cell(s.own.Util), cell(s.others[0].Util)
		sums[i][j] += math.Log(s.slowdown)
		counts[i][j]++
		total += math.Log(s.slowdown) / float64(len(all))
	}
	var table [cells][cells]float64
	for i := range cells {
		for j := range cells {
			table[i][j] = max(1, math.Exp((sums[i][j]+prior*total)/(counts[i][j]+prior)))
			if j > 0 {
				table[i][j] = max(table[i][j], table[i][j-1])
			}
		}
	}
	return bounded(func(own, other interfere.Load) float64 { return table[cell(own.Util)][cell(other.Util)] }, pairs), nil
}

// leastSquares solves for the coefficients of a linear regression, by the normal
// equations with slight damping.
func leastSquares(rows [][]float64, values []float64) []float64 {
	n := len(rows[0])
	a := make([][]float64, n) // with the right-hand side as the last column
	for i := range a {
		a[i] = make([]float64, n+1)
		a[i][i] = 1e-9
	}
	for r, row := range rows {
		for i := range n {
			for j := range n {
				a[i][j] += row[i] * row[j]
			}
			a[i][n] += row[i] * values[r]
		}
	}
	for i := range n { // the matrix is positive definite: no pivoting
		for k := range n {
			if k == i {
				continue
			}
			f := a[k][i] / a[i][i]
			for j := i; j <= n; j++ {
				a[k][j] -= f * a[i][j]
			}
		}
	}
	out := make([]float64, n)
	for i := range n {
		out[i] = a[i][n] / a[i][i]
	}
	return out
}
