// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package place

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/fairway-gpu/fairway/sched"
)

var strategies = map[string]Strategy{
	"consolidated": Consolidated, "rack-local": RackLocal, "fewest-nodes": FewestNodes,
	"most-free": MostFree, "fragments": Fragments,
}

// A job goes to a node that it stays away from only if it finds no place
// elsewhere, and the view is afterwards as if nothing had been hidden.
func TestAvoid(t *testing.T) {
	for name, strategy := range strategies {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				s := drawScene(t)
				j := s.job(t)
				n := rapid.IntRange(1, 8).Draw(t, "n")
				bad := rapid.SampledFrom(s.m.c.Nodes).Draw(t, "avoid").Name
				node, _ := s.m.c.Node(bad)

				mark := s.f.Mark()
				_, anywhere := strategy(s.f, j, n)
				s.f.Rollback(mark)
				before := counts(s.f)

				shy := *j
				shy.Avoid = []string{bad, "unknown"}
				p, ok := strategy(s.f, &shy, n)
				if anywhere && !ok && !s.f.dispensable(j, n, []int{node}) {
					t.Fatalf("%d GPUs are there, but not for a job that stays away from %s", n, bad)
				}
				on := slices.ContainsFunc(p, func(s sched.Slice) bool { return int(s.Node) == node })
				s.f.Rollback(mark)
				if got := counts(s.f); !slices.Equal(got, before) {
					t.Errorf("the view counts %v after the search, %v before", got, before)
				}
				if !on {
					return
				}
				// Without that node there must be no place.
				all := s.f.OnNode(node)
				if all == 0 {
					return // only parts of its GPUs are free: beside another job
				}
				s.f.Take(&sched.Job{}, sched.Placement{{Node: int32(node), Milli: sched.WholeGPU, GPUs: all}})
				q, elsewhere := strategy(s.f, j, n)
				if elsewhere && !slices.ContainsFunc(q, func(s sched.Slice) bool { return int(s.Node) == node }) {
					t.Errorf("it is put on %s; %s would do", p.Text(s.m.c), q.Text(s.m.c))
				}
			})
		})
	}
}

func counts(f *Free) []int {
	out := append([]int{f.total}, f.rackFree...)
	out = append(append(out, f.typeFree...), f.filled...)
	for i := range f.c.Nodes {
		if f.ready.has(i) {
			out = append(out, i)
		}
	}
	return out
}

// Where there are many nodes, a job waits for another one; where there are few, it
// goes back.
func TestAvoidWaits(t *testing.T) {
	for _, test := range []struct {
		nodes, gpus int
		wait        bool
	}{{1, 4, false}, {2, 4, false}, {4, 4, true}, {4, 1, true}, {4, 16, false}, {8, 12, true}} {
		nodes := make([]sched.Node, test.nodes)
		for i := range nodes {
			nodes[i] = sched.Node{Name: string(rune('a' + i)), GPUs: 4}
		}
		c, err := sched.NewCluster(nodes)
		if err != nil {
			t.Fatal(err)
		}
		for name, strategy := range strategies {
			f := NewFree(c)
			others := test.nodes - (test.gpus+3)/4 // that are busy
			for i := range others {
				f.Take(&sched.Job{}, sched.Placement{{Node: int32(test.nodes - 1 - i), Milli: sched.WholeGPU, GPUs: sched.FirstGPUs(4)}})
			}
			j := &sched.Job{Spec: sched.Spec{GPUs: test.gpus}, Status: sched.Status{Avoid: []string{"a"}}}
			if p, ok := strategy(f, j, test.gpus); ok == test.wait {
				t.Errorf("%s: %d GPUs, all free ones on bad nodes of %d: got %s; want a wait: %v", name, test.gpus, test.nodes, p.Text(c), test.wait)
			}
		}
	}
}
