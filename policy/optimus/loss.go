// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package optimus

import (
	"cmp"
	"math"
	"slices"
)

// Loss is the training loss over the steps k of a job, as a part of Top:
// 1/(B0*k + B1) + B2, with none of the three negative. It is how stochastic
// gradient descent converges on a convex problem, towards B2.
type Loss struct {
	B0, B1, B2 float64
	Top        float64 // the highest loss seen
}

// LossPoint is a measured training loss.
type LossPoint struct {
	Step float64
	Loss float64
}

// FitLoss fits the curve to measured losses; ok is false if there are fewer
// than three of them, or not three different steps.
//
// For a given B2 the curve is linear in the other two once it is turned upside
// down: B0*k + B1 = 1/(loss - B2). Each sample is weighted so that its error
// counts as it would for the loss itself, to first order. B2 is searched for.
// (The paper names non-negative least squares and leaves B2 open.)
func FitLoss(points []LossPoint) (loss Loss, ok bool) {
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

// usable returns the points that make sense, by step.
func usable(points []LossPoint) []LossPoint {
	out := slices.DeleteFunc(slices.Clone(points), func(p LossPoint) bool {
		return !(p.Step >= 0 && p.Loss > 0) || math.IsInf(p.Step, 1) || math.IsInf(p.Loss, 1)
	})
	slices.SortStableFunc(out, func(a, b LossPoint) int { return cmp.Compare(a.Step, b.Step) })
	return out
}

// smooth replaces outliers by the median of their neighbourhood. A loss that
// falls is neither above all of those just before it nor below all of those
// just after. (The paper removes outliers and does not say how.)
func smooth(points []LossPoint) []LossPoint {
	const window, near = 5, 2
	out := slices.Clone(points)
	for i, p := range points {
		before, after := points[max(0, i-window):i], points[i+1:min(len(points), i+1+window)]
		if len(before) == 0 || len(after) == 0 {
			continue
		}
		higher := func(q LossPoint) bool { return q.Loss >= p.Loss }
		lower := func(q LossPoint) bool { return q.Loss <= p.Loss }
		if !slices.ContainsFunc(before, higher) || !slices.ContainsFunc(after, lower) {
			k := min(near, len(before), len(after))
			around := slices.Clone(points[i-k : i+k+1])
			slices.SortFunc(around, func(a, b LossPoint) int { return cmp.Compare(a.Loss, b.Loss) })
			out[i].Loss = around[k].Loss
		}
	}
	return out
}

// fitAbove fits the curve with a given B2, below all losses, and returns it
// with the sum of its squared errors.
func fitAbove(points []LossPoint, b2 float64) (Loss, float64) {
	s := system{n: 2}
	for _, p := range points {
		high := p.Loss - b2
		s.add(vector{p.Step, 1}, 1/high, high*high*high*high)
	}
	x := s.solve()
	fit := Loss{B0: x[0], B1: x[1], B2: b2, Top: 1}
	err := 0.0
	for _, p := range points {
		e := fit.At(p.Step) - p.Loss
		err += e * e
	}
	return fit, err
}

// lowest returns where f is lowest in [0, 1), found on a grid and then by
// golden section around the best point of it.
func lowest(f func(float64) float64) float64 {
	const (
		grid   = 64
		rounds = 40
		end    = 1 - 1e-9
	)
	best, least := 0, f(0)
	for i := 1; i < grid; i++ {
		if y := f(float64(i) / grid); y < least {
			best, least = i, y
		}
	}
	a, b := max(0, float64(best-1)/grid), min(end, float64(best+1)/grid)
	inner := func() (float64, float64) {
		d := (b - a) / math.Phi
		return b - d, a + d
	}
	for range rounds {
		if x, y := inner(); f(x) <= f(y) {
			b = y
		} else {
			a = x
		}
	}
	if mid := (a + b) / 2; f(mid) < least {
		return mid
	}
	return float64(best) / grid
}

// At returns the loss at a step.
func (l Loss) At(step float64) float64 { return l.Top * (1/(l.B0*step+l.B1) + l.B2) }

// Stop says when a job has converged: when the loss has fallen by less than
// Fall, as a part of the highest loss, in each of so many epochs.
type Stop struct {
	Fall   float64
	Epochs int
	Epoch  float64 // steps
}

// Steps returns the number of steps from the start to convergence; +Inf if it
// does not come in a thousand million epochs.
func (l Loss) Steps(stop Stop) float64 {
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
