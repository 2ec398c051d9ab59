// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package predict

import (
	"errors"
	"math"
)

// sum is a positive combination of columns, fitted to logarithms:
// ln y = ln(coefficients * x).
type sum struct {
	Columns []string  `json:"columns"`
	Values  []float64 `json:"values"`
}

// of evaluates the sum.
func (s sum) of(x []float64) float64 {
	total := 0.0
	for i, c := range s.Values {
		total += c * x[i]
	}
	return total
}

// sumFit is one fit: rows x with results y > 0, a prior for every coefficient, and
// the weight of a deviation from the prior by a factor of e, relative to a row, as a
// square root. A common factor on all coefficients is free.
type sumFit struct {
	x      [][]float64
	y      []float64
	prior  []float64
	weight float64
	// part is the part of a row, 0 to parts-1; each part has its own factor on the
	// sum, near 1. Without parts there is none.
	part  []int
	parts int
}

// partWeight keeps the factors of parts near 1.
const partWeight = 1

// commonWeight keeps the common factor near 1, weakly.
const commonWeight = 0.1

// run minimises by Levenberg-Marquardt steps over the logarithms of the
// coefficients and of the parts' factors.
func (f sumFit) run() (coefficients, factors []float64, err error) {
	p := make([]float64, len(f.prior)+f.parts)
	for j, v := range f.prior {
		p[j] = math.Log(v)
	}
	damping := 1e-3
	loss := f.loss(p)
	for range 200 {
		gram, slope := f.normal(p)
		for j := range gram {
			gram[j][j] += damping
		}
		step, err := solve(gram, slope)
		if err != nil {
			return nil, nil, err
		}
		next := make([]float64, len(p))
		for j := range p {
			next[j] = p[j] - step[j]
		}
		after := f.loss(next)
		if !(after < loss) {
			if damping *= 10; damping > 1e8 {
				break
			}
			continue
		}
		gained := loss - after
		p, loss = next, after
		damping = max(damping/5, 1e-9)
		if gained < 1e-6*loss {
			break
		}
	}
	out := make([]float64, len(p))
	for j := range p {
		out[j] = math.Exp(p[j])
	}
	return out[:len(f.prior)], out[len(f.prior):], nil
}

// residuals calls visit with every residual and its gradient.
func (f sumFit) residuals(p []float64, visit func(r float64, grad []float64)) {
	n := len(f.prior)
	grad := make([]float64, len(p))
	for i, row := range f.x {
		total := 0.0
		for j := range row {
			grad[j] = row[j] * math.Exp(p[j])
			total += grad[j]
		}
		total = max(total, 1e-12)
		for j := range grad {
			grad[j] /= total
		}
		clear(grad[n:])
		r := math.Log(total / f.y[i])
		if f.parts > 0 {
			grad[n+f.part[i]] = 1
			r += p[n+f.part[i]]
		}
		visit(r, grad)
	}
	clear(grad)
	for k := n; k < len(p); k++ {
		grad[k] = partWeight
		visit(partWeight*p[k], grad)
		grad[k] = 0
	}
	mean := 0.0
	for j := range n {
		mean += (p[j] - math.Log(f.prior[j])) / float64(n)
	}
	for j := range n {
		for k := range n {
			grad[k] = -f.weight / float64(n)
		}
		grad[j] += f.weight
		visit(f.weight*(p[j]-math.Log(f.prior[j])-mean), grad)
	}
	for k := range n {
		grad[k] = commonWeight / float64(n)
	}
	visit(commonWeight*mean, grad)
}

func (f sumFit) loss(p []float64) float64 {
	total := 0.0
	f.residuals(p, func(r float64, _ []float64) { total += r * r })
	return total
}

// normal returns the matrix and the right side of the normal equations.
func (f sumFit) normal(p []float64) (gram [][]float64, slope []float64) {
	n := len(p)
	gram, slope = make([][]float64, n), make([]float64, n)
	for j := range gram {
		gram[j] = make([]float64, n)
	}
	f.residuals(p, func(r float64, grad []float64) {
		for j, g := range grad {
			if g == 0 {
				continue
			}
			slope[j] += g * r
			for k := 0; k <= j; k++ {
				gram[j][k] += g * grad[k]
			}
		}
	})
	for j := range gram {
		for k := range j {
			gram[k][j] = gram[j][k]
		}
	}
	return gram, slope
}

// solve solves a symmetric positive definite system by Cholesky's method. It
// destroys a.
func solve(a [][]float64, b []float64) ([]float64, error) {
	n := len(b)
	for j := range n {
		for k := range j {
			a[j][j] -= a[j][k] * a[j][k]
		}
		if !(a[j][j] > 0) {
			return nil, errors.New("solve normal equations: the matrix is singular; add rows or weight")
		}
		a[j][j] = math.Sqrt(a[j][j])
		for i := j + 1; i < n; i++ {
			for k := range j {
				a[i][j] -= a[i][k] * a[j][k]
			}
			a[i][j] /= a[j][j]
		}
	}
	x := make([]float64, n)
	for i := range n {
		x[i] = b[i]
		for k := range i {
			x[i] -= a[i][k] * x[k]
		}
		x[i] /= a[i][i]
	}
	for i := n - 1; i >= 0; i-- {
		for k := i + 1; k < n; k++ {
			x[i] -= a[k][i] * x[k]
		}
		x[i] /= a[i][i]
	}
	return x, nil
}
