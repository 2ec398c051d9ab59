// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package pollux

import "math"

// least is added to every value before the power is taken, so that a job with
// no GPUs has a finite cost for p <= 0.
const least = 1e-3

// fitness is the power mean over jobs (equation 14) with exponent p; p = 0 is
// its limit, the geometric mean. A search minimises the sum of the costs of
// the jobs, which is the same as to maximise the mean.
type fitness struct{ p float64 }

// cost returns what a job of that value adds to the sum.
func (f fitness) cost(value float64) float64 {
	x := value + least
	switch {
	case f.p == -1:
		return 1 / x
	case f.p < 0:
		return math.Pow(x, f.p)
	case f.p == 0:
		return -math.Log(x)
	}
	return -math.Pow(x, f.p)
}
