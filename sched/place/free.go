// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package place

import (
	"math"
	"math/bits"
	"slices"

	"github.com/fairway-gpu/fairway/sched"
)

// Free is what is free in a cluster. The zero value is of no use; see NewFree.
type Free struct {
	c *sched.Cluster

	whole   []sched.GPUSet    // by node: GPUs that nobody holds
	parts   map[int32]*shared // by node: what is held of shared GPUs
	cpus    []int             // by node: CPUs not given away
	memory  []int64
	bounded bool // some node limits CPUs or memory

	total    int   // wholly free GPUs on ready nodes
	rackFree []int // the same by rack
	typeFree []int // the same by GPU type

	// buckets[k] is the set of ready nodes with k wholly free GPUs, for k > 0;
	// filled[k] is its size.
	buckets []bitset
	filled  []int
	// hist[k] of a GPU type, and of a GPU type in a rack, is the number of ready
	// nodes with k wholly free GPUs: enough to know how many nodes a gang will
	// need without taking any.
	typeHist []histogram
	rackHist []histogram // by rack * types + type
	rackSet  []bitset    // by rack: its nodes
	typeSet  []bitset    // by GPU type: its nodes
	ready    bitset

	gpuMemory []int64 // by GPU type: the most of any node

	undo []change

	// What jobs could have if nothing ran: caches of Ever and nodesNeeded.
	ever   map[shape]int
	needed map[need]int
	// The same for jobs with rules about the topology, and a number of GPUs.
	everFits map[need]int
}

// shared is what is held of the GPUs of a node that are held in part.
type shared struct {
	milli  [sched.MaxGPUs]uint16 // thousandths
	memory [sched.MaxGPUs]int64  // bytes of GPU memory
	jobs   [sched.MaxGPUs]uint16
	fresh  [sched.MaxGPUs]uint16 // of the jobs, those that were not there before
}

// seat reports whether one more job may be on a GPU of a node.
func (s *shared) seat(n *sched.Node, gpu int) bool {
	return n.Seats == 0 || int(s.jobs[gpu]) < n.Seats
}

// keeps reports whether a job that is on a GPU may stay there: it may even if there
// are fewer seats by now, but not if a newcomer has been given its seat.
func (s *shared) keeps(n *sched.Node, gpu int) bool { return s.fresh[gpu] == 0 || s.seat(n, gpu) }

type change struct {
	slice     sched.Slice
	cpus      int
	memory    int64
	gpuMemory int64 // on each GPU
	taken     bool
	fresh     bool // the job does not have it yet
}

func changeOf(j *sched.Job, s sched.Slice, taken bool) change {
	k := s.GPUs.Len()
	return change{s, k * j.CPUs, int64(k) * j.Memory, j.GPUMemory, taken, s.Milli < sched.WholeGPU && !slices.Contains(j.Placement, s)}
}

// NewFree returns a view of the cluster in which every GPU is free that others
// do not hold.
func NewFree(c *sched.Cluster) *Free {
	n := len(c.Nodes)
	f := &Free{
		c:     c,
		whole: make([]sched.GPUSet, n), cpus: make([]int, n), memory: make([]int64, n),
		rackFree: make([]int, len(c.Racks)), typeFree: make([]int, len(c.Types)),
		buckets: make([]bitset, c.MaxGPUs()+1), filled: make([]int, c.MaxGPUs()+1),
		rackSet: make([]bitset, len(c.Racks)), typeSet: make([]bitset, len(c.Types)),
		ready: newBitset(n), gpuMemory: make([]int64, len(c.Types)),
	}
	for k := range f.buckets {
		f.buckets[k] = newBitset(n)
	}
	f.typeHist = newHistograms(len(c.Types), len(f.buckets))
	f.rackHist = newHistograms(len(c.Racks)*len(c.Types), len(f.buckets))
	for r := range f.rackSet {
		f.rackSet[r] = newBitset(n)
	}
	for t := range f.typeSet {
		f.typeSet[t] = newBitset(n)
	}
	for i, node := range c.Nodes {
		f.rackSet[c.RackOf(i)].add(i)
		f.typeSet[c.TypeOf(i)].add(i)
		if node.State == sched.Ready {
			f.ready.add(i)
		}
		f.bounded = f.bounded || node.CPUs > 0 || node.Memory > 0
		memory := node.GPUMemory
		if memory == 0 { // nobody knows
			memory = math.MaxInt64
		}
		f.gpuMemory[c.TypeOf(i)] = max(f.gpuMemory[c.TypeOf(i)], memory)
	}
	f.clear()
	return f
}

// For returns a view of c in which every GPU is free, in the memory of f where
// that is possible. f may be nil. A policy may keep the result between two
// decisions as a cache.
func (f *Free) For(c *sched.Cluster) *Free {
	if f == nil || f.c != c {
		return NewFree(c)
	}
	f.clear()
	return f
}

func (f *Free) clear() {
	f.total, f.undo, f.parts = 0, f.undo[:0], nil
	clear(f.rackFree)
	clear(f.typeFree)
	clear(f.filled)
	for _, h := range f.typeHist {
		clear(h)
	}
	for _, h := range f.rackHist {
		clear(h)
	}
	for _, b := range f.buckets {
		clear(b)
	}
	for i, node := range f.c.Nodes {
		f.whole[i] = node.Usable()
		f.cpus[i], f.memory[i] = node.CPUs, node.Memory-node.SuspendedMemory
		if f.ready.has(i) {
			usable := f.whole[i].Len()
			f.count(i, usable)
			f.bucket(i, 0, usable)
		}
	}
}

// Cluster returns the cluster this is a view of.
func (f *Free) Cluster() *sched.Cluster { return f.c }

// Total returns the number of wholly free GPUs on ready nodes.
func (f *Free) Total() int { return f.total }

// InRack returns the number of wholly free GPUs on ready nodes of a rack.
func (f *Free) InRack(r int) int { return f.rackFree[r] }

// OfType returns the number of wholly free GPUs of a type on ready nodes.
func (f *Free) OfType(t int) int { return f.typeFree[t] }

// OnNode returns the wholly free GPUs of a node.
func (f *Free) OnNode(n int) sched.GPUSet { return f.whole[n] }

// Fits reports whether every GPU of the placement is free for j to the extent
// that the placement asks, on nodes that take it.
func (f *Free) Fits(j *sched.Job, p sched.Placement) bool {
	for _, s := range p {
		if f.c.Nodes[s.Node].State == sched.Down {
			return false
		}
		if busy := s.GPUs &^ f.whole[s.Node]; busy != 0 {
			parts := f.parts[s.Node]
			if s.Milli == sched.WholeGPU || parts == nil {
				return false
			}
			memory := f.c.Nodes[s.Node].GPUMemory
			for g := busy; g != 0; g &= g - 1 {
				i := bits.TrailingZeros64(uint64(g))
				held := int32(parts.milli[i])
				if held == 0 || held+s.Milli > sched.WholeGPU {
					return false // held == 0 and not free: held whole
				}
				if n := &f.c.Nodes[s.Node]; !parts.seat(n, i) && !(parts.keeps(n, i) && slices.Contains(j.Placement, s)) {
					return false
				}
				if memory > 0 && parts.memory[i]+j.GPUMemory > memory {
					return false
				}
			}
		}
		if f.bounded && f.supplied(j, int(s.Node), s.GPUs.Len()) < s.GPUs.Len() {
			return false
		}
	}
	return true
}

// Take books a placement that Fits.
func (f *Free) Take(j *sched.Job, p sched.Placement) {
	for _, s := range p {
		f.apply(changeOf(j, s, true))
	}
}

// Release gives back a placement that was taken.
func (f *Free) Release(j *sched.Job, p sched.Placement) {
	for _, s := range p {
		f.apply(changeOf(j, s, false))
	}
}

// Mark returns a point to roll back to.
func (f *Free) Mark() int { return len(f.undo) }

// Rollback undoes everything since the mark.
func (f *Free) Rollback(mark int) {
	for i := len(f.undo) - 1; i >= mark; i-- {
		ch := f.undo[i]
		ch.taken = !ch.taken
		f.do(ch)
	}
	f.undo = f.undo[:mark]
}

func (f *Free) apply(ch change) {
	f.do(ch)
	f.undo = append(f.undo, ch)
}

func (f *Free) do(ch change) {
	n := int(ch.slice.Node)
	before := f.whole[n]
	switch {
	case ch.slice.Milli < sched.WholeGPU:
		f.share(ch)
	case ch.taken:
		f.whole[n] &^= ch.slice.GPUs
	default:
		f.whole[n] |= ch.slice.GPUs
	}
	if ch.taken {
		f.cpus[n] -= ch.cpus
		f.memory[n] -= ch.memory
	} else {
		f.cpus[n] += ch.cpus
		f.memory[n] += ch.memory
	}
	if old, now := before.Len(), f.whole[n].Len(); old != now && f.ready.has(n) {
		f.count(n, now-old)
		f.bucket(n, old, now)
	}
}

// share books a part of each GPU. A GPU is wholly free again when the last of
// its sharers has left.
func (f *Free) share(ch change) {
	n := ch.slice.Node
	parts := f.parts[n]
	if parts == nil {
		if f.parts == nil {
			f.parts = map[int32]*shared{}
		}
		parts = new(shared)
		f.parts[n] = parts
	}
	fresh := uint16(0)
	if ch.fresh {
		fresh = 1
	}
	for g := ch.slice.GPUs; g != 0; g &= g - 1 {
		i := bits.TrailingZeros64(uint64(g))
		if ch.taken {
			parts.milli[i] += uint16(ch.slice.Milli)
			parts.jobs[i]++
			parts.fresh[i] += fresh
			parts.memory[i] += ch.gpuMemory
			f.whole[n] &^= 1 << i
			continue
		}
		parts.memory[i] -= ch.gpuMemory
		parts.jobs[i]--
		parts.fresh[i] -= fresh
		if parts.milli[i] -= uint16(ch.slice.Milli); parts.milli[i] == 0 {
			f.whole[n] |= 1 << i
		}
	}
}

func (f *Free) count(n, delta int) {
	f.total += delta
	f.rackFree[f.c.RackOf(n)] += delta
	f.typeFree[f.c.TypeOf(n)] += delta
}

func (f *Free) bucket(n, old, now int) {
	t := f.c.TypeOf(n)
	types, racks := f.typeHist[t], f.inRack(f.c.RackOf(n), t)
	if old > 0 {
		f.buckets[old].remove(n)
		f.filled[old]--
		types[old]--
		racks[old]--
	}
	if now > 0 {
		f.buckets[now].add(n)
		f.filled[now]++
		types[now]++
		racks[now]++
	}
}

// inRack returns the histogram of a GPU type in a rack.
func (f *Free) inRack(rack, t int) histogram { return f.rackHist[rack*len(f.c.Types)+t] }

// histogram counts nodes by their number of wholly free GPUs.
type histogram []int32

func newHistograms(n, size int) []histogram {
	all := make(histogram, n*size)
	out := make([]histogram, n)
	for i := range out {
		out[i] = all[i*size : (i+1)*size]
	}
	return out
}

// nodes returns on how few nodes n GPUs can be had; ok is false if there are
// too few.
func (h histogram) nodes(n int) (count int, ok bool) {
	for k := len(h) - 1; k > 0; k-- {
		if h[k] == 0 {
			continue
		}
		full := min(int(h[k]), n/k)
		n -= full * k
		count += full
		if n == 0 {
			return count, true
		}
		if full < int(h[k]) { // one more of these holds the rest
			return count + 1, true
		}
	}
	return 0, false
}

// room returns how many of n's free GPUs the job could use, at most most, in
// whole tasks.
func (f *Free) room(j *sched.Job, n, most int) int {
	node := &f.c.Nodes[n]
	if !node.Matches(j.Selector) || node.GPUMemory > 0 && j.GPUMemory > node.GPUMemory {
		return 0
	}
	return f.supplied(j, n, most)
}

// supplied returns for how many GPUs of n the job has CPUs and memory, at most
// most, in whole tasks.
func (f *Free) supplied(j *sched.Job, n, most int) int {
	node := &f.c.Nodes[n]
	k := most
	if node.CPUs > 0 && j.CPUs > 0 {
		k = min(k, f.cpus[n]/j.CPUs)
	}
	if node.Memory > 0 && j.Memory > 0 {
		left := f.memory[n]
		if j.Bound() && int(j.Suspended[0].Node) == n {
			left += j.SuspendedMemory() // which it gives back
		}
		k = min(k, int(max(0, left)/j.Memory))
	}
	return k / j.Task() * j.Task()
}

// capacity returns how many of n's GPUs the job could use if nothing ran there,
// in whole tasks.
func (f *Free) capacity(j *sched.Job, n int) int {
	node := &f.c.Nodes[n]
	if !node.Matches(j.Selector) || node.GPUMemory > 0 && j.GPUMemory > node.GPUMemory {
		return 0
	}
	k := node.Usable().Len()
	if node.CPUs > 0 && j.CPUs > 0 {
		k = min(k, node.CPUs/j.CPUs)
	}
	if node.Memory > 0 && j.Memory > 0 {
		k = min(k, int(node.Memory/j.Memory))
	}
	return k / j.Task() * j.Task()
}

// bitset is a set of node indexes.
type bitset []uint64

func newBitset(n int) bitset    { return make(bitset, (n+63)/64) }
func (b bitset) add(i int)      { b[i>>6] |= 1 << (i & 63) }
func (b bitset) remove(i int)   { b[i>>6] &^= 1 << (i & 63) }
func (b bitset) has(i int) bool { return b[i>>6]&(1<<(i&63)) != 0 }
