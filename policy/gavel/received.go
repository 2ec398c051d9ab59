// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package gavel

import (
	"math"
	"slices"
)

// note records the rest of the round for a job that was given GPUs in it, and marks
// the round as divided.
func (r *round) note(k int) {
	c := &r.claims[k]
	n := &r.plan.Notes[c.job]
	want := r.plan.Want[c.job]
	if len(want) > 0 && (r.fresh || c.on < 0) {
		if t := r.s.Cluster.TypeOf(int(want[0].Node)); t < maxTypes {
			rest := r.begin.Add(r.Round.D()).Sub(r.s.Now)
			units := max(1, int(math.Round(parts*float64(rest)/float64(r.Round.D()))))
			if r.together(k) {
				c.shared[t] += units
			} else {
				c.got[t] += units
			}
		}
		types := min(len(r.s.Cluster.Types), maxTypes)
		n.Count = c.got.pack(types)
		if r.Sharing > 0 {
			n.Level = c.shared.pack(types)
		}
	}
	if r.fresh || n.Since.Before(r.begin) {
		n.Since = r.s.Now
	}
}

// parts is the number of parts of a round in which time is counted.
const parts = 60

// received is the time that a job was given on each type, in parts of a round.
type received [maxTypes]int

func (g received) sum() int {
	sum := 0
	for _, n := range g {
		sum += n
	}
	return sum
}

// width is the number of bits for each type in the one number that a note holds.
func width(types int) int { return min(30, 62/max(1, types)) }

// pack puts the times into one number. When one has become too large for its
// bits, all are halved: only their ratios matter.
func (g received) pack(types int) int {
	w := width(types)
	for slices.Max(g[:]) >= 1<<w {
		for t := range g {
			g[t] = (g[t] + 1) / 2
		}
	}
	out := 0
	for t := range types {
		out |= g[t] << (t * w)
	}
	return out
}

// unpack is the inverse of pack; a note of another policy gives some times.
func unpack(n, types int) received {
	var g received
	w := width(types)
	for t := range types {
		g[t] = max(0, n) >> (t * w) & (1<<w - 1)
	}
	return g
}
