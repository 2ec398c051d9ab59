// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"cmp"
	"math"
	"slices"

	"github.com/fairway-gpu/fairway/sim"
)

// maxSteps bounds the points of one measure over time.
const maxSteps = 2000

// steps is one measure over time. A short one is exact: from T[i] on the value
// is V[i]. A long one is cut into bins of Step seconds from From on, each with
// its mean over time in V and its extremes in Lo and Hi.
type steps struct {
	T    nums `json:"t,omitempty"`
	V    nums `json:"v"`
	From num  `json:"from,omitempty"`
	Step num  `json:"step,omitempty"`
	Lo   nums `json:"lo,omitempty"`
	Hi   nums `json:"hi,omitempty"`
}

// orderPoints returns the points with a finite time, by time, one for each
// time: of several at one time the last is the state that lasted.
func orderPoints(series []sim.Point) []sim.Point {
	pts := slices.DeleteFunc(slices.Clone(series), func(p sim.Point) bool { return !finite(p.T) })
	slices.SortStableFunc(pts, func(a, b sim.Point) int { return cmp.Compare(a.T, b.T) })
	kept := pts[:0]
	for i, p := range pts {
		if i+1 == len(pts) || pts[i+1].T != p.T {
			kept = append(kept, p)
		}
	}
	return kept
}

// newSteps takes one measure out of ordered points.
func newSteps(pts []sim.Point, measure func(sim.Point) int) steps {
	var s steps
	for i, p := range pts {
		v := float64(measure(p))
		if i > 0 && i+1 < len(pts) && v == s.V[len(s.V)-1] {
			continue
		}
		s.T, s.V = append(s.T, p.T), append(s.V, v)
	}
	if len(s.T) > maxSteps {
		return s.binned()
	}
	for i, t := range s.T {
		s.T[i] = round(t)
	}
	if s.V == nil {
		s.V = nums{}
	}
	return s
}

func (s steps) binned() steps {
	first, last := s.T[0], s.T[len(s.T)-1]
	width := (last - first) / maxSteps
	out := steps{From: num(first), Step: num(width)}
	at := 0 // the step in force at the start of the bin
	for b := range maxSteps {
		from, to := first+float64(b)*width, first+float64(b+1)*width
		if b == maxSteps-1 {
			to = last
		}
		lo, hi, area := s.V[at], s.V[at], 0.0
		for t := from; ; at++ {
			lo, hi = min(lo, s.V[at]), max(hi, s.V[at])
			if at+1 >= len(s.T) || s.T[at+1] > to {
				area += s.V[at] * (to - t)
				break
			}
			area += s.V[at] * (s.T[at+1] - t)
			t = s.T[at+1]
		}
		mean := min(max(area/(to-from), lo), hi)
		out.V = append(out.V, math.Round(mean*100)/100)
		out.Lo, out.Hi = append(out.Lo, lo), append(out.Hi, hi)
	}
	return out
}
