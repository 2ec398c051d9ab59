// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package philly

import (
	"cmp"
	"slices"

	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/place"
)

// locality is the closest that a shape could have its GPUs in an empty cluster.
type locality struct {
	nodes int  // 0: impossible on nodes that take new work
	rack  bool // one domain can hold them
}

// level returns what a job of this locality insists on at a rung.
func (l locality) level(r rung) sched.Level {
	switch {
	case r == fewest && l.nodes == 1:
		return sched.SameMachine
	case r < anywhere && l.rack:
		return sched.SameRack
	}
	return sched.CrossRack
}

// search finds GPUs in a view of the cluster.
type search struct {
	free  *place.Free
	rooms []room // scratch
	racks []int  // scratch
}

// room is how many GPUs of a node a job can use.
type room struct{ node, gpus int }

// ideal returns the locality of n GPUs for the job in a view of an empty cluster.
func (f *search) ideal(j *sched.Job, n int) locality {
	if _, ok := f.free.Within(j, n, sched.SameMachine); ok {
		return locality{nodes: 1, rack: true}
	}
	if !j.Spreads(sched.SameRack) {
		return locality{}
	}
	best := locality{}
	for _, t := range f.types(j, n) {
		for r := range f.free.Cluster().Racks {
			mark := f.free.Mark()
			if p, ok := f.inRack(j, n, t, r); ok && (best.nodes == 0 || len(p) < best.nodes) {
				best = locality{nodes: len(p), rack: true}
			}
			f.free.Rollback(mark)
		}
	}
	if best.nodes > 0 || !j.Spreads(sched.CrossRack) {
		return best
	}
	for _, t := range f.types(j, n) {
		mark := f.free.Mark()
		if p, ok := f.across(j, n, t); ok && (best.nodes == 0 || len(p) < best.nodes) {
			best = locality{nodes: len(p)}
		}
		f.free.Rollback(mark)
	}
	return best
}

// find takes the GPUs of a wish, as close together as there is room.
func (f *search) find(j *sched.Job, w wish) (sched.Placement, bool) {
	if w.rung > fewest || w.best.nodes == 1 {
		if p, ok := f.free.Within(j, w.GPUs, sched.SameMachine); ok {
			return p, true
		}
		if w.rung == fewest {
			return nil, false
		}
	}
	accept := func(p sched.Placement, ok bool, mark int) bool {
		if ok && (w.rung > fewest || len(p) <= w.best.nodes) {
			return true
		}
		f.free.Rollback(mark)
		return false
	}
	types := f.types(j, w.GPUs)
	if w.best.rack && j.Spreads(sched.SameRack) {
		for _, t := range types {
			for _, r := range f.emptiest(w.GPUs) {
				mark := f.free.Mark()
				if p, ok := f.inRack(j, w.GPUs, t, r); accept(p, ok, mark) {
					return p, true
				}
			}
		}
	}
	if (w.rung == anywhere || !w.best.rack) && j.Spreads(sched.CrossRack) {
		for _, t := range types {
			mark := f.free.Mark()
			if p, ok := f.across(j, w.GPUs, t); accept(p, ok, mark) {
				return p, true
			}
		}
	}
	return nil, false
}

// part takes as many GPUs of a wish as there are where the most of them are.
func (f *search) part(j *sched.Job, w wish) sched.Placement {
	switch {
	case w.rung == fewest && w.best.nodes == 1, !j.Spreads(sched.SameRack):
		for n := w.GPUs; n > 0; n -= j.Task() {
			if p, ok := f.free.Within(j, n, sched.SameMachine); ok {
				return p
			}
		}
		return nil
	case w.best.rack && (w.rung < anywhere || !j.Spreads(sched.CrossRack)):
		nodes := len(f.free.Cluster().Nodes)
		if w.rung == fewest {
			nodes = w.best.nodes
		}
		gpus, gpuType, rack := f.most(j, nodes)
		if gpus == 0 {
			return nil
		}
		f.measure(j, gpuType, rack)
		f.rooms = f.rooms[:min(nodes, len(f.rooms))]
		return f.fill(j, min(w.GPUs, gpus), nil)
	}
	gpuType, most := -1, 0
	for t, name := range f.free.Cluster().Types {
		if n := f.free.OfType(t); j.Accepts(name) && n > most {
			gpuType, most = t, n
		}
	}
	if gpuType < 0 {
		return nil
	}
	return f.spread(j, w.GPUs, gpuType)
}

// most returns how many GPUs of one type the job could have at best on so many servers of
// one domain, their type and the domain. Both are -1 if there are none.
func (f *search) most(j *sched.Job, nodes int) (gpus, gpuType, rack int) {
	gpuType, rack = -1, -1
	for t, name := range f.free.Cluster().Types {
		if !j.Accepts(name) {
			continue
		}
		for r := range f.free.Cluster().Racks {
			f.measure(j, t, r)
			sum := 0
			for _, room := range f.rooms[:min(nodes, len(f.rooms))] {
				sum += room.gpus
			}
			if sum > gpus {
				gpus, gpuType, rack = sum, t, r
			}
		}
	}
	return gpus, gpuType, rack
}

// types returns the GPU types that the job accepts and that have n free, best
// first.
func (f *search) types(j *sched.Job, n int) []int {
	var out []int
	add := func(t int) {
		if t >= 0 && f.free.OfType(t) >= n {
			out = append(out, t)
		}
	}
	c := f.free.Cluster()
	if len(j.GPUTypes) == 0 {
		for t := range c.Types {
			add(t)
		}
	}
	for _, name := range j.GPUTypes {
		add(slices.Index(c.Types, name))
	}
	return out
}

// emptiest returns the domains with at least n free GPUs, the one with the largest
// free fraction first.
func (f *search) emptiest(n int) []int {
	c := f.free.Cluster()
	f.racks = f.racks[:0]
	for r := range c.Racks {
		if free := f.free.InRack(r); free >= n && free > 0 {
			f.racks = append(f.racks, r)
		}
	}
	slices.SortFunc(f.racks, func(a, b int) int {
		return cmp.Or(cmp.Compare(f.free.InRack(b)*c.Racks[a].GPUs, f.free.InRack(a)*c.Racks[b].GPUs), cmp.Compare(a, b))
	})
	return f.racks
}

// measure fills rooms with the servers of one type in a domain that have room
// for the job, the emptiest first, and returns the sum of their GPUs.
func (f *search) measure(j *sched.Job, gpuType, rack int) int {
	c := f.free.Cluster()
	f.rooms = f.rooms[:0]
	sum := 0
	for _, i := range c.Racks[rack].Nodes {
		if c.TypeOf(i) != gpuType {
			continue
		}
		if k := f.room(j, i); k > 0 {
			f.rooms = append(f.rooms, room{i, k})
			sum += k
		}
	}
	slices.SortFunc(f.rooms, func(a, b room) int {
		return cmp.Or(cmp.Compare(b.gpus, a.gpus), cmp.Compare(a.node, b.node))
	})
	return sum
}

// room returns how many free GPUs of a node the job can use, in whole tasks.
func (f *search) room(j *sched.Job, node int) int {
	n := &f.free.Cluster().Nodes[node]
	if n.State != sched.Ready || !n.Matches(j.Selector) || (n.GPUMemory > 0 && j.GPUMemory > n.GPUMemory) {
		return 0
	}
	free := f.free.OnNode(node)
	for k := free.Len() / j.Task() * j.Task(); k > 0; k -= j.Task() {
		if f.free.Fits(j, sched.Placement{whole(node, free.Lowest(k))}) {
			return k
		}
	}
	return 0
}

func whole(node int, gpus sched.GPUSet) sched.Slice {
	return sched.Slice{Node: int32(node), Milli: sched.WholeGPU, GPUs: gpus}
}

// inRack takes n GPUs of one type in one domain: whole servers, the emptiest first,
// and the rest by best fit. On failure nothing is taken.
func (f *search) inRack(j *sched.Job, n, gpuType, rack int) (sched.Placement, bool) {
	if f.free.InRack(rack) < n || f.measure(j, gpuType, rack) < n {
		return nil, false
	}
	return f.fill(j, n, nil), true
}

// across takes n GPUs of one type anywhere: the emptiest domain first.
// On failure nothing is taken.
func (f *search) across(j *sched.Job, n, gpuType int) (sched.Placement, bool) {
	mark := f.free.Mark()
	p := f.spread(j, n, gpuType)
	if p.GPUs() < n {
		f.free.Rollback(mark)
		return nil, false
	}
	return p, true
}

// spread takes n GPUs of one type anywhere, or as many as there are.
func (f *search) spread(j *sched.Job, n, gpuType int) sched.Placement {
	var p sched.Placement
	for _, r := range f.emptiest(1) {
		k := min(n, f.measure(j, gpuType, r))
		p = f.fill(j, k, p)
		if n -= k; n == 0 {
			break
		}
	}
	return p
}

// fill takes n GPUs from rooms, which have that many.
func (f *search) fill(j *sched.Job, n int, p sched.Placement) sched.Placement {
	for at := 0; n > 0; at++ {
		// The least room that suffices for the rest; the first among equals.
		best := at
		for i := at + 1; i < len(f.rooms) && f.rooms[i].gpus >= n; i++ {
			if f.rooms[i].gpus < f.rooms[best].gpus {
				best = i
			}
		}
		k := min(n, f.rooms[best].gpus)
		s := whole(f.rooms[best].node, f.free.OnNode(f.rooms[best].node).Lowest(k))
		f.free.Take(j, sched.Placement{s})
		p = append(p, s)
		n -= k
	}
	return p
}
