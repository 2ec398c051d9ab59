// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"cmp"
	"math"
	"slices"

	"github.com/fairway-gpu/fairway/sim"
)

// maxSegments bounds the bars of the chart of single jobs, all runs together.
const maxSegments = 400_000

// segmentLimit returns the most bars that one job may have so that all of
// them together stay within the budget.
func segmentLimit(counts []int, budget int) int {
	limit := 1
	for _, n := range counts {
		limit = max(limit, n)
	}
	fits := func(limit int) bool {
		sum := 0
		for _, n := range counts {
			sum += min(n, limit)
		}
		return sum <= budget
	}
	if fits(limit) {
		return limit
	}
	lo, hi := 1, limit // one bar for each job is always allowed; hi does not fit
	for hi-lo > 1 {
		if mid := (lo + hi) / 2; fits(mid) {
			lo = mid
		} else {
			hi = mid
		}
	}
	return lo
}

// cleanSegments returns the segments that can be drawn, by start time. A
// segment without an end lasts until the end of the run.
func cleanSegments(segments []sim.Segment, end float64) []sim.Segment {
	out := make([]sim.Segment, 0, len(segments))
	for _, s := range segments {
		if s.End < 0 {
			s.End = end
		}
		if finite(s.Start) && finite(s.End) && s.End > s.Start {
			out = append(out, s)
		}
	}
	slices.SortStableFunc(out, func(a, b sim.Segment) int { return cmp.Compare(a.Start, b.Start) })
	return out
}

// mergeSegments joins neighbours, those with the shortest wait between them
// first, until at most limit are left. A joined segment shows the mean number
// of GPUs over its length and the largest number of nodes.
func mergeSegments(segments []sim.Segment, limit int) []sim.Segment {
	if len(segments) <= limit {
		return segments
	}
	gaps := make([]int, len(segments)-1) // gap i lies before segment i+1
	for i := range gaps {
		gaps[i] = i
	}
	width := func(i int) float64 { return segments[i+1].Start - segments[i].End }
	slices.SortStableFunc(gaps, func(a, b int) int { return cmp.Compare(width(a), width(b)) })
	closed := make([]bool, len(segments))
	for _, i := range gaps[:len(segments)-limit] {
		closed[i+1] = true
	}
	out := make([]sim.Segment, 0, limit)
	for from := 0; from < len(segments); {
		to := from + 1
		for to < len(segments) && closed[to] {
			to++
		}
		out = append(out, joinSegments(segments[from:to]))
		from = to
	}
	return out
}

func joinSegments(part []sim.Segment) sim.Segment {
	joined := part[0]
	var held, time float64
	for _, s := range part {
		held += float64(s.GPUs) * (s.End - s.Start)
		time += s.End - s.Start
		joined.End = max(joined.End, s.End)
		joined.Nodes = max(joined.Nodes, s.Nodes)
	}
	joined.GPUs = max(1, int(math.Round(held/time)))
	return joined
}
