// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package place

import (
	"math"

	"github.com/fairway-gpu/fairway/sched"
)

// Strategy takes n GPUs for a job. On failure it takes nothing.
type Strategy func(f *Free, j *sched.Job, n int) (sched.Placement, bool)

// Within takes n GPUs no farther apart than the level (and than the job
// accepts), as near to each other as there is room: on one node, best fit;
// else on the fewest nodes of one rack; else on the fewest nodes of all.
func (f *Free) Within(j *sched.Job, n int, level sched.Level) (sched.Placement, bool) {
	return f.find(j, n, limits{level: level})
}

// limits bound a search.
type limits struct {
	level  sched.Level
	strict bool // on as few nodes as if nothing ran, or not at all
}

func (f *Free) find(j *sched.Job, n int, most limits) (sched.Placement, bool) {
	if j.Bound() {
		return f.goOn(j)
	}
	if len(j.Avoid) > 0 {
		if p, ok, wait := f.away(j, n, func(j *sched.Job) (sched.Placement, bool) { return f.find(j, n, most) }); ok || wait {
			return p, ok
		}
	}
	if p, ok := f.beside(j, n); ok {
		return p, true
	}
	most.level = bound(j, most.level)
	if len(j.Topology) > 0 {
		return f.inDomains(j, n, most.level)
	}
	var p sched.Placement
	ok := f.types(j, func(t int) bool {
		if f.typeFree[t] < n || j.GPUMemory > f.gpuMemory[t] {
			return false
		}
		var ok bool
		p, ok = f.findType(j, n, t, most)
		return ok
	})
	return p, ok
}

func (f *Free) findType(j *sched.Job, n, t int, most limits) (sched.Placement, bool) {
	if n <= f.c.MaxGPUs() {
		if node, ok := f.smallest(j, n, region{t, anyRack}); ok {
			return f.onNode(j, node, n, most.level)
		}
	}
	nodesLimit := math.MaxInt
	if most.strict {
		nodesLimit = f.nodesNeeded(j, n, t, most.level)
	}
	if most.level < sched.SameRack || nodesLimit < 2 {
		return nil, false
	}
	if len(f.c.Racks) > 1 {
		if rack, nodes := f.bestRack(j, n, t); nodes > 0 && nodes <= nodesLimit {
			return f.fewest(j, n, region{t, rack})
		}
		if most.level < sched.CrossRack {
			return nil, false
		}
	}
	everywhere := region{t, anyRack}
	if nodes := f.nodesFor(j, n, everywhere); nodes == 0 || nodes > nodesLimit {
		return nil, false
	}
	return f.fewest(j, n, everywhere)
}

// bestRack returns the rack where n GPUs come on the fewest nodes, and how many
// nodes that are (0: no rack has room); among equals the rack with the least
// room, so that large racks stay large.
func (f *Free) bestRack(j *sched.Job, n, t int) (best, nodes int) {
	for r, free := range f.rackFree {
		if free < n {
			continue
		}
		// The job needs at least as many nodes as one that all free GPUs suit.
		least, ok := f.inRack(r, t).nodes(n)
		if !ok || nodes > 0 && (least > nodes || least == nodes && free >= f.rackFree[best]) {
			continue
		}
		k := f.nodesFor(j, n, region{t, r})
		if k > 0 && (nodes == 0 || k < nodes || (k == nodes && free < f.rackFree[best])) {
			best, nodes = r, k
		}
	}
	return best, nodes
}

// nodesFor returns on how few nodes of the region the job finds n GPUs; 0 if
// it does not. It takes nothing.
func (f *Free) nodesFor(j *sched.Job, n int, in region) int {
	if !f.plain(j) {
		// Nodes differ in more than their free GPUs: only a trial tells.
		mark := f.Mark()
		p, _ := f.fewest(j, n, in)
		f.Rollback(mark)
		return len(p)
	}
	h := f.typeHist[in.gpuType]
	if in.rack != anyRack {
		h = f.inRack(in.rack, in.gpuType)
	}
	nodes, _ := h.nodes(n)
	return nodes
}

// onNode takes n GPUs of one node, and refuses if they must share an island
// and do not.
func (f *Free) onNode(j *sched.Job, node, n int, level sched.Level) (sched.Placement, bool) {
	mark := f.Mark()
	p := sched.Placement{f.pick(j, node, n)}
	if level == sched.SameSlot && f.c.Level(p) > sched.SameSlot {
		f.Rollback(mark)
		return f.inIsland(j, n)
	}
	return p, true
}

// inIsland looks for an island with n free GPUs on every node.
func (f *Free) inIsland(j *sched.Job, n int) (sched.Placement, bool) {
	for i := range f.c.Nodes {
		if !f.ready.has(i) || !j.Suits(&f.c.Nodes[i]) || f.room(j, i, f.whole[i].Len()) < n {
			continue
		}
		mark := f.Mark()
		p := sched.Placement{f.pick(j, i, n)}
		if f.c.Level(p) <= sched.SameSlot {
			return p, true
		}
		f.Rollback(mark)
	}
	return nil, false
}

// Consolidated takes GPUs as near to each other as possible, anywhere.
func Consolidated(f *Free, j *sched.Job, n int) (sched.Placement, bool) {
	return f.Within(j, n, sched.CrossRack)
}

// RackLocal takes GPUs of one rack, as near to each other as possible.
func RackLocal(f *Free, j *sched.Job, n int) (sched.Placement, bool) {
	return f.Within(j, n, sched.SameRack)
}

// FewestNodes takes GPUs on as few nodes as an empty cluster would need, or
// not at all: a strict form of consolidation that waits for its place.
func FewestNodes(f *Free, j *sched.Job, n int) (sched.Placement, bool) {
	return f.find(j, n, limits{level: sched.CrossRack, strict: true})
}

// nodesNeeded returns the fewest nodes that could hold n GPUs of the type for
// the job within the level, if nothing ran on any node that is not Down; 0 if
// none could.
func (f *Free) nodesNeeded(j *sched.Job, n, t int, level sched.Level) int {
	key := need{shapeOf(j, level), n}
	key.types = 1 << min(t, 63)
	if nodes, ok := f.needed[key]; ok {
		return nodes
	}
	racks := len(f.c.Racks)
	full := newHistograms(racks+1, f.c.MaxGPUs()+1) // by rack, the last of all racks
	for i := range f.c.Nodes {
		if f.c.TypeOf(i) == t && f.c.Nodes[i].State != sched.Down {
			k := f.capacity(j, i)
			full[f.c.RackOf(i)][k]++
			full[racks][k]++
		}
	}
	if level < sched.CrossRack {
		full = full[:racks]
	} else {
		full = full[racks:]
	}
	least := 0
	for _, h := range full {
		if k, ok := h.nodes(n); ok && (least == 0 || k < least) {
			least = k
		}
	}
	if len(f.c.Types) < 64 {
		f.needed = remember(f.needed, key, least)
	}
	return least
}

// plain reports whether all that matters of a node to the job is how many of
// its GPUs are free.
func (f *Free) plain(j *sched.Job) bool {
	return !f.bounded && j.GPUMemory == 0 && !f.picky(j) && j.Task() == 1
}

// picky reports whether the job may be kept off some nodes by the marks of these.
func (f *Free) picky(j *sched.Job) bool { return j.Selector != "" || f.c.HasDedicated() }

// MostFree takes from the node with the most free GPUs, again and again. It
// ignores locality except for what the job itself demands.
func MostFree(f *Free, j *sched.Job, n int) (sched.Placement, bool) {
	return f.gather(j, n, func(t, left int) (node, room int) { return f.largest(j, region{t, anyRack}) })
}

// Fragments takes from the node with the fewest free GPUs first: it uses up
// what others leave over and keeps whole nodes whole.
func Fragments(f *Free, j *sched.Job, n int) (sched.Placement, bool) {
	return f.gather(j, n, func(t, left int) (node, room int) {
		node, ok := f.smallest(j, j.Task(), region{t, anyRack})
		if !ok {
			return 0, 0
		}
		return node, f.room(j, node, f.whole[node].Len())
	})
}

// gather takes n GPUs of one type, node by node as next says.
func (f *Free) gather(j *sched.Job, n int, next func(t, left int) (node, room int)) (sched.Placement, bool) {
	if len(j.Topology) > 0 {
		return f.find(j, n, limits{level: sched.CrossRack})
	}
	if j.Bound() {
		return f.goOn(j)
	}
	if len(j.Avoid) > 0 {
		if p, ok, wait := f.away(j, n, func(j *sched.Job) (sched.Placement, bool) { return f.gather(j, n, next) }); ok || wait {
			return p, ok
		}
	}
	var p sched.Placement
	ok := f.types(j, func(t int) bool {
		if f.typeFree[t] < n {
			return false
		}
		mark := f.Mark()
		p = p[:0]
		for left := n; left > 0; {
			node, room := next(t, left)
			if room == 0 {
				f.Rollback(mark)
				return false
			}
			s := f.pick(j, node, min(room, left))
			p = merge(p, s)
			left -= s.GPUs.Len()
		}
		if f.c.Level(p) > bound(j, sched.CrossRack) {
			f.Rollback(mark)
			return false
		}
		return true
	})
	if !ok {
		// What the job demands of locality stands above the strategy.
		if w := bound(j, sched.CrossRack); w < sched.CrossRack {
			return f.Within(j, n, w)
		}
		return nil, false
	}
	return p, true
}

// merge adds a slice to a placement that may hold that node already.
func merge(p sched.Placement, s sched.Slice) sched.Placement {
	for i := range p {
		if p[i].Node == s.Node {
			p[i].GPUs |= s.GPUs
			return p
		}
	}
	return append(p, s)
}

// bound returns the narrower of a level and what the job accepts.
func bound(j *sched.Job, level sched.Level) sched.Level {
	if j.MaxSpread != sched.NoLevel {
		return min(level, j.MaxSpread)
	}
	return level
}
