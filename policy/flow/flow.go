// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Package flow finds flows of the least cost, for policies that weigh all jobs and all
// places against each other.
package flow

import (
	"fmt"
	"math"
)

// Graph is a network in which all flow ends in the sink, with capacities and costs.
//
// Solve finds the cheapest flow by the network simplex method. It starts from a flow
// that is possible, such as what runs now, so its effort grows with what has to change.
// Flow that is neither 0 nor at its capacity is on the arcs of a tree with the sink
// as its root. The tree is strongly feasible: every node could send a little more to
// the root over it. The choice of the arc that leaves the tree maintains that, and so
// no sequence of steps repeats.
type Graph struct {
	arcs []arc
	tree []branch // by node
	// Of the search for an improvement: where it continues, and what it has found.
	next  int32
	found []int32
}

// Sink is the number of the sink.
const Sink = 0

// Unlimited is a capacity that no flow reaches.
const Unlimited = math.MaxInt32

type arc struct {
	cost     int64
	from, to int32
	room     int32 // capacity
	flow     int32
	state    int8
}

// The states of an arc: the sign of the change that it allows outside the tree.
const (
	empty = 1
	fixed = 0 // in the tree, or without capacity
	full  = -1
)

// branch is the place of a node in the tree.
type branch struct {
	potential   int64 // of the node; an arc costs the difference of its ends, if it is in the tree
	parent, arc int32
	child       int32 // the first; none: -1
	left, right int32 // siblings
	size        int32 // number of nodes of the branch
}

// Node adds a node and returns its number. The first one is the sink.
func (g *Graph) Node() int32 {
	g.tree = append(g.tree, branch{parent: -1, arc: -1, child: -1, left: -1, right: -1})
	return int32(len(g.tree) - 1)
}

// Arc adds an arc and returns its number.
func (g *Graph) Arc(from, to int32, capacity int, cost int64) int32 {
	g.arcs = append(g.arcs, arc{cost: cost, from: from, to: to, room: int32(capacity), state: int8(min(capacity, empty))})
	return int32(len(g.arcs) - 1)
}

// Send puts the first flow on an arc: nothing, all that it can take, or, if it hangs,
// anything between.
func (g *Graph) Send(a int32, flow int) {
	x := &g.arcs[a]
	if x.flow = int32(flow); flow > 0 && x.flow == x.room {
		x.state = full
	}
}

// Hang puts an arc of the node into the first tree. If it leads away from the node,
// it must have room for more; if it leads to the node, there must be flow on it.
func (g *Graph) Hang(node, a int32) {
	x := &g.arcs[a]
	x.state = fixed
	g.tree[node].arc = a
	g.link(node, x.from+x.to-node)
}

// Flow returns what flows over an arc.
func (g *Graph) Flow(a int32) int { return int(g.arcs[a].flow) }

// Solve makes the flow as cheap as possible. Every node but the sink must hang.
func (g *Graph) Solve() {
	for i, a := range g.arcs {
		if a.state == empty && a.flow != 0 {
			panic(fmt.Sprintf("flow: arc %d has %d of %d units, and is not in the first tree", i, a.flow, a.room))
		}
	}
	for v := int32(1); v < int32(len(g.tree)); v++ {
		if g.tree[v].arc < 0 || g.spare(v, g.up(v)) == 0 {
			panic(fmt.Sprintf("flow: node %d cannot send anything over the first tree", v))
		}
	}
	g.settle()
	for {
		in := g.entering()
		if in < 0 {
			return
		}
		g.pivot(in)
	}
}

// up reports whether the tree's arc of a node leads to its parent.
func (g *Graph) up(node int32) bool { return g.arcs[g.tree[node].arc].from == node }

// entering returns an arc on which another flow is cheaper; -1: none. It is the best of
// some that the last search through all arcs has found.
func (g *Graph) entering() int32 {
	best := g.best()
	for left := len(g.arcs); best < 0 && left > 0; best = g.best() {
		for part := min(left, max(16, len(g.arcs)/8)); part > 0 && len(g.found) < maxFound; {
			n := g.look(min(part, len(g.arcs)-int(g.next)))
			part -= n
			left -= n
			if g.next += int32(n); int(g.next) == len(g.arcs) {
				g.next = 0
			}
		}
	}
	return best
}

// look adds those of the next n arcs to found that have a gain, and returns how many it
// has looked at: it stops when enough are found.
func (g *Graph) look(n int) int {
	tree := g.tree
	for i, a := range g.arcs[g.next : int(g.next)+n] {
		if int64(a.state)*(tree[a.to].potential-tree[a.from].potential-a.cost) <= 0 {
			continue
		}
		if g.found = append(g.found, g.next+int32(i)); len(g.found) == maxFound {
			return i + 1
		}
	}
	return n
}

// maxFound bounds the arcs that a search returns.
const maxFound = 64

// gain returns by how much a unit more or less on an arc lowers the cost.
func (g *Graph) gain(arc int32) int64 {
	a := &g.arcs[arc]
	return int64(a.state) * (g.tree[a.to].potential - g.tree[a.from].potential - a.cost)
}

// best returns the arc with the largest gain of those found, and drops the ones that
// have none any more.
func (g *Graph) best() int32 {
	best, most, kept := int32(-1), int64(0), g.found[:0]
	for _, a := range g.found {
		if gain := g.gain(a); gain > 0 {
			kept = append(kept, a)
			if gain > most {
				best, most = a, gain
			}
		}
	}
	g.found = kept
	return best
}

// pivot sends as much as possible over an arc and back over the tree. The arc takes
// the place of the one in the tree that allows no more.
func (g *Graph) pivot(in int32) {
	x := &g.arcs[in]
	first, second := x.from, x.to // flow grows from first to second
	if x.state == full {
		first, second = second, first
	}
	join := g.join(first, second)
	most, out, below := x.room, int32(-1), first
	for u := first; u != join; u = g.tree[u].parent {
		if d := g.spare(u, !g.up(u)); d < most {
			most, out = d, u
		}
	}
	for u := second; u != join; u = g.tree[u].parent {
		if d := g.spare(u, g.up(u)); d <= most {
			most, out, below = d, u, second
		}
	}
	if most > 0 {
		x.flow += int32(x.state) * most
		g.change(first, join, -most)
		g.change(second, join, most)
	}
	if out < 0 {
		x.state = -x.state
		return
	}
	leaving := &g.arcs[g.tree[out].arc]
	if leaving.state = full; leaving.flow == 0 {
		leaving.state = empty
	}
	x.state = fixed
	g.rehang(below, in, out, join)
}

// join returns the node where the ways of two nodes to the root meet.
func (g *Graph) join(u, v int32) int32 {
	for u != v {
		if g.tree[u].size > g.tree[v].size {
			u, v = v, u
		}
		u = g.tree[u].parent
	}
	return u
}

// spare returns by how much the flow on the tree's arc of a node can grow, or
// shrink.
func (g *Graph) spare(node int32, grow bool) int32 {
	a := &g.arcs[g.tree[node].arc]
	switch {
	case !grow:
		return a.flow
	case a.room == Unlimited:
		return Unlimited
	}
	return a.room - a.flow
}

// change adds flow on the way up from a node.
func (g *Graph) change(node, until int32, flow int32) {
	for u := node; u != until; u = g.tree[u].parent {
		if a := &g.arcs[g.tree[u].arc]; a.from == u {
			a.flow += flow
		} else {
			a.flow -= flow
		}
	}
}

// rehang cuts the branch at out off the tree and hangs it up again by an arc of a node
// that is part of it.
func (g *Graph) rehang(node, by, out, join int32) {
	root, moved := node, g.tree[out].size
	parent := g.arcs[by].from + g.arcs[by].to - node
	for u := g.tree[out].parent; u != join; u = g.tree[u].parent {
		g.tree[u].size -= moved
	}
	for u := parent; u != join; u = g.tree[u].parent {
		g.tree[u].size += moved
	}
	for below := int32(0); ; {
		b := &g.tree[node]
		above, arc := b.parent, b.arc
		g.unlink(node)
		b.arc = by
		g.link(node, parent)
		b.size, below = moved-below, b.size
		if node == out {
			break
		}
		parent, node, by = node, above, arc
	}
	// Only differences of potentials count: the smaller part changes.
	shift := g.level(root) - g.tree[root].potential
	if 2*int(moved) <= len(g.tree) {
		g.visit(root, -1, func(u int32) { g.tree[u].potential += shift })
	} else {
		g.visit(Sink, root, func(u int32) { g.tree[u].potential -= shift })
	}
}

// level returns the potential that a node has by its arc in the tree.
func (g *Graph) level(node int32) int64 {
	a, p := &g.arcs[g.tree[node].arc], g.tree[g.tree[node].parent].potential
	if a.from == node {
		return p - a.cost
	}
	return p + a.cost
}

func (g *Graph) link(node, parent int32) {
	b, p := &g.tree[node], &g.tree[parent]
	b.parent, b.left, b.right = parent, -1, p.child
	if p.child >= 0 {
		g.tree[p.child].left = node
	}
	p.child = node
}

func (g *Graph) unlink(node int32) {
	b := &g.tree[node]
	if b.left >= 0 {
		g.tree[b.left].right = b.right
	} else {
		g.tree[b.parent].child = b.right
	}
	if b.right >= 0 {
		g.tree[b.right].left = b.left
	}
}

// settle computes the potentials and sizes of the first tree.
func (g *Graph) settle() {
	order := make([]int32, 0, len(g.tree))
	g.visit(Sink, -1, func(u int32) {
		if u != Sink {
			g.tree[u].potential = g.level(u)
		}
		g.tree[u].size = 1
		order = append(order, u)
	})
	for i := len(order) - 1; i > 0; i-- {
		b := &g.tree[order[i]]
		g.tree[b.parent].size += b.size
	}
}

// visit calls do for a node and all below it, parents first, except the branch of
// another one.
func (g *Graph) visit(root, except int32, do func(int32)) {
	for u := root; ; {
		if u != except {
			do(u)
			if child := g.tree[u].child; child >= 0 {
				u = child
				continue
			}
		}
		for u != root && g.tree[u].right < 0 {
			u = g.tree[u].parent
		}
		if u == root {
			return
		}
		u = g.tree[u].right
	}
}
