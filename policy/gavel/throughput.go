// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package gavel

import (
	"cmp"
	"math"
	"slices"
)

// Throughput is the goal max-sum-throughput: the most steps a second of all jobs
// together. It is the default of Gavel in the Sia artifact's simulator, and follows
// that one's mechanism: a job's priority on a type is its share of time over its part
// of the time received by all jobs there, where a new job counts as having had half a
// round on every type; and jobs without a share take what is left, type by type in the
// order of their submission.
const Throughput = "max-sum-throughput"

// spread gives every claim its share of each column of a mixture.
func (t *table) spread(m mixture, claims []claim) {
	for k := range claims {
		n := t.rowOf[k]
		if n < 0 {
			continue
		}
		c := &claims[k]
		for col, w := range m.weights {
			if w <= 0 {
				continue
			}
			pick := m.columns[col].picks[n]
			for i, on := range pick.on {
				c.time[on] += w * pick.time[i]
			}
		}
		for on := range c.time {
			c.time[on] = math.Round(min(1, c.time[on])*1e5) / 1e5
		}
		copy(c.gain[:], t.rows[n].gain)
	}
}

// throughputBids returns a bid of every job for every type that it can run on, the
// strongest first.
func (r *round) throughputBids() []bid {
	var out []bid
	types := min(len(r.s.Cluster.Types), maxTypes)
	for t := range types {
		all := 0.0
		for k := range r.claims {
			all += r.claims[k].hadOn(t)
		}
		for k := range r.claims {
			c := &r.claims[k]
			if r.chosen[k] < 0 && r.eligible(c) && c.speed[t] > 0 {
				out = append(out, bid{k, -1, t, c.time[t] * all / c.hadOn(t), c.time[t]})
			}
		}
	}
	out = r.sharedBids(out)
	slices.SortStableFunc(out, func(a, b bid) int {
		return cmp.Or(cmp.Compare(b.priority, a.priority), cmp.Compare(b.time, a.time))
	})
	return out
}

// hadOn returns the time that counts as received on a type, in rounds.
func (c *claim) hadOn(t int) float64 { return 0.5 + float64(c.got[t])/parts }
