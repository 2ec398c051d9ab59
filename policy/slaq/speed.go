// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package slaq

import (
	"cmp"
	"slices"

	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/goodput"
)

// speeds are the measured steps per second at some sizes, ascending.
type speeds []speed

type speed struct {
	gpus int
	rate float64 // steps per second
}

// speedsOn returns the measured speeds on a GPU type, or on all types if there are
// none; the mean where a size was measured on several placements.
func speedsOn(times []goodput.StepTime, t sched.GPUType) speeds {
	all := !slices.ContainsFunc(times, func(x goodput.StepTime) bool { return x.Type == string(t) && !x.Borrowed })
	sum, count := map[int]float64{}, map[int]int{}
	for _, x := range times {
		if (all || x.Type == string(t)) && x.GPUs > 0 && x.Time > 0 && !x.Borrowed {
			sum[x.GPUs] += x.Time
			count[x.GPUs]++
		}
	}
	out := make(speeds, 0, len(sum))
	for n, total := range sum {
		out = append(out, speed{n, float64(count[n]) / total})
	}
	slices.SortFunc(out, func(a, b speed) int { return cmp.Compare(a.gpus, b.gpus) })
	return out
}

// at returns the speed at a size: in proportion to the GPUs below the smallest and
// above the largest measured size, interpolated in between.
func (v speeds) at(n int) float64 {
	i, found := slices.BinarySearchFunc(v, n, func(s speed, n int) int { return cmp.Compare(s.gpus, n) })
	switch {
	case found:
		return v[i].rate
	case i == 0:
		return v[0].rate * float64(n) / float64(v[0].gpus)
	case i == len(v):
		return v[i-1].rate * float64(n) / float64(v[i-1].gpus)
	}
	low, high := v[i-1], v[i]
	part := float64(n-low.gpus) / float64(high.gpus-low.gpus)
	return low.rate + part*(high.rate-low.rate)
}
