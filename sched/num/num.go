// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Package num is the arithmetic that every room shares, so that a median is the
// same number wherever it is printed. It imports nothing of ours.
package num

import "slices"

// Mean returns the arithmetic mean; 0 for no values.
func Mean(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	return sum / float64(len(values))
}

// Quantile returns the value below which the share q (0 to 1) of values lies. It
// interpolates linearly between the two nearest ranks, as NumPy does, and is 0
// for no values. The values may be in any order, and stay as they are.
func Quantile(values []float64, q float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	last := len(sorted) - 1
	at := min(max(q, 0), 1) * float64(last)
	i := min(int(at), last)
	return sorted[i] + (at-float64(i))*(sorted[min(i+1, last)]-sorted[i])
}

// CeilDiv divides and rounds up. a must not be negative, b must be positive.
func CeilDiv(a, b int) int { return (a + b - 1) / b }
