// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package experience

import (
	"math"
	"slices"

	"github.com/fairway-gpu/fairway/sched/goodput"
)

// spread returns the n most informative samples, or all if there are no more, in
// their order. It repeatedly takes the sample that is farthest from the known ones
// and from those already taken; on a tie that with the most measurements, then the
// first. The smallest and the largest placements and batches are thus taken early.
func spread(samples, known []goodput.Sample, n int) []goodput.Sample {
	if len(samples) <= n {
		return samples
	}
	at := make([][3]float64, len(samples))
	far := make([]float64, len(samples)) // from everything known or taken
	for i, s := range samples {
		at[i], far[i] = position(s), math.Inf(1)
		for _, k := range known {
			far[i] = min(far[i], distance(at[i], position(k)))
		}
	}
	taken := make([]bool, len(samples))
	for range n {
		best := -1
		for i := range samples {
			if !taken[i] && (best < 0 || far[i] > far[best] || far[i] == far[best] && samples[i].Count > samples[best].Count) {
				best = i
			}
		}
		taken[best] = true
		for i := range samples {
			far[i] = min(far[i], distance(at[i], at[best]))
		}
	}
	out := make([]goodput.Sample, 0, n)
	for i, s := range samples {
		if taken[i] {
			out = append(out, s)
		}
	}
	return slices.Clip(out)
}

// position is a sample's position in the space of shapes and batches: a factor of two
// is one unit.
func position(s goodput.Sample) [3]float64 {
	return [3]float64{math.Log2(float64(s.Nodes)), math.Log2(float64(s.GPUs)), math.Log2(float64(s.Local))}
}

func distance(a, b [3]float64) float64 {
	sum := 0.0
	for i := range a {
		sum += math.Abs(a[i] - b[i])
	}
	return sum
}
