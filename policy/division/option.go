// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package division

import (
	"cmp"
	"slices"
)

// way is how an option places a job.
type way uint8

const (
	nothing way = iota
	keep        // what it has
	oneNode
	oneRack // several nodes of one rack
	anywhere
)

// option is one thing a job may get. Its cost does not depend on which nodes it
// uses, which keeps the search small.
type option struct {
	cost float64
	gpus int32 // on nodes that take new work
	kind int16 // index in Cluster.Types
	way  way
	one  bool // it is on one node
}

// options returns what the job may get at the given sizes: first nothing, then what
// it has, then the rest by number of GPUs. It omits an option that costs no less
// than a smaller one of the same kind and way.
func (p *problem) options(j *Job, sizes []int) []option {
	first := len(p.memory.options)
	out := append(p.memory.options, option{cost: p.none})
	if len(j.held) > 0 {
		o := option{cost: j.heldCost, way: keep, kind: int16(p.s.Cluster.TypeOf(int(j.held[0].node))), one: len(j.held) == 1}
		for _, s := range j.held {
			if p.blank.ready[s.node] {
				o.gpus += s.gpus
			}
		}
		out = append(out, o)
	}
	begin := len(out)
	for k := range j.Kinds {
		for w := oneNode; w <= anywhere; w++ {
			out = p.offer(out, offer{j, &j.Kinds[k], w}, sizes)
		}
	}
	slices.SortFunc(out[begin:], func(a, b option) int {
		return cmp.Or(cmp.Compare(a.gpus, b.gpus), cmp.Compare(a.cost, b.cost), cmp.Compare(a.kind, b.kind), cmp.Compare(a.way, b.way))
	})
	p.memory.options = out
	return out[first:len(out):len(out)]
}

// offer is one kind and way for a job.
type offer struct {
	j    *Job
	kind *Kind
	way  way
}

// offer appends the options of an offer.
func (p *problem) offer(out []option, f offer, sizes []int) []option {
	reach, at := p.extent(f)
	cheapest := p.none
	for _, n := range sizes {
		if n > reach {
			break
		}
		if f.way != oneNode && n < 2*f.j.demand.task {
			continue
		}
		if c := p.objective.Cost(f.j, f.kind, at, n, false); c < cheapest {
			cheapest = c
			out = append(out, option{cost: c, gpus: int32(n), kind: int16(f.kind.Type), way: f.way, one: f.way == oneNode})
		}
	}
	return out
}

// extent returns how many GPUs of an offer the job could get, and the span they may
// have.
func (p *problem) extent(f offer) (reach int, at Span) {
	j, k, w := f.j, f.kind, f.way
	racks := len(p.s.Cluster.Racks) > 1
	switch {
	case w == oneNode:
		return k.reach.node, Local
	case j.widest == Local:
		return 0, Local
	case !racks: // one rack is everything
		if w == oneRack {
			return 0, Near
		}
		return k.reach.all, Near
	case w == oneRack:
		if j.widest == Far && k.Curve != nil && !k.Curve.racks {
			return 0, Near // anywhere is no worse
		}
		return k.reach.rack, Near
	case j.widest == Near:
		return 0, Far
	}
	return k.reach.all, Far
}

// place appends the row of an option on a board to r. It takes no GPUs.
func (p *problem) place(b *board, r row, j *Job, o option) (row, bool) {
	w := want{j.demand, int(o.kind), int(o.gpus)}
	switch {
	case o.way == nothing:
		return r, true
	case o.way == keep:
		if !b.fits(j, j.held) {
			return r, false
		}
		return append(r, j.held...), true
	case b.left[w.kind] < w.gpus || (j.tenant >= 0 && b.quota[j.tenant] < w.gpus):
		return r, false
	case o.way == oneNode:
		return b.onOne(r, w)
	}
	if len(b.racks) > 1 {
		if r, ok := b.withinRack(r, w); ok || o.way == oneRack {
			return r, ok
		}
	}
	return b.onMany(r, w, nil)
}
