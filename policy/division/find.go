// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package division

import "math/bits"

// want is a number of GPUs of a type for a job.
type want struct {
	demand demand
	kind   int // index in Cluster.Types
	gpus   int
}

// onOne appends the slot for all GPUs on one node: the node with the fewest free
// GPUs and, among equals, one that a job across several nodes cannot use.
func (b *board) onOne(r row, w want) (row, bool) {
	n := w.gpus
	for k := n; k < b.sizes; k++ {
		if b.filled[w.kind*b.sizes+k] == 0 {
			continue
		}
		open := -1
		for x, word := range b.bucket(w.kind, k) {
			for ; word != 0; word &= word - 1 {
				node := x<<6 + bits.TrailingZeros64(word)
				if (b.bounded || w.demand.among > 0) && b.room(w.demand, node) < n {
					continue
				}
				if !b.apart || !b.open.has(node) {
					return append(r, slot{int32(node), int32(n)}), true
				}
				if open < 0 {
					open = node
				}
			}
		}
		if open >= 0 {
			return append(r, slot{int32(open), int32(n)}), true
		}
	}
	return r, false
}

// onMany appends slots on as few nodes as possible: the largest first, the last one
// by best fit. If a rack is given, all nodes are in it.
func (b *board) onMany(r row, w want, rack bitset) (row, bool) {
	begin, left := len(r), w.gpus
	from, to := 0, b.words
	if rack != nil {
		from, to = rack.bounds()
	}
	for k := b.sizes - 1; k > 0; k-- {
		if b.filled[w.kind*b.sizes+k] == 0 {
			continue
		}
		bucket := b.bucket(w.kind, k)
		for x := from; x < to; x++ {
			word := bucket[x] & b.open[x]
			if rack != nil {
				word &= rack[x]
			}
			for ; word != 0; word &= word - 1 {
				node := x<<6 + bits.TrailingZeros64(word)
				room := b.room(w.demand, node)
				if left == w.gpus {
					room = min(room, left-w.demand.task) // leave something for a second node
				}
				if room >= left {
					w.gpus = left
					node = b.tightest(r[begin:], w, node, rack)
					return append(r, slot{int32(node), int32(left)}), true
				}
				if room > 0 {
					r = append(r, slot{int32(node), int32(room)})
					left -= room
				}
			}
		}
	}
	return r[:begin], false
}

// bounds returns the range of words that are not zero: the nodes of a rack mostly
// follow each other.
func (s bitset) bounds() (from, to int) {
	for to = len(s); to > 0 && s[to-1] == 0; to-- {
	}
	for from < to && s[from] == 0 {
		from++
	}
	return from, to
}

// tightest returns the node with the fewest free GPUs that could replace a node of
// the row and is not in the row.
func (b *board) tightest(r row, w want, instead int, rack bitset) int {
	for k := w.gpus; k < int(b.free[instead]); k++ {
		for x, word := range b.bucket(w.kind, k) {
			word &= b.open[x]
			if rack != nil {
				word &= rack[x]
			}
			for ; word != 0; word &= word - 1 {
				node := x<<6 + bits.TrailingZeros64(word)
				if b.room(w.demand, node) >= w.gpus && r.on(node) == 0 {
					return node
				}
			}
		}
	}
	return instead
}

// withinRack appends slots on several nodes of one rack: the rack that needs the
// fewest nodes, and among equals the one with the least room.
func (b *board) withinRack(r row, w want) (row, bool) {
	begin := len(r)
	best, nodes, spare := -1, 0, 0
	for i, rack := range b.racks {
		if b.inRack[i*len(b.left)+w.kind] < w.gpus {
			continue
		}
		trial, ok := b.onMany(r, w, rack)
		if !ok {
			continue
		}
		r = trial[:begin]
		if k := len(trial) - begin; best < 0 || k <= nodes {
			free := b.freeOf(rack)
			if best < 0 || k < nodes || free < spare {
				best, nodes, spare = i, k, free
			}
		}
	}
	if best < 0 {
		return r, false
	}
	return b.onMany(r, w, b.racks[best])
}

// freeOf returns the number of free GPUs of a rack.
func (b *board) freeOf(rack bitset) int {
	n := 0
	for x, word := range rack {
		for ; word != 0; word &= word - 1 {
			n += int(b.free[x<<6+bits.TrailingZeros64(word)])
		}
	}
	return n
}
