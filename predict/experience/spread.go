// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package experience

import (
	"math"
	"slices"

	"github.com/fairway-gpu/fairway/sched/goodput"
)

// spread returns n of the samples, or all if there are no more, in the order
// they came in: those that say most beyond what is known already. It takes one
// after the other the sample that is farthest from the known ones and from
// those taken before; of equally far ones that of the most measurements, then
// the first. The smallest and the largest placements and batches are thus among
// the first to be taken.
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

// position is where a sample lies among the shapes and batches a job can have:
// twice as many of anything is one step.
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
