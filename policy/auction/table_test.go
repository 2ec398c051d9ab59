// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package auction_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/fairway-gpu/fairway/policy/auction"
)

// spread is a rho that falls with GPUs and rises with machines and racks.
func spread(o auction.Offer) func([]auction.Share) float64 {
	return func(have []auction.Share) float64 {
		racks := map[string]bool{}
		for _, s := range have {
			racks[o.Machines[s.Machine].Rack] = true
		}
		return (100 + float64(len(have)) + 10*float64(len(racks))) / (1 + float64(auction.Total(have)))
	}
}

func TestTable(t *testing.T) {
	o := auction.Offer{Machines: []auction.Machine{
		{Rack: "a", Free: 4}, {Rack: "a", Free: 2, Type: "old"}, {Rack: "b", Free: 3}, {Rack: "b", Free: 3}, {Rack: "c", Free: 0},
	}}
	for _, c := range []struct {
		name string
		want auction.Want
		rows []string
	}{
		{"nothing", auction.Want{}, []string{"[]"}},
		{"best fit, and another rack", auction.Want{GPUs: 2}, []string{"[]", "[{1 1}]", "[{2 1}]", "[{1 2}]"}},
		{"at home, and the best fit", auction.Want{GPUs: 2, Holds: take(2, 1)}, []string{"[]", "[{2 1}]", "[{1 1}]", "[{2 2}]", "[{1 2}]"}},
		{"gangs, one rack against fewest", auction.Want{Gang: 6, GPUs: 6}, []string{"[]", "[{2 3} {3 3}]", "[{0 4} {1 2}]"}},
		{"tasks of two", auction.Want{Gang: 4, Task: 2, GPUs: 4}, []string{"[]", "[{0 4}]"}},
		{"not on old ones", auction.Want{GPUs: 1, Usable: func(m auction.Machine) bool { return m.Type != "old" }}, []string{"[]", "[{2 1}]"}},
		{"more than there is", auction.Want{Gang: 12, GPUs: 24}, []string{"[]", "[{0 4} {1 2} {2 3} {3 3}]"}},
	} {
		var got []string
		for _, row := range auction.NewMaker(o.Machines).Table(o, c.want, spread(o)) {
			if row.Take == nil {
				row.Take = []auction.Share{}
			}
			got = append(got, fmt.Sprint(row.Take))
		}
		if diff := cmp.Diff(c.rows, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}

// TestTableIsGood: a table passes the checks, has at most four rows for each
// number of gangs, and beside the present only rows that are better.
func TestTableIsGood(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o, _ := drawMarket(t, 8, 1, 0)
		task := rapid.IntRange(1, 2).Draw(t, "task")
		w := auction.Want{
			App: "a", Task: task, Gang: task * rapid.IntRange(1, 3).Draw(t, "gang"), GPUs: rapid.IntRange(0, 20).Draw(t, "gpus"),
			Turn: rapid.Uint64().Draw(t, "turn"),
		}
		for range rapid.IntRange(0, 2).Draw(t, "held") {
			w.Holds = append(w.Holds, auction.Share{Machine: rapid.IntRange(0, len(o.Machines)-1).Draw(t, "machine"), GPUs: 1})
		}
		bid := auction.Bid{App: "a", Gang: w.Gang, Task: w.Task, Holds: w.Holds, Rows: auction.NewMaker(o.Machines).Table(o, w, spread(o))}
		if good, refused := auction.Check(o, []auction.Bid{bid}, 0); len(good) != 1 {
			t.Fatalf("refused: %v", refused)
		}
		count := map[int]int{}
		for _, row := range bid.Rows[1:] {
			n := auction.Total(row.Take)
			if count[n]++; count[n] > 4 || n > w.GPUs || row.Rho >= bid.Rows[0].Rho {
				t.Fatalf("row %v: the %d. of its size; at most %d GPUs wanted; rho now %g", row, count[n], w.GPUs, bid.Rows[0].Rho)
			}
		}
	})
}

func TestPlaceLeftovers(t *testing.T) {
	o := twoRacks()
	rng := func() *rand.Rand { return rand.New(rand.NewPCG(1, 9)) }
	for _, c := range []struct {
		name            string
		others, bidders []auction.Want
		want            []auction.Grant
	}{
		{"nobody", nil, nil, nil},
		{"the app on the machine first", []auction.Want{{App: "a", GPUs: 4}, {App: "b", GPUs: 4, Holds: take(0, 1)}}, nil,
			[]auction.Grant{{App: "a", Take: take(1, 4)}, {App: "b", Take: take(0, 4)}}},
		{"then the app in the rack", []auction.Want{{App: "a", GPUs: 4}, {App: "b", GPUs: 4, Holds: take(3, 1)}}, nil,
			[]auction.Grant{{App: "a", Take: take(0, 4)}, {App: "b", Take: take(2, 4)}}},
		{"bidders only get what is left", []auction.Want{{App: "z", GPUs: 10}}, []auction.Want{{App: "a", GPUs: 10, Holds: take(0, 9)}},
			[]auction.Grant{{App: "z", Take: take(0, 4, 1, 4, 2, 2)}, {App: "a", Take: take(2, 2)}}},
		{"whole gangs", []auction.Want{{App: "a", Gang: 3, GPUs: 8}}, nil,
			[]auction.Grant{{App: "a", Take: take(0, 3, 1, 3)}}},
		{"a gang over two machines of a rack", []auction.Want{{App: "a", Gang: 8, GPUs: 8}}, nil,
			[]auction.Grant{{App: "a", Take: take(0, 4, 1, 4)}}},
		{"nothing of use", []auction.Want{{App: "a", GPUs: 4, Usable: func(m auction.Machine) bool { return m.Rack == "x" }}}, nil, nil},
	} {
		got := auction.PlaceLeftovers(o, c.others, c.bidders, rng())
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
	if diff := cmp.Diff(twoRacks(), o); diff != "" {
		t.Errorf("the offer was changed (-want +got):\n%s", diff)
	}
}

// TestLeftoversByLot: which of several equal apps gets a gang depends on the
// seed, not on the order of the apps.
func TestLeftoversByLot(t *testing.T) {
	o := auction.Offer{Machines: []auction.Machine{{Free: 1}}}
	wants := []auction.Want{{App: "a", GPUs: 1}, {App: "b", GPUs: 1}}
	turned := []auction.Want{wants[1], wants[0]}
	count := map[string]int{}
	for seed := range uint64(100) {
		got := auction.PlaceLeftovers(o, wants, nil, rand.New(rand.NewPCG(seed, 0)))
		again := auction.PlaceLeftovers(o, turned, nil, rand.New(rand.NewPCG(seed, 0)))
		if diff := cmp.Diff(got, again); diff != "" {
			t.Fatalf("seed %d: the order matters (-first +turned):\n%s", seed, diff)
		}
		count[got[0].App]++
	}
	if count["a"] < 30 || count["b"] < 30 {
		t.Errorf("of 100 lots: %v; want about half each", count)
	}
}
