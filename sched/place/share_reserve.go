// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package place

import (
	"cmp"
	"slices"
	"time"

	"github.com/fairway-gpu/fairway/sched"
)

// Reserve closes GPUs to everybody until the end of the decision, so that they
// come free for a job that has waited for long: those expected to be empty
// soonest, which are the same ones at the next decision because nobody has come
// to them. Without it, guests that follow each other would keep GPUs from ever
// being empty. It returns false if the cluster cannot hold the job, or if more
// than most GPUs would be reserved.
func (s *SharedView) Reserve(j *sched.Job, n, most int) bool {
	if s.held+n > most {
		return false
	}
	var p sched.Placement
	if n <= s.stride {
		p = s.soonest(j, n)
	} else {
		p = s.soonestNodes(j, n)
	}
	for _, slice := range p {
		s.closed[slice.Node] |= slice.GPUs
		s.held += slice.GPUs.Len()
	}
	return p != nil
}

// may reports whether a job could be on a node at all.
func (s *SharedView) may(j *sched.Job, node int) bool {
	n := &s.c.Nodes[node]
	return n.State != sched.Down && j.Suits(n) &&
		(n.CPUs == 0 || j.CPUs <= n.CPUs) && (n.Memory == 0 || j.Memory <= n.Memory)
}

// ending is a GPU with the time until it is empty.
type ending struct {
	in  time.Duration
	gpu int
}

// endings returns the GPUs of a node that are not reserved, the first to be empty
// first. The result is valid until the next call.
func (s *SharedView) endings(node int) []ending {
	out := s.ends[:0]
	for free := s.c.Nodes[node].Usable() &^ s.closed[node]; free != 0; free &= free - 1 {
		at := lowest(free)
		e := ending{gpu: at}
		if !s.idle[node].Has(at) {
			e.in = max(1, s.until[node*s.stride+at])
		}
		out = append(out, e)
	}
	slices.SortStableFunc(out, func(a, b ending) int { return cmp.Compare(a.in, b.in) })
	s.ends = out
	return out
}

// soonest returns n GPUs of the node that will have them empty first.
func (s *SharedView) soonest(j *sched.Job, n int) sched.Placement {
	var best time.Duration
	var found sched.Slice
	for node := range s.c.Nodes {
		if s.c.Nodes[node].State != sched.Ready || s.c.Nodes[node].Usable().Len() < n || !s.may(j, node) {
			continue
		}
		if found.GPUs != 0 && !s.sooner(node, n, best) {
			continue
		}
		ends := s.endings(node)
		if len(ends) < n {
			continue
		}
		best, found = ends[n-1].in, sched.Slice{Node: int32(node)}
		for _, e := range ends[:n] {
			found.GPUs |= 1 << e.gpu
		}
	}
	if found.GPUs == 0 {
		return nil
	}
	return sched.Placement{found}
}

// sooner reports whether n GPUs of a node that are not reserved are expected to be
// empty before a time.
func (s *SharedView) sooner(node, n int, before time.Duration) bool {
	for free := s.c.Nodes[node].Usable() &^ s.closed[node]; free != 0 && n > 0; free &= free - 1 {
		at := lowest(free)
		if (before > 0 && s.idle[node].Has(at)) || max(1, s.until[node*s.stride+at]) < before {
			n--
		}
	}
	return n == 0
}

// soonestNodes returns whole nodes with n GPUs together, of one rack if the job
// insists on it.
func (s *SharedView) soonestNodes(j *sched.Job, n int) sched.Placement {
	type whole struct {
		in   time.Duration
		node int
	}
	var nodes []whole
	for node := range s.c.Nodes {
		if s.c.Nodes[node].State != sched.Ready || !s.may(j, node) || s.closed[node] != 0 || s.c.Nodes[node].Usable() == 0 {
			continue
		}
		ends := s.endings(node)
		nodes = append(nodes, whole{ends[len(ends)-1].in, node})
	}
	slices.SortStableFunc(nodes, func(a, b whole) int { return cmp.Compare(a.in, b.in) })
	racks := make([]sched.Placement, len(s.c.Racks))
	for _, w := range nodes {
		rack := 0
		if j.MaxSpread == sched.SameRack {
			rack = s.c.RackOf(w.node)
		}
		racks[rack] = append(racks[rack], sched.Slice{Node: int32(w.node), GPUs: s.c.Nodes[w.node].Usable()})
		if racks[rack].GPUs() >= n {
			return racks[rack]
		}
	}
	return nil
}
