// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package place

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/fairway-gpu/fairway/sched"
)

func drawTopology(t *rapid.T) (*sched.Cluster, *Free) {
	nodes := make([]sched.Node, rapid.IntRange(1, 5).Draw(t, "nodes"))
	for i := range nodes {
		n := &nodes[i]
		n.Name, n.GPUs = fmt.Sprint("n", i), rapid.IntRange(1, 3).Draw(t, "gpus")
		for _, level := range []string{"zone", "rack", "nvlink"} {
			if rapid.IntRange(1, 10).Draw(t, "bare") > 1 {
				n.Domains = append(n.Domains, sched.Domain{Level: level, Name: fmt.Sprint(level[:1], rapid.IntRange(0, 1).Draw(t, level))})
			}
		}
	}
	c, err := sched.NewCluster(nodes)
	if err != nil {
		t.Fatal(err)
	}
	return c, NewFree(c)
}

// TestDomainsExact: a gang finds a place under its rules exactly if some order of some
// GPUs keeps to them, and the place does.
func TestDomainsExact(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		c, f := drawTopology(rt)
		j := &sched.Job{Spec: sched.Spec{ID: "j", GPUs: rapid.IntRange(1, 7).Draw(rt, "size")}}
		segment := 1
		for range rapid.IntRange(1, 3).Draw(rt, "rules") {
			r := sched.Rule{Required: rapid.SampledFrom([]string{"zone", "rack", "nvlink", "machine"}).Draw(rt, "level")}
			if rapid.Bool().Draw(rt, "segments") {
				segment *= rapid.IntRange(1, 3).Draw(rt, "factor")
				r.Segment = segment
			}
			j.Topology = append(j.Topology, r)
		}
		if err := j.Validate(); err != nil {
			rt.Fatal(err)
		}
		rules := c.RequiredBounds(j)
		p, ok := f.Within(j, j.GPUs, sched.CrossRack)
		if want := anyOrder(c, rules, nil, make([]bool, len(c.Nodes)), j.GPUs); ok != want {
			rt.Fatalf("found %v %v; want a place: %v (nodes %+v, rules %v)", p, ok, want, c.Nodes, j.Topology)
		}
		if ever := f.Ever(j, j.GPUs, sched.CrossRack); (ever == j.GPUs) != ok {
			rt.Fatalf("ever %d of %d GPUs; found %v on an empty cluster", ever, j.GPUs, ok)
		}
		if ok && (p.GPUs() != j.GPUs || !c.Keeps(p, rules)) {
			rt.Fatalf("%v does not keep to %v", p, j.Topology)
		}
		if !ok {
			if why := f.Why(j, j.GPUs, sched.CrossRack); why.Code != sched.Impossible || why.Text(c) == "" {
				rt.Fatalf("the reason is %+v; want impossible", why)
			}
		}
	})
}

// anyOrder tries every order of nodes with every number of GPUs of each.
func anyOrder(c *sched.Cluster, rules []sched.Bound, p sched.Placement, used []bool, left int) bool {
	if left == 0 {
		return c.Keeps(p, rules)
	}
	for n := range c.Nodes {
		if used[n] {
			continue
		}
		used[n] = true
		for k := 1; k <= min(left, c.Nodes[n].GPUs); k++ {
			next := append(slices.Clone(p), sched.Slice{Node: int32(n), Milli: sched.WholeGPU, GPUs: sched.FirstGPUs(k)})
			if c.Keeps(next, rules) && anyOrder(c, rules, next, used, left-k) {
				return true
			}
		}
		used[n] = false
	}
	return false
}

// pods returns a cluster of zones with two racks of two NVLink domains of two nodes of
// four GPUs.
func pods(t testing.TB, zones int) *sched.Cluster {
	var nodes []sched.Node
	for i := range zones * 8 {
		nodes = append(nodes, sched.Node{Name: fmt.Sprint("n", i), GPUs: 4, Domains: []sched.Domain{
			{Level: "zone", Name: fmt.Sprint("z", i/8)}, {Level: "rack", Name: fmt.Sprint("r", i/4%2)}, {Level: "nvlink", Name: fmt.Sprint("d", i/2%2)},
		}})
	}
	c, err := sched.NewCluster(nodes)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestDomains: preferred levels widen one by one, domains of the same name in two racks
// are two, and the reason names the level and the domain with the most room.
func TestDomains(t *testing.T) {
	c := pods(t, 2)
	if got := fmt.Sprint(c.Levels(), len(c.Racks)); got != "[zone rack nvlink machine] 4" {
		t.Errorf("levels and racks are %s", got)
	}
	for _, x := range []struct {
		n     int
		rules []sched.Rule
		busy  []int // nodes
		want  string
	}{
		{8, []sched.Rule{{Required: "nvlink"}}, nil, "n0[0-3] n1[0-3]"},
		{8, []sched.Rule{{Required: "nvlink"}}, []int{0, 3}, "n4[0-3] n5[0-3]"},
		{8, []sched.Rule{{Required: "nvlink"}}, []int{0, 2, 4, 6, 8, 10, 12, 14}, "needs 8 GPUs in one nvlink; nvlink d0 has 4 free"},
		{8, []sched.Rule{{Preferred: "nvlink"}}, []int{0, 2, 4, 6, 8, 10, 12, 14}, "n1[0-3] n3[0-3]"},
		{12, []sched.Rule{{Required: "nvlink"}}, nil, "needs 12 GPUs in one nvlink of an accepted type; this cluster has at most 8"},
		{12, []sched.Rule{{Segment: 4, Required: "nvlink"}, {Required: "rack"}}, []int{1, 2}, "n4[0-3] n5[0-3] n6[0-3]"},
		{16, []sched.Rule{{Segment: 8, Required: "nvlink"}}, []int{1, 3, 5, 9, 11, 13}, "n6[0-3] n7[0-3] n14[0-3] n15[0-3]"},
		{24, []sched.Rule{{Segment: 8, Required: "nvlink"}}, []int{1, 3, 5, 9, 11, 13}, "needs 24 GPUs, every 8 of them in one nvlink; such places have 16 free"},
		{20, []sched.Rule{{Segment: 8, Required: "nvlink"}}, []int{1, 3, 5, 9, 11, 13}, "n6[0-3] n7[0-3] n14[0-3] n15[0-3] n0[0-3]"},
		{8, []sched.Rule{{Required: "hall"}}, nil, "needs 8 GPUs in one hall of an accepted type; this cluster has at most 0"},
		{8, []sched.Rule{{Preferred: "hall"}}, nil, "n0[0-3] n1[0-3]"},
	} {
		f, j := NewFree(c), &sched.Job{Spec: sched.Spec{ID: "j", GPUs: x.n, Topology: x.rules}}
		for _, n := range x.busy {
			f.Take(&sched.Job{}, sched.Placement{{Node: int32(n), Milli: sched.WholeGPU, GPUs: 0b1111}})
		}
		got := ""
		if why := f.Why(j, x.n, sched.CrossRack); why != (sched.Reason{}) {
			got = why.Text(c)
		}
		if p, ok := f.Within(j, x.n, sched.CrossRack); ok {
			got = p.Text(c)
		}
		if got != x.want {
			t.Errorf("%d GPUs %v without %v: %q; want %q", x.n, x.rules, x.busy, got, x.want)
		}
	}
}

// TestDomainsFast: a gang over 1,000 nodes takes little of a decision.
func TestDomainsFast(t *testing.T) {
	c := pods(t, 125)
	j := &sched.Job{Spec: sched.Spec{ID: "j", GPUs: 2048, Topology: []sched.Rule{{Segment: 8, Required: "nvlink"}, {Segment: 32, Required: "zone"}}}}
	f := NewFree(c)
	begin := time.Now()
	if _, ok := f.Within(j, j.GPUs, sched.CrossRack); !ok {
		t.Error("no place on an empty cluster")
	}
	if took := time.Since(begin); took > 2*time.Second { // usually milliseconds
		t.Errorf("a search took %s", took)
	}
}
