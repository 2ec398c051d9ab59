// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package place

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/fairway-gpu/fairway/sched"
)

// drawRegion draws a part of the cluster and returns its nodes as well.
func drawRegion(t *rapid.T, c *sched.Cluster) (region, []int) {
	in := region{
		gpuType: rapid.IntRange(0, len(c.Types)-1).Draw(t, "type"),
		rack:    rapid.IntRange(anyRack, len(c.Racks)-1).Draw(t, "rack"),
	}
	var nodes []int
	for i := range c.Nodes {
		if c.TypeOf(i) == in.gpuType && (in.rack == anyRack || c.RackOf(i) == in.rack) {
			nodes = append(nodes, i)
		}
	}
	return in, nodes
}

func TestSmallestAndLargest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawScene(t)
		j := s.job(t)
		in, nodes := drawRegion(t, s.m.c)
		n := rapid.IntRange(1, 8).Draw(t, "n")

		want := -1
		most := 0
		for _, i := range nodes {
			r := s.m.room(j, i)
			most = max(most, r)
			if r >= n && (want < 0 || s.m.free(i) < s.m.free(want)) {
				want = i
			}
		}
		got, ok := s.f.smallest(j, n, in)
		if ok != (want >= 0) || (ok && got != want) {
			t.Fatalf("smallest(%d) = node %d, %t; want node %d", n, got, ok, want)
		}
		node, room := s.f.largest(j, in)
		if room != most || (room > 0 && s.m.room(j, node) != room) {
			t.Fatalf("largest = node %d with room for %d (%d by the model); want %d", node, room, s.m.room(j, node), most)
		}
	})
}

func TestFewest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawScene(t)
		j := s.job(t)
		j.GPUTypes, j.MaxSpread = nil, sched.NoLevel // a region stands for both
		in, nodes := drawRegion(t, s.m.c)
		n := j.Task() * rapid.IntRange(1, 12/j.Task()).Draw(t, "tasks")

		// The largest rooms first give the fewest nodes.
		var rooms []int
		for _, i := range nodes {
			rooms = append(rooms, s.m.room(j, i))
		}
		slices.SortFunc(rooms, func(a, b int) int { return b - a })
		want, left := 0, n
		for _, r := range rooms {
			if left > 0 && r > 0 {
				want++
				left -= r
			}
		}
		if left > 0 {
			want = 0
		}
		if got := s.f.nodesFor(j, n, in); got != want {
			t.Fatalf("nodesFor(%d) = %d; want %d, rooms are %v", n, got, want, rooms)
		}
		before := copyOf(s.f)
		p, ok := s.f.fewest(j, n, in)
		if ok != (want > 0) || len(p) != want {
			t.Fatalf("fewest(%d) = %s, %t; want %d nodes, rooms are %v", n, p.Text(s.m.c), ok, want, rooms)
		}
		if !ok && copyOf(s.f) != before {
			t.Fatal("fewest failed and took something")
		}
		checkTaken(t, s, j, p, n)
	})
}

// checkTaken checks that a placement that a search returned is n GPUs that were
// free, with all the job needs, and that the view has booked it.
func checkTaken(t *rapid.T, s *scene, j *sched.Job, p sched.Placement, n int) {
	if p == nil {
		return
	}
	if p.GPUs() != n {
		t.Fatalf("%s has %d GPUs; want %d", p.Text(s.m.c), p.GPUs(), n)
	}
	for k, slice := range p {
		node := int(slice.Node)
		if s.m.c.TypeOf(node) != s.m.c.TypeOf(int(p[0].Node)) {
			t.Fatalf("%s mixes GPU types", p.Text(s.m.c))
		}
		if !j.Accepts(s.m.c.Nodes[node].Type) || slice.Milli != sched.WholeGPU || slice.GPUs.Len()%j.Task() != 0 || slice.GPUs == 0 {
			t.Fatalf("%s is not what the job accepts", p.Text(s.m.c))
		}
		if room := s.m.room(j, node); slice.GPUs.Len() > room {
			t.Fatalf("%s: node %d has room for %d", p.Text(s.m.c), node, room)
		}
		for _, g := range slice.GPUs.Indexes() {
			if s.m.held[[2]int{node, g}] != 0 {
				t.Fatalf("%s: GPU %d of node %d is not free", p.Text(s.m.c), g, node)
			}
		}
		for _, other := range p[:k] {
			if other.Node == slice.Node {
				t.Fatalf("%s has a node twice", p.Text(s.m.c))
			}
		}
	}
	if j.MaxSpread != sched.NoLevel && s.m.c.Level(p) > j.MaxSpread {
		t.Fatalf("%s spans level %s; the job accepts %s", p.Text(s.m.c), s.m.c.Level(p), j.MaxSpread)
	}
	s.m.book(j, p, +1)
	s.check(t)
}
