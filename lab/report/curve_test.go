// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestCurveOfFewValues(t *testing.T) {
	for _, tc := range []struct {
		name       string
		values     []float64
		population int
		want       curve
	}{
		{"none", nil, 4, curve{X: nums{}, Y: nums{}, Of: 4}},
		{"sorted and joined", []float64{3, 1, 3, 2}, 4, curve{X: nums{1, 2, 3}, Y: nums{0.25, 0.5, 1}, N: 4, Of: 4}},
		{"of a larger whole", []float64{5, 7}, 8, curve{X: nums{5, 7}, Y: nums{0.125, 0.25}, N: 2, Of: 8}},
		{"no numbers left out", []float64{math.NaN(), 2, math.Inf(1)}, 2, curve{X: nums{2}, Y: nums{0.5}, N: 1, Of: 2}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, newCurve(tc.values, tc.population)); diff != "" {
				t.Errorf("curve (-want +got):\n%s", diff)
			}
		})
	}
}

func TestCurveOfManyValuesStaysTrue(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for _, n := range []int{maxCurve, maxCurve + 1, 5000, 100_000} {
		values := make([]float64, n)
		for i := range values {
			values[i] = math.Exp(3 * r.NormFloat64())
			if i%3 == 0 {
				values[i] = 0 // many jobs do not wait at all
			}
		}
		c := newCurve(values, n)
		if len(c.X) > maxCurve || len(c.X) < maxCurve/3 {
			t.Errorf("%d values: %d points; want %d to %d", n, len(c.X), maxCurve/3, maxCurve)
		}
		slices.Sort(values)
		for i := range c.X {
			// The largest value of the sample that rounds to X[i] sits at its share.
			at := int(math.Round(c.Y[i]*float64(n))) - 1
			if got := round(values[at]); got != c.X[i] {
				t.Fatalf("%d values: point %d is (%g, %g), but the value at that share is %g", n, i, c.X[i], c.Y[i], got)
			}
			if i > 0 && c.Y[i]-c.Y[i-1] > 0.01 {
				t.Errorf("%d values: the share jumps from %g to %g", n, c.Y[i-1], c.Y[i])
			}
		}
		if c.X[0] != 0 || c.X[len(c.X)-1] != round(values[n-1]) || c.Y[len(c.Y)-1] != 1 {
			t.Errorf("%d values: ends are (%g, %g) and (%g, %g); want the extremes", n, c.X[0], c.Y[0], c.X[len(c.X)-1], c.Y[len(c.Y)-1])
		}
		if n == 100_000 && c.Y[len(c.Y)-2] < 1-1.5/float64(n) {
			t.Errorf("the point before the last is at %g; want the tail job by job", c.Y[len(c.Y)-2])
		}
	}
}
