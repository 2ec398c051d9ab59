// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package quincy

import "math"

// graph is a network with capacities and costs. Arc a leads to to[a]; a^1 is the
// same arc backwards, with the capacity that flow has used up.
type graph struct {
	first []int32 // by node: its first arc; -1: none
	next  []int32 // by arc: the next one of its node
	to    []int32
	room  []int // capacity that is left
	cost  []int64

	// Of a solution in progress, by node.
	potential []int64
	distance  []int64
	current   []int32 // the arc to look at next
	onPath    []bool
	heap      []entry
}

// node adds a node and returns its number.
func (g *graph) node() int32 {
	g.first = append(g.first, -1)
	return int32(len(g.first) - 1)
}

// arc adds an arc and returns its number.
func (g *graph) arc(from, to int32, capacity int, cost int64) int32 {
	a := int32(len(g.to))
	g.to = append(g.to, to, from)
	g.room = append(g.room, capacity, 0)
	g.cost = append(g.cost, cost, -cost)
	g.next = append(g.next, g.first[from], g.first[to])
	g.first[from], g.first[to] = a, a+1
	return a
}

// flow returns what flows over an arc.
func (g *graph) flow(a int32) int { return g.room[a^1] }

// far is longer than any path.
const far = math.MaxInt64 / 4

// solve sends as much as possible from source to sink, as cheaply as possible.
// Costs may be negative; cycles of negative cost may not exist.
func (g *graph) solve(source, sink int32) (flow int, cost int64) {
	n := len(g.first)
	g.potential, g.distance = make([]int64, n), make([]int64, n)
	g.current, g.onPath = make([]int32, n), make([]bool, n)
	g.begin(source)
	for g.shortest(source, sink) {
		for v := range n {
			// Nodes beyond the sink keep their distance to it, so no arc gets a
			// negative reduced cost.
			g.potential[v] += min(g.distance[v], g.distance[sink])
		}
		copy(g.current, g.first)
		length := g.potential[sink] - g.potential[source]
		for {
			sent := g.push(source, sink, math.MaxInt)
			if sent == 0 {
				break
			}
			flow += sent
			cost += int64(sent) * length
		}
	}
	return flow, cost
}

// begin finds potentials with which no arc has a negative reduced cost: the
// shortest distances from the source (Bellman-Ford).
func (g *graph) begin(source int32) {
	for v := range g.potential {
		g.potential[v] = far
	}
	g.potential[source] = 0
	queue, queued := []int32{source}, make([]bool, len(g.first))
	for len(queue) > 0 {
		u := queue[0]
		queue, queued[u] = queue[1:], false
		for a := g.first[u]; a >= 0; a = g.next[a] {
			v := g.to[a]
			if d := g.potential[u] + g.cost[a]; g.room[a] > 0 && d < g.potential[v] {
				g.potential[v] = d
				if !queued[v] {
					queue, queued[v] = append(queue, v), true
				}
			}
		}
	}
}

// shortest finds the distances from the source in reduced costs (Dijkstra), up to
// the sink, and reports whether the sink can be reached.
func (g *graph) shortest(source, sink int32) bool {
	for v := range g.distance {
		g.distance[v] = far
	}
	g.distance[source] = 0
	g.heap = append(g.heap[:0], entry{0, source})
	for len(g.heap) > 0 {
		e := g.pop()
		if e.distance > g.distance[e.node] {
			continue
		}
		if e.node == sink {
			return true
		}
		for a := g.first[e.node]; a >= 0; a = g.next[a] {
			v := g.to[a]
			if g.room[a] == 0 {
				continue
			}
			if d := e.distance + g.cost[a] + g.potential[e.node] - g.potential[v]; d < g.distance[v] {
				g.distance[v] = d
				g.add(entry{d, v})
			}
		}
	}
	return false
}

// push sends at most limit from u to the sink over arcs of reduced cost zero, and
// returns the amount.
func (g *graph) push(u, sink int32, limit int) int {
	if u == sink {
		return limit
	}
	g.onPath[u] = true
	sent := 0
	for ; g.current[u] >= 0; g.current[u] = g.next[g.current[u]] {
		a := g.current[u]
		v := g.to[a]
		if g.room[a] == 0 || g.onPath[v] || g.cost[a]+g.potential[u]-g.potential[v] != 0 {
			continue
		}
		k := g.push(v, sink, min(limit-sent, g.room[a]))
		g.room[a] -= k
		g.room[a^1] += k
		if sent += k; sent == limit {
			break // the arc may have room for more
		}
	}
	g.onPath[u] = false
	return sent
}

// entry is a node in the heap of Dijkstra's algorithm.
type entry struct {
	distance int64
	node     int32
}

func (e entry) before(o entry) bool {
	return e.distance < o.distance || (e.distance == o.distance && e.node < o.node)
}

func (g *graph) add(e entry) {
	g.heap = append(g.heap, e)
	i := len(g.heap) - 1
	for i > 0 && g.heap[i].before(g.heap[(i-1)/2]) {
		g.heap[i], g.heap[(i-1)/2] = g.heap[(i-1)/2], g.heap[i]
		i = (i - 1) / 2
	}
}

func (g *graph) pop() entry {
	top := g.heap[0]
	last := len(g.heap) - 1
	g.heap[0] = g.heap[last]
	g.heap = g.heap[:last]
	for i := 0; ; {
		child := 2*i + 1
		if child >= last {
			return top
		}
		if child+1 < last && g.heap[child+1].before(g.heap[child]) {
			child++
		}
		if !g.heap[child].before(g.heap[i]) {
			return top
		}
		g.heap[i], g.heap[child] = g.heap[child], g.heap[i]
		i = child
	}
}
