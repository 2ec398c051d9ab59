// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package auction_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fairway-gpu/fairway/policy/auction"
)

// take makes shares of machine, number, machine, number, ...
func take(pairs ...int) []auction.Share {
	var out []auction.Share
	for i := 0; i < len(pairs); i += 2 {
		out = append(out, auction.Share{Machine: pairs[i], GPUs: pairs[i+1]})
	}
	return out
}

func twoRacks() auction.Offer {
	return auction.Offer{Machines: []auction.Machine{
		{Rack: "a", Free: 4}, {Rack: "a", Free: 4}, {Rack: "b", Free: 4}, {Rack: "b", Free: 0},
	}}
}

// TestAlone: one bidder gets everything that is of use to it and pays nothing.
func TestAlone(t *testing.T) {
	bid := auction.Bid{App: "only", Rows: []auction.Row{
		{Rho: 8}, {Take: take(0, 4), Rho: 2}, {Take: take(0, 4, 1, 4), Rho: 1}, {Take: take(0, 4, 1, 4, 2, 4), Rho: 1},
	}}
	for _, method := range []auction.Method{auction.Exact, auction.Greedy} {
		res := mustRun(t, twoRacks(), []auction.Bid{bid}, auction.Options{Method: method})
		out := res.Outcomes[0]
		if out.Row != 2 || out.Keep != 1 || out.Dropped != 1 || !res.Exact {
			t.Errorf("method %d: row %d, keep %g, dropped %d, exact %t; want row 2, keep 1, one dropped, exact", method, out.Row, out.Keep, out.Dropped, res.Exact)
		}
		if diff := cmp.Diff(take(0, 4, 1, 4), out.Got); diff != "" {
			t.Errorf("method %d: got (-want +got):\n%s", method, diff)
		}
		if diff := cmp.Diff(take(2, 4), res.Unsold); diff != "" || res.Withheld != nil {
			t.Errorf("method %d: withheld %v; unsold (-want +got):\n%s", method, res.Withheld, diff)
		}
	}
}

// TestPayment is an auction by hand. Two apps want the 4 GPUs of one machine,
// with rho 4, 3, 1.5, 1.2 and 1 for 0 to 4 of them: two each is best, 1.5 x 1.5.
// Without the other an app has all and 1: each keeps 1/1.5 of its two GPUs.
func TestPayment(t *testing.T) {
	offer := auction.Offer{Machines: []auction.Machine{{Free: 4}}}
	rows := []auction.Row{{Rho: 4}, {Take: take(0, 1), Rho: 3}, {Take: take(0, 2), Rho: 1.5}, {Take: take(0, 3), Rho: 1.2}, {Take: take(0, 4), Rho: 1}}
	bids := []auction.Bid{{App: "b", Rows: rows}, {App: "a", Rows: rows}}
	for _, c := range []struct {
		round auction.Rounding
		gpus  float64 // expected
	}{{auction.Floor, 1}, {auction.Chance, 4.0 / 3}, {auction.Mixed, 4.0 / 3}} {
		rng := rand.New(rand.NewPCG(3, 4))
		const n = 2000
		sum := 0
		for range n {
			res, err := auction.Run(offer, bids, auction.Options{Rounding: c.round}, rng)
			if err != nil {
				t.Fatal(err)
			}
			for i, out := range res.Outcomes {
				if out.App != []string{"a", "b"}[i] || out.Row != 2 || math.Abs(out.Keep-2.0/3) > tiny {
					t.Fatalf("outcome %d: %+v; want app a, then b, row 2, keep 2/3", i, out)
				}
			}
			sum += auction.Total(res.Outcomes[0].Got)
		}
		if got := float64(sum) / n; math.Abs(got-c.gpus) > 0.05 {
			t.Errorf("%s: %g GPUs on average; want %g", c.round, got, c.gpus)
		}
	}
}

// TestTrim: what is paid comes off the worst-located machine.
func TestTrim(t *testing.T) {
	rows := func(all []auction.Share) []auction.Row {
		return []auction.Row{{Rho: 9}, {Take: all, Rho: 1, Pinned: true}}
	}
	for _, c := range []struct {
		name  string
		holds []auction.Share
		take  []auction.Share
		want  []auction.Share
	}{
		{"another rack", nil, take(0, 3, 1, 3, 2, 2), take(0, 3, 1, 1)},
		{"fewer GPUs", nil, take(0, 4, 1, 2, 2, 2), take(0, 4)},
		{"where it is at home", take(3, 8), take(0, 4, 2, 4), take(2, 4)},
		{"alike: the last", nil, take(0, 4, 1, 4), take(0, 4)},
	} {
		// The app stands in the way of a rival so that it keeps 1/1.9 of its GPUs.
		rival := auction.Bid{App: "rival", Rows: []auction.Row{{Rho: 1}, {Take: take(c.take[0].Machine, 4), Rho: 1 / 1.9, Pinned: true}}}
		app := auction.Bid{App: "app", Gang: 4, Holds: c.holds, Rows: rows(c.take)}
		res := mustRun(t, twoRacks(), []auction.Bid{app, rival}, auction.Options{})
		if diff := cmp.Diff(c.want, res.Outcomes[0].Got); diff != "" {
			t.Errorf("%s: keep %g (-want +got):\n%s", c.name, res.Outcomes[0].Keep, diff)
		}
	}
}

// TestAlike: apps that bid for the same machine get others like it, unless it
// is the one that they mean.
func TestAlike(t *testing.T) {
	rows := []auction.Row{{Rho: 4}, {Take: take(0, 4), Rho: 1}}
	bids := []auction.Bid{{App: "a", Rows: rows}, {App: "b", Rows: rows}, {App: "c", Rows: rows}, {App: "d", Rows: rows, Holds: take(0, 2)}}
	for _, method := range []auction.Method{auction.Exact, auction.Greedy} {
		res := mustRun(t, twoRacks(), bids, auction.Options{Method: method})
		winners := 0
		for _, out := range res.Outcomes {
			if out.Row == 0 {
				continue
			}
			winners++
			if m := out.Take[0].Machine; out.App == "d" && m != 0 || m > 1 {
				t.Errorf("method %d: app %s has machine %d", method, out.App, m)
			}
		}
		if winners != 2 {
			t.Errorf("method %d: %d winners; want 2, one for each machine of rack a", method, winners)
		}
	}
}

// TestNodeLimit: a search that is cut short says so and is no worse than greedy.
func TestNodeLimit(t *testing.T) {
	o, bids := market(rand.New(rand.NewPCG(5, 5)), 8, 10, 8)
	greedy := mustRun(t, o, bids, auction.Options{Method: auction.Greedy})
	cut := mustRun(t, o, bids, auction.Options{Method: auction.Exact, Nodes: 50})
	full := mustRun(t, o, bids, auction.Options{Method: auction.Exact, Nodes: 200_000})
	if cut.Proven || cut.Exact || cut.Log < greedy.Log-tiny || full.Log < cut.Log-tiny {
		t.Errorf("cut: proven %t, exact %t, log %g; greedy %g, full %g", cut.Proven, cut.Exact, cut.Log, greedy.Log, full.Log)
	}
}

func TestRunRefuses(t *testing.T) {
	if _, err := auction.Run(auction.Offer{}, nil, auction.Options{Rounding: auction.Chance}, nil); err == nil {
		t.Error("chance without randomness: no error")
	}
	if _, err := auction.Run(auction.Offer{Machines: []auction.Machine{{Free: -1}}}, nil, auction.Options{}, nil); err == nil {
		t.Error("negative offer: no error")
	}
	res := mustRun(t, twoRacks(), nil, auction.Options{})
	if auction.Total(res.Unsold) != 12 || len(res.Outcomes) != 0 || !res.Exact {
		t.Errorf("no bids: %+v", res)
	}
}

// TestStays: apps that bid for what they had get it, not another machine like
// it, whatever the order of their names.
func TestStays(t *testing.T) {
	o := auction.Offer{Machines: []auction.Machine{{Free: 4}, {Free: 4}, {Free: 4}, {Free: 4}}}
	bid := func(app string, machines ...int) auction.Bid {
		return auction.Bid{App: app, Rows: []auction.Row{{Rho: 4}, {Take: take(machines...), Rho: 1}}}
	}
	bids := []auction.Bid{bid("a", 3, 4), bid("b", 1, 2, 2, 2), bid("c", 1, 2, 2, 2), bid("d", 0, 4)}
	for _, method := range []auction.Method{auction.Exact, auction.Greedy} {
		for i, out := range mustRun(t, o, bids, auction.Options{Method: method}).Outcomes {
			if diff := cmp.Diff(bids[i].Rows[1].Take, out.Take); diff != "" {
				t.Errorf("method %d: app %s moves (-named +given):\n%s", method, out.App, diff)
			}
		}
	}
}
