// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package goodput

import "math"

// The bounds of the search. Those above are out of reach for times a sample may
// have; they only keep the arithmetic finite.
const beyond = 10 * longest

var (
	lowest  = vector{floor, floor, floor, floor, floor, floor, MinGamma}
	highest = vector{beyond, beyond, beyond, beyond, beyond, beyond, MaxGamma}
)

// unit is a small but not negligible change of each parameter.
var unit = vector{1e-3, 1e-6, 1e-3, 1e-5, 1e-3, 1e-5, 1}

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
	_, curve := t.derivatives(&vector{})
	for i := range dims {
		size := from[i] + unit[i]
		t.damp[i] = damp * (curve[i][i] + 1e-6/(size*size))
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

// derivatives returns the first derivatives after the move d, and the second
// ones of the parabola that touches the function there and is nowhere below it:
// of the square of each norm, divided by twice the norm. It is blunter than the
// function, but unlike that one's, its lowest point always lies lower.
func (t *tangent) derivatives(d *vector) (slope vector, curve [dims]vector) {
	for k := range t.norms {
		n := &t.norms[k]
		square, half := n.after(d)
		f := 1 / math.Sqrt(square)
		for i := range dims {
			slope[i] += f * half[i]
			for j := range dims {
				curve[i][j] += f * n.gram[i][j]
			}
		}
	}
	for k := range t.pulls {
		r := &t.pulls[k]
		value := r.after(d)
		for i, at := range r.at {
			slope[at] += 2 * value * r.slope[i]
			for j, other := range r.at {
				curve[at][other] += 2 * r.slope[i] * r.slope[j]
			}
		}
	}
	for i := range dims {
		slope[i] += t.damp[i] * d[i]
		curve[i][i] += t.damp[i]
	}
	return slope, curve
}

// lowestPoint returns the move within the bounds to where the tangent's loss is
// lowest, and how much lower that is.
func (t *tangent) lowestPoint() (move vector, gain float64) {
	const rounds = 50
	start := t.value(&move)
	for range rounds {
		slope, curve := t.derivatives(&move)
		to := t.parabola(&slope, &curve, &move)
		less := start - gain - t.value(&to)
		if !(less > 0) {
			break
		}
		move = to
		gain += less
		if less <= 1e-3*gain+1e-10*start {
			break
		}
	}
	return move, gain
}

// parabola returns the move to the lowest point, within the bounds, of the
// parabola with the given derivatives at a move. It goes from bound to bound:
// holds a parameter that reaches one, and lets it go when all others are at rest
// and it would rather return.
func (t *tangent) parabola(slope *vector, curve *[dims]vector, at *vector) (to vector) {
	to = *at
	rest := *slope
	held := *t.pinned
	for range 4 * dims {
		matrix, step := *curve, rest
		solve(&matrix, &step, &held)
		share, stop := 1.0, -1
		for i := range dims {
			if room := t.room(i, to[i], step[i]); share*math.Abs(step[i]) > room {
				share, stop = room/math.Abs(step[i]), i
			}
		}
		for i := range dims {
			to[i] -= share * step[i]
			for j := range dims {
				rest[i] -= share * curve[i][j] * step[j]
			}
		}
		if stop >= 0 {
			held[stop] = true
			continue
		}
		free, most := -1, 1e-12
		for i := range dims {
			if !held[i] || t.pinned[i] || t.room(i, to[i], rest[i]) == 0 {
				continue
			}
			if promise := rest[i] * rest[i] / curve[i][i]; promise > most {
				free, most = i, promise
			}
		}
		if free < 0 {
			break
		}
		held[free] = false
	}
	for i := range dims {
		to[i] = within(i, t.from[i]+to[i]) - t.from[i] // but for rounding
	}
	return to
}

// room returns how far parameter i, moved so far, may go against dir before it
// reaches a bound.
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
