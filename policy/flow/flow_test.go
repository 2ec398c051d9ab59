// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package flow

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

// reference solves a network by successive shortest paths (Bellman and Ford), and
// returns the lowest cost of sending all supplies to the sink.
func reference(arcs []arc, supply []int) (cost int64) {
	room := make([]int, 2*len(arcs)) // forwards and backwards
	for i, a := range arcs {
		room[2*i] = int(a.room)
	}
	for source := range supply {
		for supply[source] > 0 {
			distance, by := make([]int64, len(supply)), make([]int, len(supply))
			for v := range distance {
				distance[v] = math.MaxInt64 / 4
			}
			distance[source] = 0
			for changed := true; changed; {
				changed = false
				for i := range room {
					from, to, price := arcs[i/2].from, arcs[i/2].to, arcs[i/2].cost
					if i%2 == 1 {
						from, to, price = to, from, -price
					}
					if d := distance[from] + price; room[i] > 0 && distance[from] < math.MaxInt64/4 && d < distance[to] {
						distance[to], by[to], changed = d, i, true
					}
				}
			}
			amount := supply[source]
			walk := func(step func(i int)) {
				for v := int32(Sink); v != int32(source); {
					i := by[v]
					step(i)
					if v = arcs[i/2].from; i%2 == 1 {
						v = arcs[i/2].to
					}
				}
			}
			walk(func(i int) { amount = min(amount, room[i]) })
			walk(func(i int) { room[i], room[i^1] = room[i]-amount, room[i^1]+amount })
			supply[source] -= amount
			cost += int64(amount) * distance[Sink]
		}
	}
	return cost
}

// check solves a network and compares it with the reference.
func check(t *rapid.T, g *Graph) {
	supply := make([]int, len(g.tree)) // what the first flow sends
	for _, a := range g.arcs {
		supply[a.from] += int(a.flow)
		supply[a.to] -= int(a.flow)
	}
	supply[Sink] = 0
	g.Solve()
	balance := append([]int(nil), supply...)
	var cost int64
	for _, a := range g.arcs {
		if a.flow < 0 || a.flow > a.room {
			t.Errorf("arc %+v carries too much", a)
		}
		cost += int64(a.flow) * a.cost
		balance[a.from] -= int(a.flow)
		balance[a.to] += int(a.flow)
	}
	for v := range balance {
		if v != Sink && balance[v] != 0 {
			t.Errorf("node %d keeps %d", v, balance[v])
		}
	}
	if want := reference(g.arcs, supply); cost != want {
		t.Errorf("the flow costs %d; want %d", cost, want)
	}
}

// TestSolveIsOptimal: networks of any shape without cycles, in which every node can
// send everything to the sink, for a price.
func TestSolveIsOptimal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var g Graph
		nodes := rapid.IntRange(2, 8).Draw(t, "nodes")
		for range nodes {
			g.Node()
		}
		for v := int32(1); v < int32(nodes); v++ {
			a := g.Arc(v, Sink, Unlimited, int64(rapid.IntRange(0, 30).Draw(t, "price")))
			g.Send(a, rapid.IntRange(0, 5).Draw(t, "supply"))
			g.Hang(v, a)
		}
		for range rapid.IntRange(0, 16).Draw(t, "arcs") {
			from := rapid.IntRange(1, nodes-1).Draw(t, "from") // to a lower number, so that there are no cycles
			g.Arc(int32(from), int32(rapid.IntRange(0, from-1).Draw(t, "to")), rapid.IntRange(0, 3).Draw(t, "capacity"), int64(rapid.IntRange(-3, 9).Draw(t, "cost")))
		}
		check(t, &g)
	})
}

// TestReroutes: the second unit is only possible by sending the first another
// way.
func TestReroutes(t *testing.T) {
	var g Graph
	z, a, b := g.Node(), g.Node(), g.Node()
	wait := []int32{0, g.Arc(a, z, Unlimited, 9), g.Arc(b, z, Unlimited, 9)}
	for _, v := range []int32{a, b} {
		g.Send(wait[v], 1)
		g.Hang(v, wait[v])
	}
	middle := g.Arc(a, b, 1, 1)
	own, end := g.Arc(a, z, 1, 6), g.Arc(b, z, 1, 1)
	g.Solve()
	if g.Flow(middle) != 0 || g.Flow(own) != 1 || g.Flow(end) != 1 {
		t.Errorf("%d over the middle, %d and %d to the sink; want 0, 1 and 1", g.Flow(middle), g.Flow(own), g.Flow(end))
	}
}
