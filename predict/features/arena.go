// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package features

import "slices"

// Sizes of PyTorch's caching allocator, in bytes.
const (
	granule      = 512        // requests are rounded up to it
	smallRequest = 1 << 20    // up to here from small segments
	smallSegment = 2 << 20    //
	largeRequest = 10 << 20   // up to here from medium segments, beyond from one of their own
	mediumSize   = 20 << 20   //
	largeRound   = 2 << 20    // of segments of their own
	largeRemains = 1 << 20    // a large block is split if more than that is left
	maxBlocks    = 1 << 20    // in a replay; beyond, blocks are not tracked
	noBlock      = handle(-1) //
)

// handle names a block of an arena.
type handle int

// piece is a part of a segment.
type piece struct {
	size       int64
	prev, next handle // neighbours in the segment
	free       bool
	small      bool
}

// arena is a caching allocator: it takes segments from the device, allocates parts of
// them, best fit first, and keeps what is freed.
type arena struct {
	blocks   []piece
	idle     [2][]handle // free blocks by size, then age: large ones, small ones
	spare    []handle    // records for reuse
	live     int64       // handed out
	most     int64       // at once
	reserved int64       // taken from the device
}

func (a *arena) pool(small bool) *[]handle {
	if small {
		return &a.idle[1]
	}
	return &a.idle[0]
}

// find returns where a block of a size is or would be among the free ones.
func (a *arena) find(small bool, size int64, h handle) (int, bool) {
	return slices.BinarySearchFunc(*a.pool(small), h, func(e, _ handle) int {
		switch {
		case a.blocks[e].size != size:
			if a.blocks[e].size < size {
				return -1
			}
			return 1
		default:
			return int(e) - int(h)
		}
	})
}

func (a *arena) add(b piece) handle {
	if n := len(a.spare); n > 0 {
		h := a.spare[n-1]
		a.spare = a.spare[:n-1]
		a.blocks[h] = b
		return h
	}
	a.blocks = append(a.blocks, b)
	return handle(len(a.blocks) - 1)
}

func (a *arena) idleIn(h handle) {
	a.blocks[h].free = true
	list := a.pool(a.blocks[h].small)
	i, _ := a.find(a.blocks[h].small, a.blocks[h].size, h)
	*list = slices.Insert(*list, i, h)
}

func (a *arena) idleOut(h handle) {
	a.blocks[h].free = false
	list := a.pool(a.blocks[h].small)
	if i, ok := a.find(a.blocks[h].small, a.blocks[h].size, h); ok {
		*list = slices.Delete(*list, i, i+1)
	}
}

// take allocates a block of at least bytes.
func (a *arena) take(bytes int64) handle {
	if bytes <= 0 || len(a.blocks) >= maxBlocks {
		return noBlock
	}
	size := (bytes + granule - 1) / granule * granule
	small := size <= smallRequest
	var h handle
	if i, _ := a.find(small, size, 0); i < len(*a.pool(small)) {
		h = (*a.pool(small))[i]
		a.idleOut(h)
	} else {
		h = a.add(piece{size: segmentSize(size), prev: noBlock, next: noBlock, small: small})
		a.reserved += a.blocks[h].size
	}
	remains := a.blocks[h].size - size
	if small && remains >= granule || !small && remains > largeRemains {
		rest := a.add(piece{size: remains, prev: h, next: a.blocks[h].next, small: small})
		if next := a.blocks[h].next; next != noBlock {
			a.blocks[next].prev = rest
		}
		a.blocks[h].next, a.blocks[h].size = rest, size
		a.idleIn(rest)
	}
	a.live += a.blocks[h].size
	a.most = max(a.most, a.live)
	return h
}

func segmentSize(size int64) int64 {
	switch {
	case size <= smallRequest:
		return smallSegment
	case size < largeRequest:
		return mediumSize
	}
	return (size + largeRound - 1) / largeRound * largeRound
}

// give frees a block and joins it with free neighbours.
func (a *arena) give(h handle) {
	if h == noBlock {
		return
	}
	a.live -= a.blocks[h].size
	if p := a.blocks[h].prev; p != noBlock && a.blocks[p].free {
		a.idleOut(p)
		h = a.join(p, h)
	}
	if n := a.blocks[h].next; n != noBlock && a.blocks[n].free {
		a.idleOut(n)
		h = a.join(h, n)
	}
	a.idleIn(h)
}

// join merges two neighbours.
func (a *arena) join(left, right handle) handle {
	a.blocks[left].size += a.blocks[right].size
	next := a.blocks[right].next
	a.blocks[left].next = next
	if next != noBlock {
		a.blocks[next].prev = left
	}
	a.spare = append(a.spare, right)
	return left
}
