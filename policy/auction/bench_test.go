// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package auction_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/fairway-gpu/fairway/policy/auction"
)

// market makes an offer of machines with up to 8 GPUs free, four to a rack, and
// bids made by Table: jobs of several sizes with several prices of distance.
func market(rng *rand.Rand, machines, bidders, demand int) (auction.Offer, []auction.Bid) {
	return fullMarket(rng, size{machines, bidders, demand, 4, 1})
}

type size struct{ machines, bidders, demand, perRack, least int }

func fullMarket(rng *rand.Rand, z size) (auction.Offer, []auction.Bid) {
	var o auction.Offer
	for m := range z.machines {
		o.Machines = append(o.Machines, auction.Machine{Rack: fmt.Sprint("r", m/z.perRack), Free: z.least + rng.IntN(9-z.least)})
	}
	bids := make([]auction.Bid, z.bidders)
	for i := range bids {
		gang := []int{1, 1, 2, 4}[rng.IntN(4)]
		w := auction.Want{App: fmt.Sprintf("app-%04d", i), Gang: gang, GPUs: gang * (1 + rng.IntN(max(1, z.demand))), Turn: rng.Uint64()}
		if rng.IntN(2) == 0 {
			w.Holds = []auction.Share{{Machine: rng.IntN(z.machines), GPUs: gang}}
		}
		work, price := 1+99*rng.Float64(), 0.4*rng.Float64()
		rows := auction.NewMaker(o.Machines).Table(o, w, func(have []auction.Share) float64 {
			gpus := auction.Total(have)
			if gpus == 0 {
				return 20 * work
			}
			spread := 1.0
			for _, s := range have[1:] {
				spread = max(spread, 1+price)
				if o.Machines[s.Machine].Rack != o.Machines[have[0].Machine].Rack {
					spread = 1 + 2*price
				}
			}
			return 1 + 10*work*spread/math.Pow(float64(gpus), 0.9)
		})
		bids[i] = auction.Bid{App: w.App, Gang: gang, Holds: w.Holds, Rows: rows}
	}
	return o, bids
}

func BenchmarkRun(b *testing.B) {
	for _, c := range []struct {
		name string
		size size
	}{
		{"10x64", size{8, 10, 16, 4, 8}},
		{"100x1000", size{125, 100, 32, 16, 8}},
		{"100x1000/one-rack", size{125, 100, 32, 125, 8}},
		{"200x10000", size{1250, 200, 64, 32, 8}},
		{"200x10000/one-rack", size{1250, 200, 64, 1250, 8}},
		{"200x10000/scarce", size{1250, 200, 256, 32, 8}},
	} {
		o, bids := fullMarket(rand.New(rand.NewPCG(1, 1)), c.size)
		rows := 0
		for _, bid := range bids {
			rows += len(bid.Rows)
		}
		b.Run(c.name, func(b *testing.B) {
			var res auction.Result
			for b.Loop() {
				res = mustRun(b, o, bids, auction.Options{})
			}
			b.ReportMetric(float64(rows), "rows")
			b.ReportMetric(100*(1-math.Exp((res.Log-res.Bound)/float64(len(bids)))), "%gap/bidder")
			b.ReportMetric(float64(auction.Total(res.Unsold)), "unsold")
			b.ReportMetric(float64(auction.Total(res.Withheld)), "withheld")
		})
	}
}

func BenchmarkTable(b *testing.B) {
	o, _ := fullMarket(rand.New(rand.NewPCG(1, 1)), size{1250, 1, 1, 32, 8})
	w := auction.Want{App: "a", GPUs: 64, Holds: []auction.Share{{Machine: 3, GPUs: 1}}}
	for b.Loop() {
		auction.NewMaker(o.Machines).Table(o, w, func(have []auction.Share) float64 { return 100 / float64(1+auction.Total(have)) })
	}
}
