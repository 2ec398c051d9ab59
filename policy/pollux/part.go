// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package pollux

import (
	"math"
	"slices"
)

// part is what a job may have of the two nodes of a pair.
type part struct {
	cost float64
	gpus [2]int32
	wide int32 // bits: nodes that it has together with others
}

// outside is what a job has on other nodes.
type outside struct {
	gpus, nodes int
	kind, rack  int    // of the nodes; -1: there are none
	racks       bool   // several
	held        [2]int // GPUs of the two nodes that it holds now
	same        bool   // the rest of what it holds is what it has
	stuck       bool   // some node takes no new work: it may keep this or leave it
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

// bound returns a cost that no division goes below: as if both nodes were one.
func (d *pair) bound() float64 {
	most := d.caps[0] + d.caps[1]
	d.steps += len(d.who) * most * most
	d.now = fill(d.now, most+1, 0)
	for k := range d.who {
		d.next = fill(d.next, most+1, math.Inf(1))
		for n := 0; n <= most; n++ {
			c := d.hope(k, n) - d.base(k)
			for s := n; s <= most; s++ {
				d.next[s] = min(d.next[s], d.now[s-n]+c)
			}
		}
		d.now, d.next = d.next, d.now
	}
	return d.now[most]
}

// hope returns the least that a job could cost with n GPUs of the two nodes.
func (d *pair) hope(k, n int) float64 {
	m, i, out := d.l.menu, d.who[k], d.rest[k]
	least := m.none
	if out.same && n == out.held[0]+out.held[1] {
		least = m.jobs[i].heldCost
	}
	total := out.gpus + n
	if total == 0 || n > out.allowed {
		return least
	}
	for x, node := range d.nodes {
		t := d.l.board.c.TypeOf(node)
		if out.kind >= 0 {
			t = out.kind
		}
		if (out.nodes == 0 && n <= d.caps[x]) || (out.nodes == 1 && n == 0) {
			least = min(least, m.costOf(i, t, local, total))
		}
		if total > 1 {
			least = min(least, m.costOf(i, t, near, total), m.costOf(i, t, far, total))
		}
	}
	return least
}

// list finds what a job may have of the two nodes. It leaves out what costs no
// less than a smaller part on one node.
func (d *pair) list(k int) {
	i, out, parts := d.who[k], d.rest[k], d.parts[k][:0]
	task := d.l.menu.jobs[i].demand.task
	width := d.caps[1] + 1
	d.least = fill(d.least, (d.caps[0]+1)*width, math.Inf(1))
	for a := 0; a <= d.caps[0]; a++ {
		for b := 0; b <= d.caps[1]; b++ {
			at := a*width + b
			if a > 0 {
				d.least[at] = d.least[at-width]
			}
			if b > 0 {
				d.least[at] = min(d.least[at], d.least[at-1])
			}
			if a%task != 0 || b%task != 0 || a+b > out.allowed {
				continue
			}
			p, ok := d.judge(i, out, [2]int{a, b})
			if !ok || p.cost >= d.least[at] {
				continue
			}
			if p.wide == 0 {
				d.least[at] = p.cost
			}
			p.cost -= d.base(k)
			parts = append(parts, p)
		}
	}
	d.parts[k] = parts
}

// judge returns the part of a job that has that many GPUs of the nodes; ok is
// false if it may not.
func (d *pair) judge(i int32, out outside, gpus [2]int) (p part, ok bool) {
	m, c := d.l.menu, d.l.board.c
	p.gpus = [2]int32{int32(gpus[0]), int32(gpus[1])}
	n := out.gpus + gpus[0] + gpus[1]
	if n == 0 {
		p.cost = m.none
		return p, true
	}
	nodes := out.nodes
	for x, g := range gpus {
		if g == 0 {
			continue
		}
		t, rack := c.TypeOf(d.nodes[x]), c.RackOf(d.nodes[x])
		if out.kind >= 0 && out.kind != t {
			return p, false
		}
		out.racks = out.racks || (out.rack >= 0 && out.rack != rack)
		out.kind, out.rack = t, rack
		p.wide |= 1 << x
		nodes++
	}
	at := local
	switch {
	case nodes == 1:
		p.wide = 0
	case out.racks:
		at = far
	default:
		at = near
	}
	if !d.l.board.apart {
		p.wide = 0
	}
	switch {
	case int(p.wide)&d.shut != 0:
		return p, false
	case out.same && gpus == out.held:
		p.cost = m.jobs[i].heldCost
		return p, true
	case out.stuck:
		return p, false
	}
	p.cost = m.costOf(i, out.kind, at, n)
	return p, p.cost < m.none
}
