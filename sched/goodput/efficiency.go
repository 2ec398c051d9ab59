// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package goodput

import "math"

// Efficiency returns how much an example of a batch is worth, against one of a
// batch of the initial size (equation 6). noise is the gradient noise scale in
// examples, 0 or more; +Inf gives 1. For batch >= initial the result lies
// between initial/batch and 1.
func Efficiency(noise float64, initial, batch int) float64 {
	if math.IsInf(noise, 1) {
		return 1
	}
	return (noise + float64(initial)) / (noise + float64(batch))
}

// Gain returns how many iterations at the initial batch size one step at batch
// is worth. For batch >= initial it lies between 1 and batch/initial.
func Gain(noise float64, initial, batch int) float64 {
	return Efficiency(noise, initial, batch) * float64(batch) / float64(initial)
}
