// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package auction_test

import (
	"fmt"
	"math"
	"slices"

	"pgregory.net/rapid"

	"github.com/fairway-gpu/fairway/policy/auction"
)

// variants returns every set of machines that a row may be served with, by
// definition: parts on machines that are named stay, others go to any machines
// that are alike, each to another.
func variants(o auction.Offer, b auction.Bid, row auction.Row) [][]auction.Share {
	out := [][]auction.Share{nil}
	for _, s := range row.Take {
		var longer [][]auction.Share
		for _, head := range out {
			for m, machine := range o.Machines {
				home := o.Machines[s.Machine]
				alike := machine.Rack == home.Rack && machine.Type == home.Type && machine.Kind == home.Kind
				named := row.Pinned || slices.ContainsFunc(b.Holds, func(h auction.Share) bool { return h.Machine == s.Machine && h.GPUs > 0 })
				taken := slices.ContainsFunc(head, func(h auction.Share) bool { return h.Machine == m })
				if machine.Free < s.GPUs || taken || !alike || named && m != s.Machine {
					continue
				}
				longer = append(longer, append(slices.Clone(head), auction.Share{Machine: m, GPUs: s.GPUs}))
			}
		}
		out = longer
	}
	return out
}

// bruteForce returns the largest sum of log(rho now/rho then) over all choices
// of one row per bid that fit, leaving one bid out (-1: none).
func bruteForce(o auction.Offer, bids []auction.Bid, without int) float64 {
	free := make([]int, len(o.Machines))
	for m, machine := range o.Machines {
		free[m] = machine.Free
	}
	all := make([][][][]auction.Share, len(bids))
	for i, b := range bids {
		for _, row := range b.Rows {
			all[i] = append(all[i], variants(o, b, row))
		}
	}
	var best func(i int) float64
	best = func(i int) float64 {
		if i == len(bids) {
			return 0
		}
		if i == without {
			return best(i + 1)
		}
		top := math.Inf(-1)
		for r, row := range bids[i].Rows {
			for _, take := range all[i][r] {
				if !slices.ContainsFunc(take, func(s auction.Share) bool { return free[s.Machine] < s.GPUs }) {
					for _, s := range take {
						free[s.Machine] -= s.GPUs
					}
					top = max(top, math.Log(present(bids[i])/row.Rho)+best(i+1))
					for _, s := range take {
						free[s.Machine] += s.GPUs
					}
				}
			}
		}
		return top
	}
	return best(0)
}

func present(b auction.Bid) float64 {
	for _, row := range b.Rows {
		if len(row.Take) == 0 {
			return row.Rho
		}
	}
	panic("no present row")
}

// drawMarket draws a small offer and bids that pass the checks.
func drawMarket(t *rapid.T, machines, bidders, rows int) (auction.Offer, []auction.Bid) {
	var o auction.Offer
	for range rapid.IntRange(1, machines).Draw(t, "machines") {
		o.Machines = append(o.Machines, auction.Machine{
			Rack: rapid.SampledFrom([]string{"r0", "r1"}).Draw(t, "rack"),
			Free: rapid.IntRange(0, 4).Draw(t, "free"),
		})
	}
	bids := make([]auction.Bid, rapid.IntRange(1, bidders).Draw(t, "bidders"))
	for i := range bids {
		b := &bids[i]
		b.App = fmt.Sprintf("app-%d", i)
		b.Rows = []auction.Row{{Rho: drawRho(t)}}
		if rapid.Bool().Draw(t, "holds") {
			b.Holds = []auction.Share{{Machine: rapid.IntRange(0, len(o.Machines)-1).Draw(t, "held"), GPUs: 1}}
		}
		for range rapid.IntRange(0, rows).Draw(t, "rows") {
			row := auction.Row{Rho: drawRho(t), Pinned: rapid.IntRange(0, 4).Draw(t, "pinned") == 0}
			for m, machine := range o.Machines {
				if k := rapid.IntRange(-2, machine.Free).Draw(t, "take"); k > 0 {
					row.Take = append(row.Take, auction.Share{Machine: m, GPUs: k})
				}
			}
			if len(row.Take) > 0 {
				b.Rows = append(b.Rows, row)
			}
		}
	}
	return o, bids
}

func drawRho(t *rapid.T) float64 { return float64(rapid.IntRange(1, 40).Draw(t, "rho")) / 8 }
