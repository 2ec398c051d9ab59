// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"math"
	"slices"
)

// maxCurve bounds the points of one distribution curve.
const maxCurve = 600

// curve is a cumulative distribution: at X[i] the share of values not above
// it rises to Y[i].
type curve struct {
	X  nums `json:"x"`
	Y  nums `json:"y"`
	N  int  `json:"n"`  // values counted
	Of int  `json:"of"` // the whole they are a share of
}

// newCurve returns the distribution of values as a share of a population that
// may be larger than the values: jobs that never ended keep the curve below 1.
// Values that are not numbers are left out.
func newCurve(values []float64, population int) curve {
	v := slices.DeleteFunc(slices.Clone(values), func(x float64) bool { return !finite(x) })
	slices.Sort(v)
	c := curve{X: nums{}, Y: nums{}, N: len(v), Of: max(population, len(v))}
	prev := -1
	for _, rank := range curveRanks(len(v)) {
		// The curve passes through the last of equal values.
		for rank+1 < len(v) && v[rank+1] == v[rank] {
			rank++
		}
		if rank == prev {
			continue
		}
		prev = rank
		c.X = append(c.X, round(v[rank]))
		c.Y = append(c.Y, round(float64(rank+1)/float64(c.Of)))
	}
	return c
}

// curveRanks chooses at most maxCurve of n ranks, ascending, including the first
// and the last. Two thirds are spread evenly; the rest get denser towards both
// ends, which a logarithmic axis and the tail show.
func curveRanks(n int) []int {
	if n <= maxCurve {
		all := make([]int, n)
		for i := range all {
			all[i] = i
		}
		return all
	}
	const even, tail = maxCurve * 2 / 3, maxCurve / 6
	ranks := make([]int, 0, maxCurve)
	for i := range even {
		ranks = append(ranks, int(math.Round(float64(i)*float64(n-1)/(even-1))))
	}
	for i := range tail {
		d := int(math.Pow(float64(n)/2, float64(i)/(tail-1))) - 1
		ranks = append(ranks, d, n-1-d)
	}
	slices.Sort(ranks)
	return slices.Compact(ranks)
}
