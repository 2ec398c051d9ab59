// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"time"

	"github.com/fairway-gpu/fairway/sim"
)

// warmUp is the part of the span in which an empty cluster fills up: the load is
// measured after it.
const warmUp = 0.25

// steadySpan returns the time in which the jobs must arrive so that, from the end of
// the warm-up to the last arrival, they would use a share load of the cluster's GPUs
// if each started at once.
//
// The GPU time of all jobs over the span would be a poor measure: where single jobs
// run for weeks, most of their GPU time comes after the last arrival, and a short
// workload would never fill its cluster.
func (g *Gen) steadySpan(work []sim.Work, load float64) time.Duration {
	if g.Span > 0 {
		return g.Span
	}
	if g.Load > 0 {
		load = g.Load
	}
	total := 0.0
	for i := range work {
		total += gpuSeconds(&work[i])
	}
	// Utilisation falls as the span grows: bisect.
	lo, hi := 1.0, max(2, min(maxSeconds, 2*total/(float64(g.GPUs)*load)))
	for range 50 {
		mid := (lo + hi) / 2
		if steadyUse(work, mid) > load*float64(g.GPUs) {
			lo = mid
		} else {
			hi = mid
		}
	}
	return time.Duration(hi) * time.Second
}

// steadyUse returns the mean number of GPUs in use after the warm-up if the jobs
// arrive evenly over a span of that many seconds.
func steadyUse(work []sim.Work, span float64) float64 {
	begin := warmUp * span
	used := 0.0
	for i := range work {
		arrives := span * (float64(i) + 0.5) / float64(len(work))
		ends := arrives + ranFor(&work[i]).Seconds()
		if in := min(ends, span) - max(arrives, begin); in > 0 {
			used += in * float64(work[i].GPUs)
		}
	}
	return used / (span - begin)
}
