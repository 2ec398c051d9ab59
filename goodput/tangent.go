// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package goodput

import "math"

// The bounds of the search. Those above are out of reach for times a sample may
// have; they only keep the arithmetic finite.
var (
	lowest  = vector{floor, floor, floor, 0, floor, 0, MinGamma}
	highest = vector{10 * longest, 10 * longest, 10 * longest, 1e6, 10 * longest, 1e6, MaxGamma}
)

// unit is a small but not negligible change of each parameter where it is 0.
var unit = vector{1e-3, 1e-6, 1e-3, 1, 1e-3, 1, 1}

// tangent is the loss around a point with every residual replaced by its
// tangent, plus a parabola that keeps the move short. It is convex, and
// evaluating it takes the same short time however many samples there are.
type tangent struct {
	*surface
	from   vector
	pinned *[dims]bool
	damp   vector
}

func newTangent(s *surface, from vector, pinned *[dims]bool, damp float64) tangent {
	t := tangent{surface: s, from: from, pinned: pinned}
	_, curves := t.derivatives(&vector{})
	for i := range dims {
		size := math.Abs(from[i]) + unit[i]
		t.damp[i] = damp * (curves[0][i][i] + 1e-6/(size*size))
	}
	return t
}

// value returns the tangent's loss after the move d.
func (t *tangent) value(d *vector) float64 {
	sum := 0.0
	for k := range t.norms {
		square, _ := t.norms[k].after(d)
		sum += math.Sqrt(square)
	}
	for i := range t.pulls {
		r := t.pulls[i].after(d)
		sum += r * r
	}
	for i := range dims {
		sum += t.damp[i] * d[i] * d[i] / 2
	}
	return sum
}

// after returns the square of the norm after the move d, and half its
// derivatives.
func (n *norm) after(d *vector) (square float64, half vector) {
	square = n.size * n.size
	for i := range dims {
		h := n.slope[i]
		for j := range dims {
			h += n.gram[i][j] * d[j]
		}
		half[i] = h
		square += d[i] * (n.slope[i] + h)
	}
	return max(square, blunt*blunt), half
}

func (r *pull) after(d *vector) float64 {
	return r.value + r.slope[0]*d[r.at[0]] + r.slope[1]*d[r.at[1]]
}

// derivatives returns the first derivatives after the move d, and two matrices
// of second derivatives: of a parabola above the function that touches it
// there (a norm is bent less than its square), and those of the function.
func (t *tangent) derivatives(d *vector) (slope vector, curves [2][dims]vector) {
	above, exact := &curves[0], &curves[1]
	for k := range t.norms {
		n := &t.norms[k]
		square, half := n.after(d)
		f := 1 / math.Sqrt(square)
		for i := range dims {
			slope[i] += f * half[i]
			for j := range i + 1 {
				above[i][j] += f * n.gram[i][j]
				exact[i][j] += f * (n.gram[i][j] - half[i]*half[j]/square)
			}
		}
	}
	for k := range t.pulls {
		r := &t.pulls[k]
		value := r.after(d)
		for i, at := range r.at {
			slope[at] += 2 * value * r.slope[i]
			for j, other := range r.at {
				if other <= at {
					above[at][other] += 2 * r.slope[i] * r.slope[j]
					exact[at][other] += 2 * r.slope[i] * r.slope[j]
				}
			}
		}
	}
	for i := range dims {
		slope[i] += t.damp[i] * d[i]
		above[i][i] += t.damp[i]
		exact[i][i] += t.damp[i]
	}
	return slope, curves
}

// lowestPoint returns the move within the bounds to where the tangent's loss is
// lowest, and how much lower that is.
func (t *tangent) lowestPoint() (move vector, gain float64) {
	const rounds = 50
	start := t.value(&move)
	now := start
	for range rounds {
		slope, curves := t.derivatives(&move)
		best, to := now, move
		for k := range curves {
			step := t.newton(&curves[k], slope, &move)
			if value, moved := t.along(&move, &step, now); value < best {
				best, to = value, moved
			}
		}
		less := now - best
		now, move = best, to
		if less <= 1e-3*(start-now)+1e-10*start {
			break
		}
	}
	return move, start - now
}

// newton returns the step, to be subtracted from move, to the lowest point
// within the bounds of the parabola with the given derivatives. It goes from
// bound to bound: holds a parameter that reaches one, and lets it go when all
// others are at rest and it would rather return.
func (t *tangent) newton(curve *[dims]vector, slope vector, move *vector) (step vector) {
	held := *t.pinned
	for range 4 * dims {
		matrix, dir := *curve, slope
		solve(&matrix, &dir, &held)
		share, stop := 1.0, -1
		for i := range dims {
			if room := t.room(i, move[i]-step[i], dir[i]); share*math.Abs(dir[i]) > room {
				share, stop = room/math.Abs(dir[i]), i
			}
		}
		for i := range dims {
			step[i] += share * dir[i]
			for j := range dims {
				slope[i] -= share * curve[max(i, j)][min(i, j)] * dir[j]
			}
		}
		if stop >= 0 {
			held[stop] = true
			continue
		}
		free, most := -1, 1e-12
		for i := range dims {
			if !held[i] || t.pinned[i] || t.room(i, move[i]-step[i], slope[i]) == 0 {
				continue
			}
			if promise := slope[i] * slope[i] / curve[i][i]; promise > most {
				free, most = i, promise
			}
		}
		if free < 0 {
			break
		}
		held[free] = false
	}
	return step
}

// room returns how far parameter i may go from moved against the direction dir
// before it reaches a bound.
func (t *tangent) room(i int, moved, dir float64) float64 {
	x := t.from[i] + moved
	if dir > 0 {
		x -= lowest[i]
	} else {
		x = highest[i] - x
	}
	if x <= 1e-12*math.Abs(t.from[i]) { // but for rounding
		return 0
	}
	return x
}

// along goes back from move by step, and by less and less of it until the value
// falls below now. It stays within the bounds.
func (t *tangent) along(move, step *vector, now float64) (value float64, to vector) {
	for share := 1.0; share > 1e-7; share /= 4 {
		for i := range dims {
			to[i] = min(max(move[i]-share*step[i], lowest[i]-t.from[i]), highest[i]-t.from[i])
		}
		if value = t.value(&to); value < now {
			return value, to
		}
	}
	return now, *move
}

// solve replaces b by the solution x of a*x = b over the parameters that are
// not held, and by 0 for the others: Cholesky's method. Only the lower triangle
// of a is used, and it is overwritten. a is positive definite but for rounding.
func solve(a *[dims]vector, b *vector, held *[dims]bool) {
	for i := range dims {
		if held[i] {
			a[i], b[i] = vector{}, 0
			a[i][i] = 1
			for j := i + 1; j < dims; j++ {
				a[j][i] = 0
			}
		}
	}
	for i := range dims {
		least := max(1e-12*a[i][i], math.SmallestNonzeroFloat64)
		for j := range i + 1 {
			sum := a[i][j]
			for k := range j {
				sum -= a[i][k] * a[j][k]
			}
			if i == j {
				a[i][i] = math.Sqrt(max(sum, least))
			} else {
				a[i][j] = sum / a[j][j]
			}
		}
		for k := range i {
			b[i] -= a[i][k] * b[k]
		}
		b[i] /= a[i][i]
	}
	for i := dims - 1; i >= 0; i-- {
		for k := i + 1; k < dims; k++ {
			b[i] -= a[k][i] * b[k]
		}
		b[i] /= a[i][i]
	}
}
