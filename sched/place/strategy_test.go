// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package place

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/fairway-gpu/fairway/sched"
)

// canHost says, by trying everything, whether the job finds its GPUs within a
// level: in an island, on a node, in a rack, anywhere, of one type.
func (m *model) canHost(j *sched.Job, level sched.Level) bool {
	if j.MaxSpread != sched.NoLevel {
		level = min(level, j.MaxSpread)
	}
	for _, gpuType := range m.c.Types {
		if !j.Accepts(gpuType) {
			continue
		}
		all, racks := 0, map[int]int{}
		for i, n := range m.c.Nodes {
			if n.Type != gpuType {
				continue
			}
			r := m.room(j, i)
			all += r
			racks[m.c.RackOf(i)] += r
			if r >= j.GPUs && (level >= sched.SameMachine || m.inIsland(j, i)) {
				return true
			}
		}
		if level == sched.SameRack && slices.ContainsFunc(values(racks), func(r int) bool { return r >= j.GPUs }) {
			return true
		}
		if level >= sched.CrossRack && all >= j.GPUs {
			return true
		}
	}
	return false
}

func values(m map[int]int) []int {
	var out []int
	for _, v := range m {
		out = append(out, v)
	}
	return out
}

func (m *model) inIsland(j *sched.Job, node int) bool {
	islands := m.c.Nodes[node].Islands
	if len(islands) == 0 || j.GPUs == 1 {
		return true
	}
	for _, island := range islands {
		free := 0
		for _, g := range island.Indexes() {
			if m.held[[2]int{node, g}] == 0 {
				free++
			}
		}
		if free >= j.GPUs {
			return true
		}
	}
	return false
}

// TestStrategies: every strategy finds GPUs exactly when there are some, takes
// what the job accepts, and takes nothing when it fails.
func TestStrategies(t *testing.T) {
	for name, c := range map[string]struct {
		place Strategy
		level sched.Level
	}{
		"consolidated": {Consolidated, sched.CrossRack},
		"rack-local":   {RackLocal, sched.SameRack},
		"most-free":    {MostFree, sched.CrossRack},
		"fragments":    {Fragments, sched.CrossRack},
		"one node":     {func(f *Free, j *sched.Job, n int) (sched.Placement, bool) { return f.Within(j, n, sched.SameMachine) }, sched.SameMachine},
		"one island":   {func(f *Free, j *sched.Job, n int) (sched.Placement, bool) { return f.Within(j, n, sched.SameSlot) }, sched.SameSlot},
	} {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				s := drawScene(t)
				j := s.job(t)
				want := s.m.canHost(j, c.level)
				before := copyOf(s.f)
				p, ok := c.place(s.f, j, j.GPUs)
				if ok != want {
					t.Fatalf("%d GPUs within %s (at most %s): %s, %t; want %t", j.GPUs, c.level, j.MaxSpread, p.Text(s.m.c), ok, want)
				}
				if !ok && copyOf(s.f) != before {
					t.Fatal("it failed and took something")
				}
				if ok && s.m.c.Level(p) > c.level {
					t.Fatalf("%s spans %s; want %s at the widest", p.Text(s.m.c), s.m.c.Level(p), c.level)
				}
				if ok {
					checkTaken(t, s, j, p, j.GPUs)
				}
			})
		})
	}
}

// TestConsolidatedIsNearest: no nearer level would have had room.
func TestConsolidatedIsNearest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawScene(t)
		j := s.job(t)
		j.GPUTypes = nil
		oneType := len(s.m.c.Types) == 1 // of several types the first with room is taken, near or not
		possible := [...]bool{sched.SameMachine: s.m.canHost(j, sched.SameMachine), sched.SameRack: s.m.canHost(j, sched.SameRack)}
		p, ok := Consolidated(s.f, j, j.GPUs)
		if !ok || !oneType {
			return
		}
		for level := sched.SameMachine; level < s.m.c.Level(p) && level <= sched.SameRack; level++ {
			if possible[level] {
				t.Fatalf("%s spans %s; level %s has room", p.Text(s.m.c), s.m.c.Level(p), level)
			}
		}
	})
}

// TestFewestNodes: on the fewest nodes that an empty cluster would need within
// what the job accepts, or not at all.
func TestFewestNodes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawScene(t)
		j := s.job(t)
		before := copyOf(s.f)
		p, ok := FewestNodes(s.f, j, j.GPUs)
		if !ok {
			if copyOf(s.f) != before {
				t.Fatal("it failed and took something")
			}
			// An empty cluster must host what can be hosted at all.
			empty, none := NewFree(ready(t, s.m.c)), newModel(ready(t, s.m.c))
			if _, ok := FewestNodes(empty, j, j.GPUs); ok != none.canHost(j, sched.CrossRack) {
				t.Fatalf("in an empty cluster %d GPUs (at most %s) give %t; want %t", j.GPUs, j.MaxSpread, ok, !ok)
			}
			return
		}
		checkTaken(t, s, j, p, j.GPUs)
		least := 0
		full := newModel(ready(t, s.m.c))
		for rack := range s.m.c.Racks {
			if j.MaxSpread == sched.NoLevel || j.MaxSpread == sched.CrossRack {
				rack = anyRack
			}
			var rooms []int
			for i := range s.m.c.Nodes {
				if s.m.c.TypeOf(i) == s.m.c.TypeOf(int(p[0].Node)) && (rack == anyRack || s.m.c.RackOf(i) == rack) {
					rooms = append(rooms, full.room(j, i))
				}
			}
			slices.SortFunc(rooms, func(a, b int) int { return b - a })
			left, nodes := j.GPUs, 0
			for _, r := range rooms {
				if left > 0 {
					left -= r
					nodes++
				}
			}
			if left <= 0 && (least == 0 || nodes < least) {
				least = nodes
			}
		}
		if len(p) != least {
			t.Fatalf("%s has %d nodes; an empty cluster needs %d", p.Text(s.m.c), len(p), least)
		}
	})
}

// ready returns the cluster with its cordoned nodes ready.
func ready(t *rapid.T, c *sched.Cluster) *sched.Cluster {
	nodes := slices.Clone(c.Nodes)
	for i := range nodes {
		if nodes[i].State == sched.Cordoned {
			nodes[i].State = sched.Ready
		}
	}
	c, err := sched.NewCluster(nodes)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestShapes shows on one small cluster what each strategy takes first.
func TestShapes(t *testing.T) {
	c, err := sched.NewCluster([]sched.Node{
		{Name: "a", GPUs: 4, Rack: "r0"}, {Name: "b", GPUs: 4, Rack: "r0"}, {Name: "c", GPUs: 4, Rack: "r1"}, {Name: "d", GPUs: 8, Rack: "r1"},
	})
	if err != nil {
		t.Fatal(err)
	}
	ladder := Ladder{Rack: time.Minute, Any: time.Hour}
	rung := func(l sched.Level) Strategy {
		return func(f *Free, j *sched.Job, n int) (sched.Placement, bool) { return ladder.Place(f, j, n, l) }
	}
	for _, x := range []struct {
		name  string
		place Strategy
		spec  sched.Spec
		want  string
	}{
		// Free at first: a 3, b 1, c 4, d 2.
		{"best fit", Consolidated, sched.Spec{GPUs: 2}, "d[6-7]"},
		{"best fit, larger", Consolidated, sched.Spec{GPUs: 3}, "a[1-3]"},
		{"one rack before two", Consolidated, sched.Spec{GPUs: 6}, "c[0-3] d[6-7]"},
		{"two racks", Consolidated, sched.Spec{GPUs: 7}, "c[0-3] a[1-3]"},
		{"rack, full", RackLocal, sched.Spec{GPUs: 7}, "-"},
		{"most free", MostFree, sched.Spec{GPUs: 6}, "c[0-3] a[1-2]"},
		{"most free, near", MostFree, sched.Spec{GPUs: 4, MaxSpread: sched.SameRack}, "c[0-3]"},
		{"fragments", Fragments, sched.Spec{GPUs: 4}, "b[3] d[6-7] a[1]"},
		{"fragments, tasks", Fragments, sched.Spec{GPUs: 4, TaskGPUs: 2}, "d[6-7] a[1-2]"},
		{"fewest nodes", FewestNodes, sched.Spec{GPUs: 8}, "-"},
		{"fewest nodes, two", FewestNodes, sched.Spec{GPUs: 10}, "-"},
		{"fewest nodes, one", FewestNodes, sched.Spec{GPUs: 4}, "c[0-3]"},
		{"skew, must", Skew(Fragments), sched.Spec{GPUs: 3, Consolidate: true}, "a[1-3]"},
		{"skew, need not", Skew(Fragments), sched.Spec{GPUs: 2, Model: "ResNet50"}, "b[3] d[6]"},
		{"skew, not profiled", Skew(Fragments), sched.Spec{GPUs: 2}, "d[6-7]"},
		{"ladder, first rung", rung(ladder.Rung(0)), sched.Spec{GPUs: 6}, "-"},
		{"ladder, rack", rung(ladder.Rung(time.Minute)), sched.Spec{GPUs: 6}, "c[0-3] d[6-7]"},
		{"ladder, rack is full", rung(ladder.Rung(59 * time.Minute)), sched.Spec{GPUs: 7}, "-"},
		{"ladder, any", rung(ladder.Rung(time.Hour)), sched.Spec{GPUs: 7}, "c[0-3] a[1-3]"},
	} {
		f := NewFree(c)
		other := &sched.Job{}
		f.Take(other, sched.Placement{whole(0, 0b1), whole(1, 0b111), whole(3, 0b111111)})
		j := &sched.Job{Spec: x.spec}
		if p, _ := x.place(f, j, j.GPUs); p.Text(c) != x.want {
			t.Errorf("%s: %s; want %s", x.name, p.Text(c), x.want)
		}
	}
}

func whole(node int32, gpus sched.GPUSet) sched.Slice {
	return sched.Slice{Node: node, Milli: sched.WholeGPU, GPUs: gpus}
}

// TestFewestNodesInOneRack: a job that accepts one rack only is measured by the
// nodes that a rack needs, not by those that the cluster would.
func TestFewestNodesInOneRack(t *testing.T) {
	var nodes []sched.Node
	for i, gpus := range []int{4, 2, 2, 2, 2, 4} {
		nodes = append(nodes, sched.Node{Name: string(rune('a' + i)), GPUs: gpus, Rack: "r0"})
	}
	nodes[5].Rack = "r1"
	c, err := sched.NewCluster(nodes)
	if err != nil {
		t.Fatal(err)
	}
	for widest, want := range map[sched.Level]string{
		sched.SameRack: "a[0-3] b[0-1] c[0-1] d[0-1] e[0-1]",
		sched.NoLevel:  "a[0-3] f[0-3] b[0-1] c[0-1]",
	} {
		j := &sched.Job{Spec: sched.Spec{GPUs: 12, MaxSpread: widest}}
		if p, _ := FewestNodes(NewFree(c), j, 12); p.Text(c) != want {
			t.Errorf("12 GPUs within %s: %s; want %s", widest, p.Text(c), want)
		}
	}
}

// TestIslands: islands stay whole where they can, and the smallest that fits is
// taken.
func TestIslands(t *testing.T) {
	c, err := sched.NewCluster([]sched.Node{{Name: "a", GPUs: 8, Islands: []sched.GPUSet{0b00001111, 0b11110000}}, {Name: "b", GPUs: 2}})
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct {
		gpus   int
		widest sched.Level
		want   string
	}{
		{2, 0, "b[0-1]"}, // the node with the least room
		{3, 0, "a[4-6]"}, // the island that is still whole: the other has two left
		{4, sched.SameSlot, "a[4-7]"},
		{6, 0, "a[2-7]"},
		{5, sched.SameSlot, "-"},
	} {
		f := NewFree(c)
		f.Take(&sched.Job{}, sched.Placement{whole(0, 0b11)})
		j := &sched.Job{Spec: sched.Spec{GPUs: x.gpus, MaxSpread: x.widest}}
		if p, _ := Consolidated(f, j, j.GPUs); p.Text(c) != x.want {
			t.Errorf("%d GPUs within %s: %s; want %s", x.gpus, x.widest, p.Text(c), x.want)
		}
	}
}
