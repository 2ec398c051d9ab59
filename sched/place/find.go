// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package place

import (
	"math/bits"
	"slices"

	"github.com/fairway-gpu/fairway/sched"
)

// region is a part of the cluster that a search may use: one GPU type, in one
// rack or in all.
type region struct {
	gpuType int
	rack    int // -1: all racks
}

const anyRack = -1

// types calls yield with the GPU types the job accepts, best first, until it
// returns true.
func (f *Free) types(j *sched.Job, yield func(t int) bool) bool {
	if len(j.GPUTypes) == 0 {
		for t := range f.c.Types {
			if yield(t) {
				return true
			}
		}
		return false
	}
	for _, want := range j.GPUTypes {
		if t := slices.Index(f.c.Types, want); t >= 0 && yield(t) {
			return true
		}
	}
	return false
}

// smallest returns the node with the fewest free GPUs among those where the
// job could use at least n of them, the lowest number first.
func (f *Free) smallest(j *sched.Job, n int, in region) (int, bool) {
	for k := n; k < len(f.buckets); k++ {
		if f.filled[k] == 0 {
			continue
		}
		if node, ok := f.first(k, in, func(i int) bool { return f.room(j, i, k) >= n }); ok {
			return node, true
		}
	}
	return 0, false
}

// largest returns the node where the job could use the most GPUs, and how
// many.
func (f *Free) largest(j *sched.Job, in region) (node, room int) {
	for k := len(f.buckets) - 1; k > room; k-- {
		if f.filled[k] == 0 {
			continue
		}
		f.first(k, in, func(i int) bool {
			if r := f.room(j, i, k); r > room {
				node, room = i, r
			}
			return room == k/j.Task()*j.Task() // no node of this bucket has more
		})
	}
	return node, room
}

// first returns the lowest node of bucket k in the region that ok accepts.
func (f *Free) first(k int, in region, ok func(node int) bool) (int, bool) {
	bucket, types := f.buckets[k], f.typeSet[in.gpuType]
	for w, word := range bucket {
		word &= types[w]
		if in.rack != anyRack {
			word &= f.rackSet[in.rack][w]
		}
		for ; word != 0; word &= word - 1 {
			if i := w<<6 + bits.TrailingZeros64(word); ok(i) {
				return i, true
			}
		}
	}
	return 0, false
}

// pick takes n free GPUs of a node for the job, inside one NVLink island where
// that is possible, and leaves the larger islands whole.
func (f *Free) pick(j *sched.Job, node, n int) sched.Slice {
	free := f.whole[node]
	s := sched.Slice{Node: int32(node), Milli: f.milli(j, node)}
	best := free.Len() + 1
	for _, island := range f.c.Nodes[node].Islands {
		if k := (free & island).Len(); k >= n && k < best {
			best, s.GPUs = k, (free & island).Lowest(n)
		}
	}
	if s.GPUs == 0 {
		s.GPUs = free.Lowest(n)
	}
	f.Take(j, sched.Placement{s})
	return s
}

// fewest takes n GPUs of the region on the fewest nodes: the fullest use of
// the largest nodes, and the last node best fit. On failure nothing is taken.
func (f *Free) fewest(j *sched.Job, n int, in region) (sched.Placement, bool) {
	mark := f.Mark()
	var p sched.Placement
	for left := n; left > 0; {
		if node, ok := f.smallest(j, left, in); ok {
			return append(p, f.pick(j, node, left)), true
		}
		node, room := f.largest(j, in)
		if room == 0 {
			f.Rollback(mark)
			return nil, false
		}
		p = append(p, f.pick(j, node, room))
		left -= room
	}
	return p, true
}
