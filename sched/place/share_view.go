// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package place

import (
	"math/bits"
	"time"

	"github.com/fairway-gpu/fairway/sched"
)

// SharedView tracks which jobs hold which GPU, for policies that let jobs share. Each
// GPU has a few seats of equal size; a job that shares takes one on each of its
// GPUs, whether or not somebody sits beside it yet, because to change its share
// later would be a restart. A seat is a place, not a limit of speed.
//
// Only jobs that may share and whose utilisation and memory are known get
// company; the others hold whole GPUs.
type SharedView struct {
	c      *sched.Cluster
	most   int   // seats of a GPU
	margin int64 // bytes of GPU memory that stay free beside several jobs
	stride int   // between the GPUs of two nodes

	on     []*sched.Job // by GPU * most: who sits there, the first count of them
	count  []uint8      // by GPU; more than most: not all of them are in on
	milli  []int32      // by GPU: thousandths held
	memory []int64      // by GPU: bytes held
	util   []float64    // by GPU: the sum of the jobs' utilisations
	cpus   []int        // by node: CPUs not given away
	host   []int64      // by node: memory not given away
	idle   []sched.GPUSet
	open   []sched.GPUSet  // by node: GPUs that somebody holds and that take one more
	closed []sched.GPUSet  // by node: reserved for somebody
	until  []time.Duration // by GPU: expected time until the last of its jobs ends
	held   int             // GPUs that are reserved
	now    time.Time

	failed []misfit
	who    Company  // a buffer
	prices []priced // a buffer
	ends   []ending // a buffer
}

// Sharable reports whether a job may be put beside others: it agrees, and what
// it does to a GPU is known.
func Sharable(j *sched.Job) bool { return j.Shareable && j.GPUUtil > 0 && j.GPUMemory > 0 }

// For returns the cluster of a snapshot with nobody on it and most seats on each
// GPU, in the memory of s where that is possible. s may be nil. Beside another
// job, margin bytes of a GPU's memory stay free.
func (s *SharedView) For(at *sched.Snapshot, most int, margin int64) *SharedView {
	c := at.Cluster
	if s == nil || s.c != c || s.most != most || s.margin != margin {
		n, g := len(c.Nodes), len(c.Nodes)*c.MaxGPUs()
		s = &SharedView{
			c: c, most: most, margin: margin, stride: c.MaxGPUs(),
			on: make([]*sched.Job, g*most), count: make([]uint8, g), milli: make([]int32, g),
			memory: make([]int64, g), util: make([]float64, g),
			cpus: make([]int, n), host: make([]int64, n),
			idle: make([]sched.GPUSet, n), open: make([]sched.GPUSet, n), closed: make([]sched.GPUSet, n),
			until: make([]time.Duration, g),
		}
	} else {
		clear(s.count)
		clear(s.milli)
		clear(s.memory)
		clear(s.util)
		clear(s.open)
		clear(s.closed)
		clear(s.until)
	}
	s.failed, s.held, s.now = s.failed[:0], 0, at.Now
	for i := range c.Nodes {
		s.idle[i] = c.Nodes[i].Usable()
		s.cpus[i], s.host[i] = c.Nodes[i].CPUs, c.Nodes[i].Memory
	}
	return s
}

// Seat is the share of a GPU that one seat is, in thousandths.
func (s *SharedView) Seat() int32 { return int32(sched.WholeGPU / s.most) }

// Take puts a job on GPUs.
func (s *SharedView) Take(j *sched.Job, p sched.Placement) {
	left := s.left(j)
	for _, slice := range p {
		n := int(slice.Node)
		k := slice.GPUs.Len()
		s.cpus[n] -= k * j.CPUs
		s.host[n] -= int64(k) * j.Memory
		s.idle[n] &^= slice.GPUs
		for g := slice.GPUs; g != 0; g &= g - 1 {
			at := bits.TrailingZeros64(uint64(g))
			gpu := n*s.stride + at
			if int(s.count[gpu]) < s.most {
				s.on[gpu*s.most+int(s.count[gpu])] = j
			}
			s.count[gpu]++
			s.milli[gpu] += slice.Milli
			s.memory[gpu] += j.GPUMemory
			s.util[gpu] += j.GPUUtil
			s.until[gpu] = max(s.until[gpu], left)
			s.reopen(n, at)
		}
	}
}

// reopen decides whether a GPU takes one more.
func (s *SharedView) reopen(node, at int) {
	gpu := node*s.stride + at
	takes := s.count[gpu] > 0 && int(s.count[gpu]) < s.seats(node) && s.milli[gpu]+s.Seat() <= sched.WholeGPU
	for _, j := range s.at(gpu) {
		takes = takes && Sharable(j)
	}
	if takes {
		s.open[node] |= 1 << at
	} else {
		s.open[node] &^= 1 << at
	}
}

// seats returns how many jobs each GPU of a node takes.
func (s *SharedView) seats(node int) int {
	if n := s.c.Nodes[node].Seats; n > 0 {
		return min(n, s.most)
	}
	return s.most
}

// at returns who sits on a GPU.
func (s *SharedView) at(gpu int) []*sched.Job {
	return s.on[gpu*s.most : gpu*s.most+min(int(s.count[gpu]), s.most)]
}

// Idle returns the GPUs of a node that nobody holds.
func (s *SharedView) Idle(node int) sched.GPUSet { return s.idle[node] }

// Open returns the GPUs of a node that somebody holds and that take one more.
func (s *SharedView) Open(node int) sched.GPUSet { return s.open[node] }

// On returns the jobs on a GPU: all of them, if they are no more than it has
// seats. It is valid until the next Take.
func (s *SharedView) On(node, gpu int) []*sched.Job { return s.at(node*s.stride + gpu) }

// Crowd returns how many jobs are on a GPU.
func (s *SharedView) Crowd(node, gpu int) int { return int(s.count[node*s.stride+gpu]) }

// left is how long a job is expected to go on: by its estimate, else as long as
// it has run.
func (s *SharedView) left(j *sched.Job) time.Duration {
	if left, ok := j.Remaining(s.now); ok {
		return left
	}
	return j.RanBy(s.now)
}

// Company is who is on a GPU that a job might be put on.
type Company struct {
	Jobs     []*sched.Job
	Util     float64 // the sum of theirs
	Memory   int64   // bytes that they need
	Capacity int64   // bytes that the GPU has; 0: unknown
	Type     int     // of the GPU, by its index in Cluster.Types
}

// Judge says what it costs to put a job on a GPU; ok is false if it may not be
// there. It must not keep the Company. A job that uses the GPU more, or needs more memory, must not be allowed
// where one that needs less is not.
type Judge func(on *Company, j *sched.Job) (cost float64, ok bool)

// company describes a GPU. It is valid until the next call.
func (s *SharedView) company(node, at int) *Company {
	gpu := node*s.stride + at
	s.who = Company{
		Jobs: s.at(gpu), Util: s.util[gpu], Memory: s.memory[gpu],
		Capacity: s.c.Nodes[node].GPUMemory, Type: s.c.TypeOf(node),
	}
	return &s.who
}

// lowest returns the lowest GPU of a set that is not empty.
func lowest(g sched.GPUSet) int { return bits.TrailingZeros64(uint64(g)) }
