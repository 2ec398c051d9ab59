// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package optimus

import "math"

// terms is the largest number of unknowns of a fit.
const terms = 3

// vector holds one number for each unknown.
type vector [terms]float64

// system is a linear least-squares problem in its normal form: the sums over the
// samples that a solution needs.
type system struct {
	n    int           // unknowns in use
	gram [terms]vector // sum of weight * row' * row
	rhs  vector        // sum of weight * row' * value
}

// add adds the sample row * x = value with a weight.
func (s *system) add(row vector, value, weight float64) {
	for i := range s.n {
		for k := range s.n {
			s.gram[i][k] += weight * row[i] * row[k]
		}
		s.rhs[i] += weight * row[i] * value
	}
}

// Tolerances of solve, for columns of length 1.
const (
	flat      = 1e-10 // a gradient this small, relative to the largest, counts as zero
	dependent = 1e-12 // squared norm of the part of a column that is independent of the others
)

// solve returns the x >= 0 with the least sum of squared errors, by the active-set
// method of Lawson and Hanson. Among equally good solutions, unknowns are raised
// from zero in the order of how much they help, then of their index.
func (s *system) solve() vector {
	unit, length := s.normalised()
	x := unit.activeSet()
	for i := range x {
		if length[i] > 0 {
			x[i] /= length[i]
		}
	}
	return x
}

// normalised returns the system with columns of length 1, and their lengths. A zero
// column stays zero.
func (s *system) normalised() (unit system, length vector) {
	unit = *s
	for i := range s.n {
		length[i] = math.Sqrt(s.gram[i][i])
	}
	for i := range s.n {
		if length[i] == 0 {
			continue
		}
		unit.rhs[i] /= length[i]
		for k := range s.n {
			if length[k] > 0 {
				unit.gram[i][k] /= length[i] * length[k]
			}
		}
	}
	return unit, length
}

// set is a set of unknowns.
type set [terms]bool

func (s *system) activeSet() vector {
	const rounds = 10 * terms // no set of unknowns recurs, so far fewer suffice
	var x vector
	var raised, useless set // unknowns above zero; those that only rounding would raise
	for range rounds {
		next := s.steepest(x, raised, useless)
		if next < 0 {
			break
		}
		raised[next] = true
		z, ok := s.least(raised)
		if !ok || z[next] <= 0 {
			raised[next], useless[next] = false, true
			continue
		}
		x = s.inside(x, z, &raised)
		useless = set{}
	}
	return x
}

// steepest returns the unknown at zero whose rise lowers the error most; -1 if
// there is none.
func (s *system) steepest(x vector, raised, useless set) int {
	scale := 0.0
	for i := range s.n {
		scale = max(scale, math.Abs(s.rhs[i]))
	}
	best, most := -1, flat*scale
	for i := range s.n {
		if raised[i] || useless[i] {
			continue
		}
		slope := s.rhs[i]
		for k := range s.n {
			slope -= s.gram[i][k] * x[k]
		}
		// The margin keeps rounding from breaking ties.
		if slope > most*(1+flat) {
			best, most = i, slope
		}
	}
	return best
}

// inside moves from x towards z, the best point for the raised unknowns, and
// lowers the unknowns that reach zero on the way, until the best point for the
// rest has none below zero.
func (s *system) inside(x, z vector, raised *set) vector {
	for {
		step := 1.0
		first := -1
		for i := range s.n {
			if raised[i] && z[i] <= 0 {
				if t := x[i] / (x[i] - z[i]); first < 0 || t < step {
					step, first = t, i
				}
			}
		}
		if first < 0 {
			return z
		}
		for i := range s.n {
			if !raised[i] {
				continue
			}
			x[i] += step * (z[i] - x[i])
			if i == first || x[i] <= 0 {
				x[i], raised[i] = 0, false
			}
		}
		var ok bool
		if z, ok = s.least(*raised); !ok {
			return x
		}
	}
}

// least returns the best point for the raised unknowns alone, whatever its
// sign; ok is false if they depend on each other. It is a Cholesky
// factorisation.
func (s *system) least(raised set) (z vector, ok bool) {
	var index [terms]int
	n := 0
	for i := range s.n {
		if raised[i] {
			index[n] = i
			n++
		}
	}
	var lower [terms]vector
	var y vector
	for a := range n {
		for b := 0; b <= a; b++ {
			sum := s.gram[index[a]][index[b]]
			for k := range b {
				sum -= lower[a][k] * lower[b][k]
			}
			if a != b {
				lower[a][b] = sum / lower[b][b]
				continue
			}
			if !(sum > dependent) {
				return vector{}, false
			}
			lower[a][a] = math.Sqrt(sum)
		}
		y[a] = s.rhs[index[a]]
		for k := range a {
			y[a] -= lower[a][k] * y[k]
		}
		y[a] /= lower[a][a]
	}
	for a := n - 1; a >= 0; a-- {
		for k := a + 1; k < n; k++ {
			y[a] -= lower[k][a] * y[k]
		}
		y[a] /= lower[a][a]
		z[index[a]] = y[a]
	}
	return z, true
}
