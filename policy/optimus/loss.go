// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package optimus

import (
	"cmp"
	"math"
	"slices"

	"github.com/fairway-gpu/fairway/sched/goodput"
)

// Loss is the training loss over the steps k of a job, as a fraction of Top:
// 1/(B0*k + B1) + B2, with none of the three negative. It is how stochastic
// gradient descent converges on a convex problem, towards B2.
type Loss struct {
	B0, B1, B2 float64
	Top        float64 // the highest loss seen
}

// FitLoss fits the curve to measured losses; ok is false if there are fewer than
// three different steps.
//
// For a given B2 the reciprocal of the curve is linear in the other two: B0*k + B1
// = 1/(loss - B2). Each sample is weighted so that its error counts as it would for
// the loss itself, to first order. B2 is found by search. (The paper names
// non-negative least squares and leaves B2 open.)
func FitLoss(points []goodput.LossPoint) (loss Loss, ok bool) {
	points = usable(points)
	steps := 0
	for i, p := range points {
		if i == 0 || p.Step > points[i-1].Step {
			steps++
		}
	}
	if steps < 3 {
		return Loss{}, false
	}
	points = smooth(points)
	top, bottom := 0.0, math.Inf(1)
	for _, p := range points {
		top, bottom = max(top, p.Loss), min(bottom, p.Loss)
	}
	for i := range points {
		points[i].Loss /= top
	}
	try := func(part float64) (Loss, float64) { return fitAbove(points, part*bottom/top) }
	loss, _ = try(lowest(func(part float64) float64 { _, err := try(part); return err }))
	loss.Top = top
	return loss, true
}

// usable returns the valid points, by step.
func usable(points []goodput.LossPoint) []goodput.LossPoint {
	out := slices.DeleteFunc(slices.Clone(points), func(p goodput.LossPoint) bool {
		return !(p.Step >= 0 && p.Loss > 0) || math.IsInf(p.Step, 1) || math.IsInf(p.Loss, 1)
	})
	slices.SortStableFunc(out, func(a, b goodput.LossPoint) int { return cmp.Compare(a.Step, b.Step) })
	return out
}

// smooth replaces outliers by the median of their neighbourhood. A falling loss is
// neither above all of those just before it nor below all of those just after. (The
// paper removes outliers and does not say how.)
func smooth(points []goodput.LossPoint) []goodput.LossPoint {
	const window, near = 5, 2
	out := slices.Clone(points)
	for i, p := range points {
		before, after := points[max(0, i-window):i], points[i+1:min(len(points), i+1+window)]
		if len(before) == 0 || len(after) == 0 {
			continue
		}
		higher := func(q goodput.LossPoint) bool { return q.Loss >= p.Loss }
		lower := func(q goodput.LossPoint) bool { return q.Loss <= p.Loss }
		if !slices.ContainsFunc(before, higher) || !slices.ContainsFunc(after, lower) {
			k := min(near, len(before), len(after))
			around := slices.Clone(points[i-k : i+k+1])
			slices.SortFunc(around, func(a, b goodput.LossPoint) int { return cmp.Compare(a.Loss, b.Loss) })
			out[i].Loss = around[k].Loss
		}
	}
	return out
}

// fitAbove fits the curve with a given B2, below all losses, and returns it
// with the sum of its squared errors.
func fitAbove(points []goodput.LossPoint, b2 float64) (Loss, float64) {
	// The samples {p.Step, 1} * x = 1/high, with weight high^4. The policy spends
	// most of its time here, hence no system.add.
	var k2, k1, k0, v1, v0 float64
	for _, p := range points {
		high := p.Loss - b2
		cube := high * high * high
		weight := cube * high
		k2 += weight * p.Step * p.Step
		k1 += weight * p.Step
		k0 += weight
		v1 += cube * p.Step
		v0 += cube
	}
	fit := Loss{B2: b2, Top: 1}
	det := k2*k0 - k1*k1
	if det > dependent*k2*k0 { // the unconstrained optimum, if none is negative, is the optimum
		fit.B0, fit.B1 = (v1*k0-v0*k1)/det, (k2*v0-k1*v1)/det
	}
	if !(fit.B0 > 0 && fit.B1 > 0) {
		s := system{n: 2, gram: [terms]vector{{k2, k1}, {k1, k0}}, rhs: vector{v1, v0}}
		x := s.solve()
		fit.B0, fit.B1 = x[0], x[1]
	}
	err := 0.0
	for _, p := range points {
		e := fit.At(p.Step) - p.Loss
		err += e * e
	}
	return fit, err
}

// lowest returns the minimum of f in [0, 1), found on a grid and then by golden
// section around its best point.
func lowest(f func(float64) float64) float64 {
	const (
		grid   = 32
		rounds = 24
		end    = 1 - 1e-9
	)
	best, least := 0, f(0)
	for i := 1; i < grid; i++ {
		if y := f(float64(i) / grid); y < least {
			best, least = i, y
		}
	}
	a, b := max(0, float64(best-1)/grid), min(end, float64(best+1)/grid)
	x, y := b-(b-a)/math.Phi, a+(b-a)/math.Phi
	fx, fy := f(x), f(y)
	for range rounds {
		if fx <= fy {
			b, y, fy = y, x, fx
			x = b - (b-a)/math.Phi
			fx = f(x)
		} else {
			a, x, fx = x, y, fy
			y = a + (b-a)/math.Phi
			fy = f(y)
		}
	}
	if mid := (a + b) / 2; f(mid) < least {
		return mid
	}
	return float64(best) / grid
}

// At returns the loss at a step.
func (l Loss) At(step float64) float64 { return l.Top * (1/(l.B0*step+l.B1) + l.B2) }

// Steps returns the number of steps from the start to convergence by the user's rule;
// +Inf if that takes more than 1e9 epochs.
func (l Loss) Steps(stop goodput.Stop) float64 {
	const most = 1_000_000_000
	// The curve is convex: an epoch with little fall is followed by others.
	slow := func(epoch int) bool {
		from, to := float64(epoch)*stop.Epoch, float64(epoch+1)*stop.Epoch
		return (l.At(from)-l.At(to))/l.Top < stop.Fall
	}
	low, high := 0, 1
	for !slow(high - 1) {
		if low, high = high, 2*high; high > most {
			return math.Inf(1)
		}
	}
	for low < high {
		if mid := (low + high) / 2; slow(mid) {
			high = mid
		} else {
			low = mid + 1
		}
	}
	return float64(low+stop.Epochs) * stop.Epoch
}
