// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package quincy

import (
	"testing"

	"pgregory.net/rapid"
)

// plainArc is an arc as a test draws it.
type plainArc struct {
	from, to int32
	capacity int
	cost     int64
}

func drawNetwork(t *rapid.T, nodes int) []plainArc {
	arcs := make([]plainArc, rapid.IntRange(1, 8).Draw(t, "arcs"))
	for i := range arcs {
		// Arcs lead forward, so that there are no cycles, of negative cost or other.
		from := rapid.IntRange(0, nodes-2).Draw(t, "from")
		arcs[i] = plainArc{
			from: int32(from), to: int32(rapid.IntRange(from+1, nodes-1).Draw(t, "to")),
			capacity: rapid.IntRange(0, 2).Draw(t, "capacity"), cost: int64(rapid.IntRange(-3, 9).Draw(t, "cost")),
		}
	}
	return arcs
}

// bruteForce tries every flow on every arc, and returns the largest total with
// its lowest cost.
func bruteForce(arcs []plainArc, nodes int) (flow int, cost int64) {
	balance := make([]int, nodes) // out minus in
	var try func(i int, spent int64)
	try = func(i int, spent int64) {
		if i == len(arcs) {
			for v := 1; v < nodes-1; v++ {
				if balance[v] != 0 {
					return
				}
			}
			if balance[0] > flow || (balance[0] == flow && spent < cost) {
				flow, cost = balance[0], spent
			}
			return
		}
		a := arcs[i]
		for k := 0; k <= a.capacity; k++ {
			balance[a.from] += k
			balance[a.to] -= k
			try(i+1, spent+int64(k)*a.cost)
			balance[a.from] -= k
			balance[a.to] += k
		}
	}
	try(0, 0)
	return flow, cost
}

// TestSolveIsOptimal compares the solver with trying everything. Costs that are
// negative make idle cycles impossible here, since the networks have no cycles.
func TestSolveIsOptimal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		nodes := rapid.IntRange(2, 6).Draw(t, "nodes")
		arcs := drawNetwork(t, nodes)
		var g graph
		for range nodes {
			g.node()
		}
		var ids []int32
		for _, a := range arcs {
			ids = append(ids, g.arc(a.from, a.to, a.capacity, a.cost))
		}
		flow, cost := g.solve(0, int32(nodes-1))
		wantFlow, wantCost := bruteForce(arcs, nodes)
		if flow != wantFlow || cost != wantCost {
			t.Fatalf("flow %d for %d; want %d for %d", flow, cost, wantFlow, wantCost)
		}
		var sum int64
		balance := make([]int, nodes)
		for i, a := range arcs {
			k := g.flow(ids[i])
			if k < 0 || k > a.capacity {
				t.Errorf("arc %+v carries %d", a, k)
			}
			sum += int64(k) * a.cost
			balance[a.from] += k
			balance[a.to] -= k
		}
		if sum != cost || balance[0] != flow {
			t.Errorf("the arcs carry %d for %d; the answer was %d for %d", balance[0], sum, flow, cost)
		}
		for v := 1; v < nodes-1; v++ {
			if balance[v] != 0 {
				t.Errorf("node %d keeps %d", v, balance[v])
			}
		}
	})
}

// TestReroutes: the second unit is only possible by sending the first another
// way.
func TestReroutes(t *testing.T) {
	var g graph
	s, a, b, z := g.node(), g.node(), g.node(), g.node()
	g.arc(s, a, 1, 1)
	g.arc(s, b, 1, 5)
	middle := g.arc(a, b, 1, 1)
	g.arc(a, z, 1, 6)
	g.arc(b, z, 1, 1)
	if flow, cost := g.solve(s, z); flow != 2 || cost != 13 || g.flow(middle) != 0 {
		t.Errorf("flow %d for %d, %d over the middle; want 2 for 13, and none", flow, cost, g.flow(middle))
	}
}
