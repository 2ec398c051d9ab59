// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package place

import (
	"fmt"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"github.com/fairway-gpu/fairway/policy/policytest"
	"github.com/fairway-gpu/fairway/sched"
)

// model is a Free view as plainly as it can be written: for every GPU, who
// holds how much of it.
type model struct {
	c    *sched.Cluster
	held map[[2]int]int32 // (node, GPU) -> thousandths
	jobs map[[2]int]int   // (node, GPU) -> how many hold some of it
	cpus map[int]int      // by node, given away
	mem  map[int]int64
}

func newModel(c *sched.Cluster) *model {
	m := &model{c, map[[2]int]int32{}, map[[2]int]int{}, map[int]int{}, map[int]int64{}}
	for i, n := range c.Nodes {
		for _, g := range n.Others.Indexes() {
			m.held[[2]int{i, g}] = sched.WholeGPU
		}
	}
	return m
}

func (m *model) book(j *sched.Job, p sched.Placement, sign int) {
	for _, s := range p {
		for _, g := range s.GPUs.Indexes() {
			m.held[[2]int{int(s.Node), g}] += int32(sign) * s.Milli
			m.jobs[[2]int{int(s.Node), g}] += sign
			m.cpus[int(s.Node)] += sign * j.CPUs
			m.mem[int(s.Node)] += int64(sign) * j.Memory
		}
	}
}

// free returns how many GPUs of a node nobody holds a part of.
func (m *model) free(node int) int {
	n := 0
	for g := range m.c.Nodes[node].GPUs {
		if m.held[[2]int{node, g}] == 0 {
			n++
		}
	}
	return n
}

// room returns how many free GPUs of a node the job could use.
func (m *model) room(j *sched.Job, node int) int {
	n := &m.c.Nodes[node]
	if n.State != sched.Ready || !bears(n, j.Selector) || (n.GPUMemory > 0 && j.GPUMemory > n.GPUMemory) {
		return 0
	}
	most := 0
	for k := 0; k <= m.free(node); k += j.Task() {
		if (n.CPUs == 0 || m.cpus[node]+k*j.CPUs <= n.CPUs) && (n.Memory == 0 || m.mem[node]+int64(k)*j.Memory <= n.Memory) {
			most = k
		}
	}
	return most
}

// bears reports whether a node takes jobs that need a mark, which may be empty.
func bears(n *sched.Node, mark string) bool {
	for _, m := range n.Labels {
		if m == mark {
			return true
		}
	}
	return mark == "" && !n.Dedicated
}

// scene is a cluster with some jobs on it, as a Free view and as a model.
type scene struct {
	f *Free
	m *model
	// placed are what the jobs hold.
	placed []held
	jobs   int
}

type held struct {
	j *sched.Job
	p sched.Placement
}

// drawScene draws a cluster and lets a few jobs take GPUs of it by hand, whole
// or in part, without any strategy.
func drawScene(t *rapid.T) *scene {
	c := policytest.Random(t).State.Cluster()
	s := &scene{f: NewFree(c), m: newModel(c)}
	for range rapid.IntRange(0, 8).Draw(t, "taken") {
		s.take(t)
	}
	return s
}

func (s *scene) job(t *rapid.T) *sched.Job {
	s.jobs++
	spec := policytest.DrawJob(t, sched.JobID(fmt.Sprint("j", s.jobs)))
	return &sched.Job{Spec: spec}
}

// take lets a job take some free GPUs of one node.
func (s *scene) take(t *rapid.T) {
	j := s.job(t)
	node := rapid.IntRange(0, len(s.m.c.Nodes)-1).Draw(t, "node")
	k := j.Task() * rapid.IntRange(0, s.m.room(j, node)/j.Task()).Draw(t, "tasks")
	var gpus sched.GPUSet
	for g := range s.m.c.Nodes[node].GPUs {
		if gpus.Len() < k && s.m.held[[2]int{node, g}] == 0 {
			gpus |= 1 << g
		}
	}
	if gpus == 0 {
		return
	}
	milli := rapid.SampledFrom([]int32{sched.WholeGPU, sched.WholeGPU, 400}).Draw(t, "milli")
	p := sched.Placement{{Node: int32(node), Milli: milli, GPUs: gpus}}
	if !s.f.Fits(j, p) {
		t.Fatalf("%s is free and does not fit", p.Text(s.m.c))
	}
	s.f.Take(j, p)
	s.m.book(j, p, +1)
	s.placed = append(s.placed, held{j, p})
}

func (s *scene) release(t *rapid.T) {
	if len(s.placed) == 0 {
		return
	}
	i := rapid.IntRange(0, len(s.placed)-1).Draw(t, "which")
	h := s.placed[i]
	s.f.Release(h.j, h.p)
	s.m.book(h.j, h.p, -1)
	s.placed = append(s.placed[:i:i], s.placed[i+1:]...)
}

// check holds the view and all its indexes against the model.
func (s *scene) check(t *rapid.T) {
	c := s.m.c
	total, racks, types := 0, make([]int, len(c.Racks)), make([]int, len(c.Types))
	typeHist := newHistograms(len(c.Types), c.MaxGPUs()+1)
	rackHist := newHistograms(len(c.Racks)*len(c.Types), c.MaxGPUs()+1)
	for i, n := range c.Nodes {
		k := s.m.free(i)
		if got := s.f.OnNode(i).Len(); got != k {
			t.Fatalf("node %d has %d free GPUs; want %d", i, got, k)
		}
		ready := n.State == sched.Ready
		for b := 1; b < len(s.f.buckets); b++ {
			if got := s.f.buckets[b].has(i); got != (ready && b == k) {
				t.Fatalf("node %d with %d free GPUs is in bucket %d: %t", i, k, b, got)
			}
		}
		if !ready {
			continue
		}
		total += k
		racks[c.RackOf(i)] += k
		types[c.TypeOf(i)] += k
		if k > 0 {
			typeHist[c.TypeOf(i)][k]++
			rackHist[c.RackOf(i)*len(c.Types)+c.TypeOf(i)][k]++
		}
	}
	if s.f.Total() != total || !reflect.DeepEqual(s.f.rackFree, racks) || !reflect.DeepEqual(s.f.typeFree, types) {
		t.Fatalf("free: %d, racks %v, types %v; want %d, %v, %v", s.f.Total(), s.f.rackFree, s.f.typeFree, total, racks, types)
	}
	if !sameHist(s.f.typeHist, typeHist) || !sameHist(s.f.rackHist, rackHist) {
		t.Fatalf("histograms %v %v; want %v %v", s.f.typeHist, s.f.rackHist, typeHist, rackHist)
	}
	for b := 1; b < len(s.f.filled); b++ {
		n := 0
		for i := range c.Nodes {
			if s.f.buckets[b].has(i) {
				n++
			}
		}
		if s.f.filled[b] != n {
			t.Fatalf("bucket %d is said to have %d nodes; it has %d", b, s.f.filled[b], n)
		}
	}
}

// sameHist compares histograms, without the nodes that have nothing free.
func sameHist(a, b []histogram) bool {
	for i := range a {
		if !reflect.DeepEqual(a[i][1:], b[i][1:]) {
			return false
		}
	}
	return len(a) == len(b)
}

func TestFreeAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawScene(t)
		s.check(t)
		for range rapid.IntRange(0, 10).Draw(t, "steps") {
			if rapid.Bool().Draw(t, "take") {
				s.take(t)
			} else {
				s.release(t)
			}
			s.check(t)
		}
		s.f = s.f.For(s.m.c)
		s.m = newModel(s.m.c)
		s.check(t)
	})
}

// TestRollback: what was taken and released since a mark leaves no trace.
func TestRollback(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawScene(t)
		before, mark := copyOf(s.f), s.f.Mark()
		for range rapid.IntRange(1, 10).Draw(t, "steps") {
			switch rapid.IntRange(0, 2).Draw(t, "what") {
			case 0:
				s.take(t)
			case 1:
				s.release(t)
			case 2:
				j := s.job(t)
				p, _ := Consolidated(s.f, j, j.GPUs)
				s.m.book(j, p, +1)
			}
		}
		s.f.Rollback(mark)
		if after := copyOf(s.f); !reflect.DeepEqual(before, after) {
			t.Fatalf("after the rollback:\n%+v\nwant\n%+v", after, before)
		}
	})
}

// copyOf copies all of a view that a rollback must restore.
func copyOf(f *Free) any {
	parts := map[int32]shared{}
	for n, p := range f.parts {
		if *p != (shared{}) {
			parts[n] = *p
		}
	}
	return fmt.Sprint(f.whole, parts, f.cpus, f.memory, f.total, f.rackFree, f.typeFree, f.buckets, f.filled[1:], len(f.undo), f.typeHist, f.rackHist)
}

// TestFits holds Fits against the model for placements over a part of a GPU.
func TestFits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawScene(t)
		j := &sched.Job{Spec: sched.Spec{GPUs: 1, CPUs: rapid.IntRange(0, 3).Draw(t, "cpus")}}
		node := rapid.IntRange(0, len(s.m.c.Nodes)-1).Draw(t, "node")
		gpu := rapid.IntRange(0, s.m.c.Nodes[node].GPUs-1).Draw(t, "gpu")
		milli := rapid.SampledFrom([]int32{1000, 600, 601, 1}).Draw(t, "milli")
		p := sched.Placement{{Node: int32(node), Milli: milli, GPUs: 1 << gpu}}
		n := s.m.c.Nodes[node]
		at := [2]int{node, gpu}
		want := n.State != sched.Down && s.m.held[at]+milli <= sched.WholeGPU && (n.Seats == 0 || s.m.jobs[at] < n.Seats) &&
			(n.CPUs == 0 || s.m.cpus[node]+j.CPUs <= n.CPUs) && (n.Memory == 0 || s.m.mem[node] <= n.Memory)
		if got := s.f.Fits(j, p); got != want {
			t.Fatalf("Fits(%s) = %t; want %t", p.Text(s.m.c), got, want)
		}
	})
}
