// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package place

import (
	"cmp"
	"math"
	"slices"

	"github.com/fairway-gpu/fairway/sched"
)

// Ask is what a job asks of a SharedView.
type Ask struct {
	Job   *sched.Job
	GPUs  int
	Whole bool // GPUs for itself; else a seat on each
	Idle  bool // seats on GPUs that nobody holds will do too
	Spill bool // several nodes will do even if one could hold it
	// Key tells apart jobs that the judge treats differently although they need
	// the same.
	Key string
}

// misfit is an ask that found nothing: none that needs as much will.
type misfit struct {
	Ask
	util   float64
	memory int64
}

// covers reports whether the second ask fails since the first did.
func (m *misfit) covers(a *Ask) bool {
	x, y := m.Job, a.Job
	return m.Whole == a.Whole && m.Idle == a.Idle && m.Spill == a.Spill && m.Key == a.Key && m.GPUs <= a.GPUs &&
		m.util <= y.GPUUtil && m.memory <= y.GPUMemory && x.CPUs <= y.CPUs && x.Memory <= y.Memory &&
		x.MaxSpread == y.MaxSpread && x.Task() == y.Task() && x.Selector == y.Selector && slices.Equal(x.GPUTypes, y.GPUTypes)
}

// mostMisfits bounds what Find remembers of what it did not find.
const mostMisfits = 64

// Find returns the cheapest GPUs for a job: on one node, of one island if it must
// be; where it asks for more than a node has, or Spill allows it, on the fewest
// nodes of a rack, or of several. It takes nothing.
func (s *SharedView) Find(a Ask, judge Judge) (sched.Placement, bool) {
	if len(a.Job.Avoid) > 0 {
		if p, ok := s.away(a, judge); ok {
			return p, true
		}
	}
	if slices.ContainsFunc(s.failed, func(m misfit) bool { return m.covers(&a) }) {
		return nil, false
	}
	types := a.Job.GPUTypes
	if len(types) == 0 {
		types = s.c.Types
	}
	for _, name := range types {
		t := slices.Index(s.c.Types, name)
		if t < 0 {
			continue
		}
		p, ok := s.onOne(&a, t, judge)
		if !ok && (a.Spill || !s.oneCould(&a, t)) {
			p, ok = s.onSeveral(&a, t, judge)
		}
		if ok {
			return p, true
		}
	}
	s.remember(misfit{a, a.Job.GPUUtil, a.Job.GPUMemory})
	return nil, false
}

// remember adds an ask that found nothing, in place of those that need more.
func (s *SharedView) remember(m misfit) {
	s.failed = slices.DeleteFunc(s.failed, func(other misfit) bool { return m.covers(&other.Ask) })
	if len(s.failed) < mostMisfits {
		s.failed = append(s.failed, m)
	}
}

// away looks outside of the nodes that a job stays away from after it failed
// there. If it finds nothing, any will do.
func (s *SharedView) away(a Ask, judge Judge) (sched.Placement, bool) {
	anywhere := *a.Job
	anywhere.Avoid = nil
	was, failed := slices.Clone(s.closed), slices.Clone(s.failed)
	for _, name := range a.Job.Avoid {
		if n, ok := s.c.Node(name); ok {
			s.closed[n] = sched.FirstGPUs(s.c.Nodes[n].GPUs)
		}
	}
	a.Job = &anywhere
	p, ok := s.Find(a, judge)
	copy(s.closed, was)
	s.failed = failed // what was not found may be on those nodes
	return p, ok
}

// oneCould reports whether some node of a type could hold all of the job if
// nobody else were there.
func (s *SharedView) oneCould(a *Ask, t int) bool {
	for i := range s.c.Nodes {
		n := &s.c.Nodes[i]
		if n.State != sched.Down && s.c.TypeOf(i) == t && n.Usable().Len() >= a.GPUs && s.may(a.Job, i) &&
			(n.CPUs == 0 || a.GPUs*a.Job.CPUs <= n.CPUs) && (n.Memory == 0 || int64(a.GPUs)*a.Job.Memory <= n.Memory) {
			return true
		}
	}
	return false
}

// usable returns the GPUs of a node that an ask may look at.
func (s *SharedView) usable(a *Ask, node, t int) sched.GPUSet {
	n := &s.c.Nodes[node]
	if n.State != sched.Ready || s.c.TypeOf(node) != t || !n.Matches(a.Job.Selector) || (n.GPUMemory > 0 && a.Job.GPUMemory > n.GPUMemory) {
		return 0
	}
	switch {
	case a.Whole:
		return s.idle[node] &^ s.closed[node]
	case a.Idle:
		return (s.idle[node] | s.open[node]) &^ s.closed[node]
	}
	return s.open[node] &^ s.closed[node]
}

// room returns how many GPUs of a node the job has CPUs and memory for, at most
// most, in whole tasks.
func (s *SharedView) room(j *sched.Job, node, most int) int {
	n := &s.c.Nodes[node]
	if n.CPUs > 0 && j.CPUs > 0 {
		most = min(most, s.cpus[node]/j.CPUs)
	}
	if n.Memory > 0 && j.Memory > 0 {
		most = min(most, int(s.host[node]/j.Memory))
	}
	return max(0, most) / j.Task() * j.Task()
}

// priced is a GPU with what it costs.
type priced struct {
	cost float64
	gpu  int
}

// price returns those of some GPUs of a node that the judge accepts, the cheapest
// first. The result is valid until the next call.
func (s *SharedView) price(a *Ask, node int, among sched.GPUSet, judge Judge) []priced {
	out := s.prices[:0]
	for ; among != 0; among &= among - 1 {
		at := lowest(among)
		on := s.company(node, at)
		if len(on.Jobs) > 0 && on.Capacity > 0 && on.Memory+a.Job.GPUMemory+s.margin > on.Capacity {
			continue
		}
		if cost, ok := judge(on, a.Job); ok {
			out = append(out, priced{cost, at})
		}
	}
	slices.SortStableFunc(out, func(x, y priced) int { return cmp.Compare(x.cost, y.cost) })
	s.prices = out
	return out
}

// anywhere is one island for all GPUs.
var anywhere = []sched.GPUSet{^sched.GPUSet(0)}

// onOne finds the GPUs of one node.
func (s *SharedView) onOne(a *Ask, t int, judge Judge) (sched.Placement, bool) {
	best, left := math.Inf(1), 0
	var found sched.Slice
	for node := range s.c.Nodes {
		set := s.usable(a, node, t)
		if set.Len() < a.GPUs || s.room(a.Job, node, a.GPUs) < a.GPUs {
			continue
		}
		islands := s.c.Nodes[node].Islands
		if a.Job.MaxSpread != sched.SameSlot || len(islands) == 0 || a.GPUs == 1 {
			islands = anywhere
		}
		for _, island := range islands {
			cost, gpus := s.cheapest(a, node, set&island, judge)
			// Among equals the node with the fewest idle GPUs, so that whole nodes stay whole.
			if idle := s.idle[node].Len(); gpus != 0 && (cost < best || (cost == best && idle < left)) {
				best, left, found = cost, idle, sched.Slice{Node: int32(node), GPUs: gpus}
			}
		}
	}
	if found.GPUs == 0 {
		return nil, false
	}
	found.Milli = s.share(a)
	return sched.Placement{found}, true
}

// cheapest returns the GPUs that an ask needs, among some of a node, and the sum
// of their costs; none if there are too few.
func (s *SharedView) cheapest(a *Ask, node int, among sched.GPUSet, judge Judge) (float64, sched.GPUSet) {
	if a.GPUs == 1 {
		best, found := math.Inf(1), sched.GPUSet(0)
		for ; among != 0; among &= among - 1 {
			at := lowest(among)
			on := s.company(node, at)
			if len(on.Jobs) > 0 && on.Capacity > 0 && on.Memory+a.Job.GPUMemory+s.margin > on.Capacity {
				continue
			}
			if cost, ok := judge(on, a.Job); ok && cost < best {
				best, found = cost, 1<<at
			}
		}
		return best, found
	}
	all := s.price(a, node, among, judge)
	if len(all) < a.GPUs {
		return 0, 0
	}
	return sum(all[:a.GPUs])
}

func sum(of []priced) (cost float64, gpus sched.GPUSet) {
	for _, p := range of {
		cost += p.cost
		gpus |= 1 << p.gpu
	}
	return cost, gpus
}

// onSeveral finds GPUs on several nodes: of the rack, then of all, the nodes with
// the most GPUs for the job first.
func (s *SharedView) onSeveral(a *Ask, t int, judge Judge) (sched.Placement, bool) {
	j := a.Job
	if a.GPUs <= j.Task() || (j.MaxSpread != sched.NoLevel && j.MaxSpread < sched.SameRack) {
		return nil, false
	}
	byRack := make([][]sched.Slice, len(s.c.Racks))
	var all []sched.Slice
	for node := range s.c.Nodes {
		set := s.usable(a, node, t)
		if set.Len() < j.Task() {
			continue
		}
		fit := s.price(a, node, set, judge)
		k := s.room(j, node, min(len(fit), a.GPUs))
		if k == 0 {
			continue
		}
		_, gpus := sum(fit[:k])
		slice := sched.Slice{Node: int32(node), Milli: s.share(a), GPUs: gpus}
		byRack[s.c.RackOf(node)] = append(byRack[s.c.RackOf(node)], slice)
		all = append(all, slice)
	}
	for _, in := range byRack {
		if p := LargestSlices(in, a.GPUs); p != nil {
			return p, true
		}
	}
	if j.MaxSpread == sched.NoLevel || j.MaxSpread > sched.SameRack {
		if p := LargestSlices(all, a.GPUs); p != nil {
			return p, true
		}
	}
	return nil, false
}

// LargestSlices returns n GPUs of slices, the largest slices first; nil if they
// have fewer.
func LargestSlices(of []sched.Slice, n int) sched.Placement {
	if sched.Placement(of).GPUs() < n {
		return nil
	}
	of = slices.Clone(of)
	slices.SortStableFunc(of, func(a, b sched.Slice) int { return cmp.Compare(b.GPUs.Len(), a.GPUs.Len()) })
	var p sched.Placement
	for _, s := range of {
		if n == 0 {
			break
		}
		s.GPUs = s.GPUs.Lowest(min(n, s.GPUs.Len()))
		n -= s.GPUs.Len()
		p = append(p, s)
	}
	return p
}

func (s *SharedView) share(a *Ask) int32 {
	if a.Whole {
		return sched.WholeGPU
	}
	return s.Seat()
}
