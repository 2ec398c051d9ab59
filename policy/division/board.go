// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package division

import (
	"math"
	"slices"
	"strings"

	"github.com/fairway-gpu/fairway/sched"
)

// board is a cluster during a search: which GPUs are free on each node, and who may
// use them. Nodes that take new work are kept in bit sets by type and number of
// free GPUs, so that the best fit is found in a few words however many jobs there
// are.
type board struct {
	c       *sched.Cluster
	apart   bool
	bounded bool    // some node limits CPUs or memory, or has islands
	ready   []bool  // by node: it takes new work
	islands []int32 // by node: GPUs of its largest island

	free   []int32 // by node
	cpus   []int64
	memory []int64
	wide   []int16 // by node: jobs on it that span several nodes
	open   bitset  // nodes that can take one more of those
	left   []int   // GPUs free, by type
	inRack []int   // the same by rack and type
	quota  []int   // GPUs left, by tenant

	words   int      // of a bit set
	sizes   int      // buckets of a type
	buckets []uint64 // bit sets by type and number of free GPUs
	filled  []int32  // number of nodes in each
	racks   []bitset

	sets  []bitset       // nodes that some jobs may use; the first is unused
	known map[string]int // index in sets, by what the jobs need and avoid
}

const unlimited = math.MaxInt64 / 4

// newBoard returns a board on which the GPUs are free that are free in the problem; hold
// adds what else their holders use.
func newBoard(p *problem) *board {
	c := p.s.Cluster
	n := len(c.Nodes)
	b := &board{
		c: c, apart: p.Apart, ready: make([]bool, n), islands: make([]int32, n),
		free: make([]int32, n), cpus: make([]int64, n), memory: make([]int64, n), wide: make([]int16, n),
		open: newBitset(n), left: make([]int, len(c.Types)), inRack: make([]int, len(c.Racks)*len(c.Types)), quota: slices.Clone(p.limits),
		words: (n + 63) / 64, sizes: c.MaxGPUs() + 1, racks: make([]bitset, len(c.Racks)),
	}
	b.buckets = make([]uint64, len(c.Types)*b.sizes*b.words)
	b.filled = make([]int32, len(c.Types)*b.sizes)
	for r := range b.racks {
		b.racks[r] = newBitset(n)
	}
	for i := range c.Nodes {
		b.addNode(i, p.free.OnNode(i).Len())
	}
	return b
}

// hold adds what a fixed job uses besides GPUs.
func (b *board) hold(j *sched.Job, at sched.Placement) {
	for _, s := range at {
		b.cpus[s.Node] -= int64(s.GPUs.Len() * j.CPUs)
		b.memory[s.Node] -= int64(s.GPUs.Len()) * j.Memory
		if len(at) > 1 {
			b.widen(int(s.Node), 1)
		}
	}
}

func (b *board) addNode(i, free int) {
	node := &b.c.Nodes[i]
	b.racks[b.c.RackOf(i)].add(i)
	b.open.add(i)
	b.cpus[i], b.memory[i], b.islands[i] = unlimited, unlimited, int32(node.Usable().Len())
	if node.CPUs > 0 {
		b.cpus[i] = int64(node.CPUs)
	}
	if node.Memory > 0 {
		b.memory[i] = node.Memory
	}
	if len(node.Islands) > 0 {
		b.islands[i] = 1
		for _, island := range node.Islands {
			b.islands[i] = max(b.islands[i], int32((island & node.Usable()).Len()))
		}
	}
	b.bounded = b.bounded || node.CPUs > 0 || node.Memory > 0 || node.GPUMemory > 0 || len(node.Islands) > 0
	if node.State == sched.Ready {
		b.ready[i] = true
		b.free[i] = int32(free)
		b.left[b.c.TypeOf(i)] += free
		b.inRack[b.rackOf(i)] += free
		b.bucket(b.c.TypeOf(i), free).add(i)
		b.filled[b.c.TypeOf(i)*b.sizes+free]++
	}
}

// copyFrom makes the board equal to another of the same problem.
func (b *board) copyFrom(o *board) {
	mine := *b
	*b = *o
	b.free = append(mine.free[:0], o.free...)
	b.cpus = append(mine.cpus[:0], o.cpus...)
	b.memory = append(mine.memory[:0], o.memory...)
	b.wide = append(mine.wide[:0], o.wide...)
	b.open = append(mine.open[:0], o.open...)
	b.left = append(mine.left[:0], o.left...)
	b.inRack = append(mine.inRack[:0], o.inRack...)
	b.quota = append(mine.quota[:0], o.quota...)
	b.buckets = append(mine.buckets[:0], o.buckets...)
	b.filled = append(mine.filled[:0], o.filled...)
}

// rackOf returns where in inRack the GPUs of a node are counted.
func (b *board) rackOf(node int) int { return b.c.RackOf(node)*len(b.left) + b.c.TypeOf(node) }

// bucket returns the nodes of a type with k free GPUs.
func (b *board) bucket(t, k int) bitset {
	at := (t*b.sizes + k) * b.words
	return b.buckets[at : at+b.words]
}

// widen counts a job that spans several nodes on one of them.
func (b *board) widen(node int, by int16) {
	b.wide[node] += by
	if b.apart && b.wide[node] > 0 {
		b.open.remove(node)
	} else {
		b.open.add(node)
	}
}

// among returns the index in sets of the nodes that have a label and are not
// avoided; 0 if that is all nodes.
func (b *board) among(needs string, avoid []string) int {
	if needs == "" && len(avoid) == 0 && !b.c.HasDedicated() {
		return 0
	}
	key := needs + " " + strings.Join(avoid, " ")
	if at, ok := b.known[key]; ok {
		return at
	}
	set := newBitset(len(b.c.Nodes))
	for i := range b.c.Nodes {
		if n := &b.c.Nodes[i]; n.Matches(needs) && !slices.Contains(avoid, n.Name) {
			set.add(i)
		}
	}
	if b.known == nil {
		b.known, b.sets = map[string]int{}, []bitset{nil}
	}
	at := len(b.sets)
	b.sets = append(b.sets, set)
	b.known[key] = at
	return at
}

// admits reports whether jobs limited to a set of nodes may use a node.
func (b *board) admits(among, node int) bool { return among == 0 || b.sets[among].has(node) }

// room returns how many of a node's free GPUs a demand could use, in whole tasks.
func (b *board) room(d demand, node int) int {
	if d.among != 0 && !b.sets[d.among].has(node) {
		return 0
	}
	k := int(b.free[node])
	if b.bounded {
		if n := &b.c.Nodes[node]; n.GPUMemory > 0 && d.gpuMemory > n.GPUMemory {
			return 0
		}
		if d.cpus > 0 {
			k = min(k, int(max(0, b.cpus[node])/int64(d.cpus)))
		}
		if d.memory > 0 {
			k = min(k, int(max(0, b.memory[node])/d.memory))
		}
		if d.island {
			k = min(k, int(b.islands[node]))
		}
	}
	if d.task == 1 {
		return k
	}
	return k / d.task * d.task
}

// fits reports whether the job may have the row. It may keep what it holds on a
// node that takes no new work.
func (b *board) fits(j *Job, r row) bool {
	if j.tenant >= 0 && b.quota[j.tenant] < r.gpus() {
		return false
	}
	there := j.demand
	there.among = 0
	for _, s := range r {
		if j.demand.among != 0 && !b.mayHold(j, int(s.node)) {
			return false
		}
		if b.ready[s.node] && (b.room(there, int(s.node)) < int(s.gpus) || (len(r) > 1 && !b.open.has(int(s.node)))) {
			return false
		}
	}
	return true
}

// mayHold reports whether a job may have GPUs of a node: it may use the node, or
// already holds GPUs there.
func (b *board) mayHold(j *Job, node int) bool {
	return b.admits(j.demand.among, node) || j.held.on(node) > 0
}

// accepts reports whether all nodes of a row take new work.
func (b *board) accepts(r row) bool {
	for _, s := range r {
		if !b.ready[s.node] {
			return false
		}
	}
	return true
}

// take gives the job a row that fits.
func (b *board) take(j *Job, r row) { b.move(j, r, 1) }

// drop takes the row back.
func (b *board) drop(j *Job, r row) { b.move(j, r, -1) }

func (b *board) move(j *Job, r row, sign int32) {
	for _, s := range r {
		n, more := int(s.node), sign*s.gpus
		if j.tenant >= 0 {
			b.quota[j.tenant] -= int(more)
		}
		if !b.ready[n] {
			continue
		}
		t, old := b.c.TypeOf(n), b.free[n]
		b.free[n] = old - more
		b.left[t] -= int(more)
		b.inRack[b.rackOf(n)] -= int(more)
		b.bucket(t, int(old)).remove(n)
		b.filled[t*b.sizes+int(old)]--
		b.bucket(t, int(b.free[n])).add(n)
		b.filled[t*b.sizes+int(b.free[n])]++
		if b.bounded {
			b.cpus[n] -= int64(more) * int64(j.demand.cpus)
			b.memory[n] -= int64(more) * j.demand.memory
		}
		if len(r) > 1 {
			b.widen(n, int16(sign))
		}
	}
}

// bitset is a set of node indexes.
type bitset []uint64

func newBitset(n int) bitset    { return make(bitset, (n+63)/64) }
func (b bitset) add(i int)      { b[i>>6] |= 1 << (i & 63) }
func (b bitset) remove(i int)   { b[i>>6] &^= 1 << (i & 63) }
func (b bitset) has(i int) bool { return b[i>>6]&(1<<(i&63)) != 0 }
