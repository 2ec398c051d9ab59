// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package division

import (
	"math"
	"slices"
)

// part is what a job may have of the two nodes of a pair.
type part struct {
	cost float64
	gpus [2]int32
	wide int32 // bits: nodes that it uses together with others
	step int32 // from one state of the pair to the next
}

// outside is what a job has on other nodes.
type outside struct {
	gpus, nodes int
	kind, rack  int    // of the nodes; -1: none
	racks       bool   // on several racks
	held        [2]int // GPUs of the two nodes that it holds now
	same        bool   // the rest of what it holds is what it has
	stuck       bool   // some node takes no new work: it may keep its GPUs there or leave
	allowed     int    // GPUs of the two nodes, by its tenant's limit
}

// outside returns what a job has on other nodes.
func (d *pair) outside(i int32) outside {
	j, c := &d.l.menu.jobs[i], d.l.board.c
	out := outside{kind: -1, rack: -1, same: len(j.held) > 0}
	for _, s := range d.l.rows[i] {
		n := int(s.node)
		if n == d.nodes[0] || n == d.nodes[1] {
			continue
		}
		out.gpus += int(s.gpus)
		out.nodes++
		out.racks = out.racks || (out.rack >= 0 && out.rack != c.RackOf(n))
		out.kind, out.rack = c.TypeOf(n), c.RackOf(n)
		out.same = out.same && slices.Contains(j.held, s)
		out.stuck = out.stuck || !d.l.board.ready[n]
	}
	within := 0
	for x, n := range d.nodes {
		if out.held[x] = j.held.on(n); out.held[x] > 0 {
			within++
		}
	}
	out.same = out.same && out.nodes+within == len(j.held)
	return out
}

// hope is a lower bound on what a job costs with a number of GPUs of the two nodes.
type hope struct {
	gpus int
	cost float64
}

// bound returns a lower bound on the cost of any division: as if both nodes were
// one. now is, by number of GPUs, the least cost of the jobs so far with at most that many.
func (d *pair) bound() float64 {
	most := d.caps[0] + d.caps[1]
	last := len(d.who) - 1
	d.now = fill(d.now, most+1, 0)
	now := d.now
	for k := range last {
		hopes := d.hopesOf(k)
		none := hopes[0].cost
		if len(hopes) == 2 { // a job of one size
			n, cost := hopes[1].gpus, hopes[1].cost
			for s := most; s >= n; s-- {
				now[s] = min(now[s]+none, now[s-n]+cost)
			}
			for s := range now[:n] {
				now[s] += none
			}
			continue
		}
		for s := most; s >= 0; s-- {
			least := now[s] + none
			for _, h := range hopes[1:] {
				if h.gpus > s {
					break
				}
				least = min(least, now[s-h.gpus]+h.cost)
			}
			now[s] = least
		}
	}
	least := math.Inf(1)
	for _, h := range d.hopesOf(last) { // only the result with all GPUs matters
		least = min(least, now[most-h.gpus]+h.cost)
	}
	return least
}

// hopesOf returns lower bounds on a job's cost, by its GPUs on the two nodes: for none, and for
// each number with which it costs less than with any smaller one.
func (d *pair) hopesOf(k int) []hope {
	m, i, out := d.l.menu, d.who[k], &d.rest[k]
	most := d.caps[0] + d.caps[1]
	d.hope = fill(d.hope, most+1, m.none)
	table, size := m.table(i)
	end := min(most+1, size-out.gpus)
	if out.allowed < most {
		end = min(end, out.allowed+1)
	}
	for x, node := range d.nodes {
		t, whole := d.l.board.c.TypeOf(node), d.caps[x]
		switch other := d.l.board.c.TypeOf(d.nodes[1-x]); {
		case out.kind >= 0:
			t, whole = out.kind, 1-out.nodes // it is on one node if it adds none
		case t == other:
			whole = max(whole, d.caps[1-x])
		}
		together, apart := costRow(table, size, t, Local), costRow(table, size, t, spread)
		for n := 0; n < end; n++ {
			total := out.gpus + n
			if total > 1 && apart[total] < d.hope[n] {
				d.hope[n] = apart[total]
			}
			if n <= whole && total > 0 && together[total] < d.hope[n] {
				d.hope[n] = together[total]
			}
		}
		if out.kind >= 0 || t == d.l.board.c.TypeOf(d.nodes[1-x]) {
			break // the other node gives the same
		}
	}
	if held := out.held[0] + out.held[1]; out.same && held <= most {
		d.hope[held] = min(d.hope[held], m.jobs[i].heldCost)
	}
	base := d.base(k)
	least := d.hope[0] - base
	d.hopes = append(d.hopes[:0], hope{0, least})
	for n := 1; n <= most; n++ {
		if cost := d.hope[n] - base; cost < least {
			d.hopes, least = append(d.hopes, hope{n, cost}), cost
		}
	}
	return d.hopes
}

// list finds what a job may have of the two nodes. It omits parts that cost no less
// than a smaller part on one node.
func (d *pair) list(k int) {
	i, out, parts := d.who[k], &d.rest[k], d.parts[k][:0]
	none, task, base := d.l.menu.none, d.l.menu.jobs[i].demand.task, d.base(k)
	use := d.uses(k)
	width := d.caps[1] + 1
	d.least = slices.Grow(d.least[:0], (d.caps[0]+1)*width)[:(d.caps[0]+1)*width]
	for a := 0; a <= d.caps[0]; a++ {
		for b := 0; b <= d.caps[1]; b++ {
			at := a*width + b
			low := math.Inf(1)
			if a > 0 {
				low = d.least[at-width]
			}
			if b > 0 {
				low = min(low, d.least[at-1])
			}
			d.least[at] = low
			if a+b > out.allowed || (task > 1 && (a%task != 0 || b%task != 0)) {
				continue
			}
			u, n, cost := &use[min(a, 1)+2*min(b, 1)], out.gpus+a+b, none
			switch {
			case n == 0:
			case !u.allowed:
				continue
			case out.same && a == out.held[0] && b == out.held[1]:
				cost = d.l.menu.jobs[i].heldCost
			case out.stuck || n >= len(u.costs) || !(u.costs[n] < none):
				continue
			default:
				cost = u.costs[n]
			}
			if cost >= low {
				continue
			}
			if u.wide == 0 {
				d.least[at] = cost
			}
			parts = append(parts, d.part(cost-base, [2]int{a, b}, u.wide))
		}
	}
	d.parts[k] = parts
}

func (d *pair) part(cost float64, gpus [2]int, wide int) part {
	step := gpus[0]*d.width() + gpus[1]*bitStates + wide
	return part{cost, [2]int32{int32(gpus[0]), int32(gpus[1])}, int32(wide), int32(step)}
}

// use is a choice of nodes: either, both or none.
type use struct {
	allowed bool
	wide    int       // bits: see part
	costs   []float64 // by GPUs in all
}

// uses returns what each choice of nodes means to a job, indexed by a bit for each
// node.
func (d *pair) uses(k int) (all [4]use) {
	c, rest := d.l.board.c, &d.rest[k]
	table, size := d.l.menu.table(d.who[k])
	for bits := range all {
		u, kind, rack, racks, nodes := &all[bits], rest.kind, rest.rack, rest.racks, rest.nodes
		u.allowed = true
		for x, node := range d.nodes {
			if bits>>x&1 == 0 {
				continue
			}
			u.allowed = u.allowed && (kind < 0 || kind == c.TypeOf(node)) && d.l.board.mayHold(&d.l.menu.jobs[d.who[k]], node)
			racks = racks || (rack >= 0 && rack != c.RackOf(node))
			kind, rack = c.TypeOf(node), c.RackOf(node)
			nodes++
		}
		if nodes == 0 { // it has nothing
			continue
		}
		at := Near
		switch {
		case nodes == 1:
			at = Local
		case racks:
			at = Far
		}
		if nodes > 1 && d.l.board.apart {
			u.wide = bits
		}
		u.allowed = u.allowed && u.wide&d.shut == 0
		u.costs = costRow(table, size, kind, at)
	}
	return all
}
