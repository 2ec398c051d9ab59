// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package gavel

import (
	"cmp"
	"math"
	"slices"
)

// bid is a request of a job, or of two together, for a type.
type bid struct {
	claim    int
	partner  int // another claim; -1: for one job alone
	gpuType  int
	priority float64
	time     float64
}

// bids returns all bids, the strongest first.
func (r *round) bids() []bid {
	if r.Goal == Throughput {
		return r.throughputBids()
	}
	out := make([]bid, 0, len(r.claims))
	for k := range r.claims {
		c := &r.claims[k]
		if r.chosen[k] >= 0 || !r.eligible(c) {
			continue
		}
		for t, x := range c.time {
			if x > 0 {
				out = append(out, bid{k, -1, t, r.priority(c, t), x})
			}
		}
	}
	out = r.sharedBids(out)
	slices.SortFunc(out, func(a, b bid) int {
		switch {
		case a.priority != b.priority:
			return cmp.Compare(b.priority, a.priority)
		case a.time != b.time:
			return cmp.Compare(b.time, a.time)
		case a.claim != b.claim:
			return cmp.Compare(a.claim, b.claim)
		case a.gpuType != b.gpuType:
			return cmp.Compare(a.gpuType, b.gpuType)
		}
		return cmp.Compare(a.partner, b.partner)
	})
	return out
}

func (r *round) eligible(c *claim) bool { return c.on >= 0 || c.j.Ready(r.s.Now) }

// never is the priority of a job that was never on a type, for all of its time.
const never = 1e9

// priority is how far a job is behind its share on a type.
func (r *round) priority(c *claim, t int) float64 {
	x := c.time[t]
	if r.byGain() {
		return c.gain[t] / float64(c.scale)
	}
	if c.on == t && c.partner < 0 {
		x *= r.Stick
	}
	return r.behind(x, c.got[t])
}

// byGain reports whether the goal is an order of jobs, so that the most gain per GPU
// goes first, whatever the jobs have received.
func (r *round) byGain() bool { return r.Goal == Shortest || r.Goal == FIFO || r.Goal == AlloX }

// behind is the priority of a share of time x, given the time received.
func (r *round) behind(x float64, received int) float64 {
	if received == 0 {
		return x * never
	}
	got := float64(received)
	if r.Turns > 1 {
		got = math.Pow(r.Turns, math.Floor(math.Log(got/parts)/math.Log(r.Turns)+1e-9))
	}
	return x / got
}

// choose gives types to jobs in order of priority, as long as the number of GPUs
// suffices.
func (r *round) choose() {
	for k, t := range r.chosen {
		if t >= 0 && !r.second(k) {
			r.budget[t] -= r.claims[k].scale
		}
	}
	for _, b := range r.bids() {
		if b.partner >= 0 {
			r.choosePair(b)
			continue
		}
		c := &r.claims[b.claim]
		if r.chosen[b.claim] >= 0 || r.budget[b.gpuType] < c.scale || !r.quota.FitsMilli(c.j, r.holds(c)) {
			continue
		}
		r.chosen[b.claim] = b.gpuType
		r.budget[b.gpuType] -= c.scale
		r.quota.AddMilli(c.j, r.holds(c))
	}
	// From here on only placed jobs hold quota.
	r.quota.Clear()
	for k := range r.claims {
		if c := &r.claims[k]; len(r.plan.Want[c.job]) > 0 {
			r.quota.AddMilli(c.j, r.milli(r.plan.Want[c.job]))
		}
	}
}
