// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package auction_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/fairway-gpu/fairway/policy/auction"
)

// goods is what a small market sells: an offer and all bundles of it, the first
// of them empty.
type goods struct {
	name    string
	offer   auction.Offer
	bundles [][]auction.Share
	fits    func(smaller, larger int) bool // bundles: the larger contains the smaller
}

// pile is m GPUs of one machine.
func pile(m int) goods {
	g := goods{name: fmt.Sprintf("%d GPUs", m), offer: auction.Offer{Machines: []auction.Machine{{Free: m}}}, bundles: [][]auction.Share{nil}}
	for k := 1; k <= m; k++ {
		g.bundles = append(g.bundles, []auction.Share{{Machine: 0, GPUs: k}})
	}
	g.fits = func(a, b int) bool { return a <= b }
	return g
}

// pair is one GPU in each of two racks, which may be worth different amounts.
func pair() goods {
	return goods{
		name:    "2 racks",
		offer:   auction.Offer{Machines: []auction.Machine{{Rack: "a", Free: 1}, {Rack: "b", Free: 1}}},
		bundles: [][]auction.Share{nil, {{Machine: 0, GPUs: 1}}, {{Machine: 1, GPUs: 1}}, {{Machine: 0, GPUs: 1}, {Machine: 1, GPUs: 1}}},
		fits:    func(a, b int) bool { return a == b || a == 0 || b == 3 },
	}
}

// tables returns every valuation of the bundles on a grid that does not fall
// with more GPUs; nothing is worth what is said.
func (g goods) tables(nothing float64, grid []float64) [][]float64 {
	out := [][]float64{{nothing}}
	for b := 1; b < len(g.bundles); b++ {
		var longer [][]float64
		for _, head := range out {
			for _, v := range grid {
				ok := v >= nothing
				for a := 0; a < b; a++ {
					ok = ok && (!g.fits(a, b) || head[a] <= v)
				}
				if ok {
					longer = append(longer, append(append([]float64(nil), head...), v))
				}
			}
		}
		out = longer
	}
	return out
}

// sale is what one bidder wins and keeps.
type sale struct {
	bundle int
	keep   float64
}

// sell runs the auction with bids of 1/value.
func (g goods) sell(t *testing.T, values [][]float64) []sale {
	bids := make([]auction.Bid, len(values))
	for i, v := range values {
		bids[i].App = fmt.Sprint("app-", i)
		for b, take := range g.bundles {
			bids[i].Rows = append(bids[i].Rows, auction.Row{Take: take, Rho: 1 / v[b]})
		}
	}
	res := mustRun(t, g.offer, bids, auction.Options{Method: auction.Exact})
	if !res.Exact {
		t.Fatal("not exact")
	}
	out := make([]sale, len(values))
	for i, o := range res.Outcomes {
		out[i] = sale{o.Row, o.Keep}
	}
	return out
}

// expected returns the true value of a sale to a bidder, over the chance of its
// rounding.
func (g goods) expected(s sale, v []float64, round auction.Rounding) float64 {
	won := auction.Total(g.bundles[s.bundle])
	part := func(gpus int) float64 { // the machine with the higher number goes first
		for b := range g.bundles {
			if auction.Total(g.bundles[b]) == gpus && g.fits(b, s.bundle) {
				return v[b]
			}
		}
		panic("no such part")
	}
	exactly := s.keep * float64(won)
	floor := math.Floor(exactly + 1e-9)
	switch round {
	case auction.Chance:
		return s.keep*v[s.bundle] + (1-s.keep)*v[0]
	case auction.Mixed:
		more := max(0, exactly-floor)
		return (1-more)*part(int(floor)) + more*part(min(won, int(floor)+1))
	}
	return part(int(floor))
}

// lies is what a count of all profiles of truths and lies finds.
type lies struct {
	cases, gains int // a bidder in a profile; those with a lie that pays
	worst, sum   float64
}

func (l lies) String() string {
	mean := 0.0
	if l.gains > 0 {
		mean = l.sum / float64(l.gains)
	}
	return fmt.Sprintf("%4d of %5d (%4.1f %%), by %3.0f %% on average, %3.0f %% at most",
		l.gains, l.cases, 100*float64(l.gains)/float64(l.cases), 100*mean, 100*l.worst)
}

// tryLies lets the first bidder report every table instead of its own, against
// every profile of the others.
func tryLies(t *testing.T, g goods, all, truths [][]float64, others int) map[auction.Rounding]lies {
	out := map[auction.Rounding]lies{}
	profile := make([][]float64, 1+others)
	var against func(i int)
	against = func(i int) {
		if i <= others {
			for _, v := range all {
				profile[i] = v
				against(i + 1)
			}
			return
		}
		var sales []sale
		for _, report := range all {
			for _, factor := range []float64{1, 1000} { // to lie about nothing is to scale the rest
				profile[0] = []float64{report[0]}
				for _, v := range report[1:] {
					profile[0] = append(profile[0], v*factor)
				}
				sales = append(sales, g.sell(t, profile)[0])
			}
		}
		for _, truth := range truths {
			profile[0] = truth
			honest := g.sell(t, profile)[0]
			for _, round := range []auction.Rounding{auction.Floor, auction.Chance, auction.Mixed} {
				was, best := g.expected(honest, truth, round), 0.0
				for _, s := range sales {
					best = max(best, g.expected(s, truth, round))
				}
				l := out[round]
				l.cases++
				// Relative to having all: nothing may be worth next to nothing.
				if gain := (best - was) / truth[len(truth)-1]; gain > 1e-6 {
					l.gains++
					l.sum += gain
					l.worst = max(l.worst, gain)
				}
				out[round] = l
			}
		}
	}
	against(1)
	return out
}

// linear returns a valuation that grows with the number of GPUs: homogeneous.
func (g goods) linear(nothing, each float64) []float64 {
	out := []float64{nothing}
	for _, b := range g.bundles[1:] {
		out = append(out, each*float64(auction.Total(b)))
	}
	return out
}

// TestTruth counts, over all small markets of a grid, the lies that pay.
//
// Where nothing is worth nothing, a share c of a win is worth c times the win if
// it is a chance of the whole: then no lie pays, whatever the valuations. With
// whole gangs plus a chance of one more the same holds for homogeneous
// valuations. Neither holds if an app that gets nothing still has a finite rho
// (it will get GPUs later), nor with plain rounding down. The limits are what
// was measured: the discrete mechanism is not truthful there, and a change that
// makes it worse is to be noticed.
func TestTruth(t *testing.T) {
	const worthless = 1e-9
	grid := []float64{1, 2, 3, 6}
	for _, c := range []struct {
		goods   goods
		others  int
		nothing float64
		linear  bool
	}{
		{pile(1), 1, worthless, true},
		{pile(2), 1, worthless, true},
		{pile(3), 1, worthless, true},
		{pile(2), 2, worthless, true},
		{pile(3), 2, worthless, true},
		{pile(3), 1, worthless, false},
		{pile(2), 2, worthless, false},
		{pair(), 1, worthless, false},
		{pile(2), 1, 0.5, true},
		{pile(3), 1, 0.5, true},
		{pile(3), 2, 0.5, true},
		{pile(1), 2, 0.5, false},
		{pile(2), 1, 0.5, false},
		{pile(2), 2, 0.5, false},
		{pile(3), 1, 0.5, false},
		{pair(), 1, 0.5, false},
	} {
		g := grid
		if len(c.goods.bundles) > 3 && c.others > 1 {
			g = []float64{1, 2, 3}
		}
		all := c.goods.tables(c.nothing, g)
		truths, kind := all, "any"
		if c.linear {
			truths, kind = [][]float64{c.goods.linear(c.nothing, 1), c.goods.linear(c.nothing, 2)}, "linear"
		}
		found := tryLies(t, c.goods, all, truths, c.others)
		for _, round := range []auction.Rounding{auction.Floor, auction.Chance, auction.Mixed} {
			l := found[round]
			name := fmt.Sprintf("%s, %d bidders, %s valuations, nothing worth %g, %s", c.goods.name, 1+c.others, kind, c.nothing, round)
			t.Logf("%-70s lies pay in %s", name, l)
			truthful := c.nothing == worthless && (round == auction.Chance || round == auction.Mixed && c.linear)
			switch {
			case truthful && l.gains > 0:
				t.Errorf("%s: lies pay in %s; want none", name, l)
			case round == auction.Chance && l.worst > 0.26:
				t.Errorf("%s: lies pay in %s; want at most a quarter of all", name, l)
			}
		}
	}
}

// TestProportionalFair: on homogeneous valuations the choice before payments is
// Pareto efficient, and nobody envies another for more than one GPU; for none at
// all if the GPUs divide evenly.
func TestProportionalFair(t *testing.T) {
	for gpus := 1; gpus <= 8; gpus++ {
		for n := 2; n <= 4; n++ {
			g := pile(gpus)
			values := make([][]float64, n)
			for i := range values {
				values[i] = g.linear(1e-9, float64(1+i*i))
			}
			sales := g.sell(t, values)
			sold := 0
			for i, a := range sales {
				sold += a.bundle
				for j, b := range sales {
					if values[i][a.bundle] < values[i][max(0, b.bundle-1)] {
						t.Errorf("%d GPUs, %d bidders: bidder %d has %d and envies %d its %d", gpus, n, i, a.bundle, j, b.bundle)
					}
				}
				if gpus%n == 0 && a.bundle != gpus/n {
					t.Errorf("%d GPUs, %d bidders: bidder %d has %d; want %d", gpus, n, i, a.bundle, gpus/n)
				}
			}
			if sold != gpus { // every GPU is of use to all: efficient if none is idle
				t.Errorf("%d GPUs, %d bidders: %d are sold", gpus, n, sold)
			}
		}
	}
	// Any valuations: no other division is better for one and worse for none.
	g := pile(3)
	all := g.tables(0.5, []float64{1, 2, 4})
	for _, a := range all {
		for _, b := range all {
			got := g.sell(t, [][]float64{a, b})
			for k := range 4 {
				va, vb := a[got[0].bundle], b[got[1].bundle]
				if a[k] >= va && b[3-k] >= vb && (a[k] > va || b[3-k] > vb) {
					t.Errorf("values %v and %v: %v is worse than %d and %d", a, b, got, k, 3-k)
				}
			}
		}
	}
}
