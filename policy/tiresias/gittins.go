// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package tiresias

import (
	"slices"
	"sort"
)

// philly holds 50 quantiles (at 1 %, 3 %, ..., 99 %) of the total service of
// jobs, in GPU-seconds: GPUs times run time of 109,524 jobs of the Microsoft
// Philly trace (CC-BY-4.0), three digits kept.
func philly() []float64 {
	return []float64{
		15, 28, 40, 48, 55, 60, 64, 67, 70, 74,
		80, 100, 136, 176, 217, 292, 354, 481, 561, 642,
		747, 872, 975, 1120, 1280, 1440, 1540, 1730, 1920, 2060,
		2300, 2480, 2600, 2750, 3180, 3580, 4000, 4500, 5360, 5920,
		8030, 10200, 13400, 20400, 34800, 58600, 113000, 248000, 611000, 2050000,
	}
}

// gittins knows the Gittins index of jobs from a sample of total service.
type gittins struct {
	sample []float64 // ascending
	sums   []float64 // sums[i] is the sum of sample[:i]
	// steps[i] is the index of a job that has had exactly sample[i-1], and
	// steps[0] that of a new one.
	steps []float64
}

func newGittins(sample []float64) gittins {
	g := gittins{sample: slices.Sorted(slices.Values(sample)), sums: make([]float64, 1, len(sample)+1)}
	for i, x := range g.sample {
		g.sums = append(g.sums, g.sums[i]+x)
	}
	g.steps = append(g.steps, g.exact(0))
	for _, x := range g.sample {
		g.steps = append(g.steps, g.exact(x))
	}
	return g
}

// index returns the Gittins index of a job that has attained a GPU-seconds of
// service, as it was at the last point of the sample before that. It is 0 for
// a job that has outlived the whole sample.
func (g gittins) index(a float64) float64 { return g.steps[g.outlived(a)] }

// outlived returns how many jobs of the sample need no more than a.
func (g gittins) outlived(a float64) int {
	return sort.Search(len(g.sample), func(i int) bool { return g.sample[i] > a })
}

// exact returns the best ratio, over all amounts d of further service, of the
// chance that a job with service a ends within d to the service it is expected
// to use of d.
//
// The chance grows only where d reaches a point of the sample, and the expected
// use grows with d, so the best d is at one of these points.
func (g gittins) exact(a float64) float64 {
	first := g.outlived(a)
	longer := len(g.sample) - first // jobs of the sample that need more than a
	best := 0.0
	for k := 1; k <= longer; k++ {
		d := g.sample[first+k-1] - a
		ended := g.sums[first+k] - g.sums[first] - float64(k)*a
		best = max(best, float64(k)/(ended+float64(longer-k)*d))
	}
	return best
}
