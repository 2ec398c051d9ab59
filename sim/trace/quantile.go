// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package trace

import "math"

// knot is a point of a quantile function: a share u of the values is below x.
type knot struct{ u, x float64 }

// quantiles is a distribution given by some of its quantiles, u ascending from
// 0 to 1. Between two knots the logarithm of the value is linear in u.
type quantiles []knot

// at returns the value below which the share u of the values lies.
func (q quantiles) at(u float64) float64 {
	if u <= q[0].u {
		return q[0].x
	}
	for i := 1; i < len(q); i++ {
		if a, b := q[i-1], q[i]; u <= b.u {
			return a.x * math.Pow(b.x/a.x, (u-a.u)/(b.u-a.u))
		}
	}
	return q[len(q)-1].x
}

// wholeMean returns the mean of the values, rounded to whole numbers and at most
// most, by sampling the quantile function evenly.
func (q quantiles) wholeMean(most int) float64 {
	const steps = 4096
	var sum float64
	for i := range steps {
		sum += float64(q.whole((float64(i)+0.5)/steps, most))
	}
	return sum / steps
}

// whole returns at(u) as a whole number from 1 to most.
func (q quantiles) whole(u float64, most int) int {
	return min(max(1, int(math.Round(q.at(u)))), most)
}

// normalCDF is the share of a standard normal distribution below z.
func normalCDF(z float64) float64 { return 0.5 * math.Erfc(-z/math.Sqrt2) }

// blend is a mixture of normal distributions of variance one. It makes some
// groups larger than others without changing the distribution over all: draw
// z from the group's own normal, and rank(z) is uniform over the mixture.
type blend struct {
	weight []float64 // of each group
	shift  []float64 // mean of each group
}

// rank returns the share of the whole mixture that lies below z.
func (b blend) rank(z float64) float64 {
	var sum, total float64
	for i, w := range b.weight {
		if w > 0 {
			sum += w * normalCDF(z-b.shift[i])
			total += w
		}
	}
	return sum / total
}
