// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package slaq

import (
	"cmp"
	"math"
	"slices"

	"github.com/fairway-gpu/fairway/sched/goodput"
)

// curve predicts the loss at a step: one of two families, over k = step/scale.
type curve struct {
	linear bool    // exp(a*k + b), else 1/(a*k^2 + b*k + c)
	scale  float64 // steps
	a      float64
	b      float64
	c      float64
	floor  float64 // the asymptote
}

// at returns the loss at a step.
func (f curve) at(step float64) float64 {
	k := step / f.scale
	if f.linear {
		return math.Exp(f.a*k+f.b) + f.floor
	}
	return 1/((f.a*k+f.b)*k+f.c) + f.floor
}

// fewest is the number of losses, at different steps, that a fit needs.
const fewest = 3

// fitCurve fits both families and returns the better one; ok is false if there are
// too few losses. Each loss weighs decay times as much as the next.
func fitCurve(losses []goodput.LossPoint, decay float64) (best curve, ok bool) {
	points := usable(losses)
	if len(points) < fewest {
		return curve{}, false
	}
	x := newSamples(points, decay)
	least := math.Inf(1)
	try := func(f curve, err float64) {
		if err < least {
			best, least = f, err
		}
	}
	// The floor lies below all losses: near the lowest one if the curve is flat by
	// now, far below if it still falls.
	const grid = 24
	for i := 1; i <= grid; i++ {
		part := math.Pow(float64(i)/grid, 3) // closer together near the lowest
		floor := x.lowest - part*(x.highest-x.lowest)
		try(x.sublinear(floor))
		try(x.exponential(floor))
	}
	return best, !math.IsInf(least, 1)
}

// usable returns the valid points, one for each step, by step.
func usable(losses []goodput.LossPoint) []goodput.LossPoint {
	out := slices.DeleteFunc(slices.Clone(losses), func(p goodput.LossPoint) bool {
		return !(p.Step >= 0) || math.IsInf(p.Step, 1) || math.IsNaN(p.Loss) || math.IsInf(p.Loss, 0)
	})
	slices.SortStableFunc(out, func(a, b goodput.LossPoint) int { return cmp.Compare(a.Step, b.Step) })
	return slices.CompactFunc(out, func(a, b goodput.LossPoint) bool { return a.Step == b.Step })
}

// samples are losses over scaled steps, with weights.
type samples struct {
	scale           float64
	k, y, w         []float64
	lowest, highest float64
}

func newSamples(points []goodput.LossPoint, decay float64) samples {
	n := len(points)
	x := samples{scale: points[n-1].Step, lowest: math.Inf(1), highest: math.Inf(-1)}
	weight := 1.0
	for i := range points {
		p := points[n-1-i] // the last one first
		x.k, x.y, x.w = append(x.k, p.Step/x.scale), append(x.y, p.Loss), append(x.w, weight)
		x.lowest, x.highest = min(x.lowest, p.Loss), max(x.highest, p.Loss)
		weight *= decay
	}
	return x
}

// sublinear fits 1/(a*k^2 + b*k + c) above a floor. Its reciprocal is linear in the
// three, none of which may be negative: the best over all choices of which are
// zero. The weight h^4 makes an error of 1/h count as one of h, to first order.
func (x samples) sublinear(floor float64) (curve, float64) {
	var gram [3][3]float64
	var rhs [3]float64
	for i, k := range x.k {
		h := x.y[i] - floor
		if !(h > 0) {
			return curve{}, math.Inf(1)
		}
		row := [3]float64{k * k, k, 1}
		w := x.w[i] * h * h * h
		for r := range row {
			rhs[r] += w * row[r]
			for c := range row {
				gram[r][c] += w * h * row[r] * row[c]
			}
		}
	}
	best, least := curve{}, math.Inf(1)
	for used := 1; used < 8; used++ {
		v, ok := solve(gram, rhs, used)
		if !ok || v[0] < 0 || v[1] < 0 || v[2] <= 0 {
			continue
		}
		f := curve{scale: x.scale, a: v[0], b: v[1], c: v[2], floor: floor}
		if err := x.error(f); err < least {
			best, least = f, err
		}
	}
	return best, least
}

// exponential fits exp(a*k + b) above a floor: a line in the logarithm that does
// not rise.
func (x samples) exponential(floor float64) (curve, float64) {
	var sw, sk, sy, skk, sky float64
	for i, k := range x.k {
		h := x.y[i] - floor
		if !(h > 0) {
			return curve{}, math.Inf(1)
		}
		w, y := x.w[i]*h*h, math.Log(h)
		sw, sk, sy = sw+w, sk+w*k, sy+w*y
		skk, sky = skk+w*k*k, sky+w*k*y
	}
	f := curve{linear: true, scale: x.scale, floor: floor}
	if det := sw*skk - sk*sk; det > 1e-12*sw*skk {
		f.a = min(0, (sw*sky-sk*sy)/det)
	}
	f.b = (sy - f.a*sk) / sw
	return f, x.error(f)
}

// error returns the weighted sum of squared errors of a curve.
func (x samples) error(f curve) float64 {
	sum := 0.0
	for i, k := range x.k {
		e := f.at(k*x.scale) - x.y[i]
		sum += x.w[i] * e * e
	}
	if math.IsNaN(sum) {
		return math.Inf(1)
	}
	return sum
}

// solve solves the normal equations for the unknowns in the bit set used, the
// others being zero, by elimination; ok is false if they are linearly dependent.
func solve(gram [3][3]float64, rhs [3]float64, used int) (v [3]float64, ok bool) {
	for i := range 3 {
		if used&(1<<i) == 0 {
			gram[i], rhs[i] = [3]float64{}, 0
			for r := range 3 {
				gram[r][i] = 0
			}
			gram[i][i] = 1
		}
	}
	diagonal := [3]float64{gram[0][0], gram[1][1], gram[2][2]}
	for i := range 3 {
		if !(gram[i][i] > 1e-12*diagonal[i]) {
			return v, false
		}
		for r := i + 1; r < 3; r++ {
			part := gram[r][i] / gram[i][i]
			for c := i; c < 3; c++ {
				gram[r][c] -= part * gram[i][c]
			}
			rhs[r] -= part * rhs[i]
		}
	}
	for i := 2; i >= 0; i-- {
		v[i] = rhs[i]
		for c := i + 1; c < 3; c++ {
			v[i] -= gram[i][c] * v[c]
		}
		v[i] /= gram[i][i]
	}
	return v, true
}
