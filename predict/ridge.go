// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package predict

import (
	"math"
	"strconv"
)

// ridge is a linear model over standardised columns.
type ridge struct {
	Mean   []float64 `json:"mean"`
	Scale  []float64 `json:"scale"`
	Slopes []float64 `json:"slopes"`
	Base   float64   `json:"base"`
}

func (r *ridge) of(x []float64) float64 {
	total := r.Base
	for j, s := range r.Slopes {
		total += s * (x[j] - r.Mean[j]) / r.Scale[j]
	}
	return total
}

// fitRidge minimises squared error plus penalty times the squared slopes per
// row.
func fitRidge(x [][]float64, y []float64, penalty float64) (*ridge, error) {
	n := len(x[0])
	r := &ridge{Mean: make([]float64, n), Scale: make([]float64, n)}
	rows := float64(len(x))
	for j := range n {
		for i := range x {
			r.Mean[j] += x[i][j] / rows
		}
		for i := range x {
			r.Scale[j] += (x[i][j] - r.Mean[j]) * (x[i][j] - r.Mean[j]) / rows
		}
		r.Mean[j], r.Scale[j] = rounded(r.Mean[j]), rounded(math.Sqrt(r.Scale[j]))
		if r.Scale[j] < 1e-9 {
			r.Scale[j] = 1
		}
	}
	for i := range y {
		r.Base += y[i] / rows
	}
	gram, right := make([][]float64, n), make([]float64, n)
	for j := range gram {
		gram[j] = make([]float64, n)
		gram[j][j] = penalty*rows + 1e-9
	}
	z := make([]float64, n)
	for i := range x {
		for j := range z {
			z[j] = (x[i][j] - r.Mean[j]) / r.Scale[j]
		}
		for j := range z {
			right[j] += z[j] * (y[i] - r.Base)
			for k := range z {
				gram[j][k] += z[j] * z[k]
			}
		}
	}
	var err error
	if r.Slopes, err = solve(gram, right); err != nil {
		return nil, err
	}
	for j := range r.Slopes {
		r.Slopes[j] = rounded(r.Slopes[j])
	}
	r.Base = rounded(r.Base)
	return r, nil
}

// rounded keeps six significant digits, so that a model computes with exactly what
// its file contains.
func rounded(v float64) float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return v
	}
	short, _ := strconv.ParseFloat(strconv.FormatFloat(v, 'g', 6, 64), 64)
	return short
}
