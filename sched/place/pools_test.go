// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package place_test

import (
	"testing"

	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/place"
)

// TestQueueMarks: a job that is ahead gets the nodes that it needs, also when as
// many GPUs are free where it cannot run.
func TestQueueMarks(t *testing.T) {
	// Two nodes of four GPUs have a disk, one has none, one is kept for a team.
	nodes := []sched.Node{
		{Name: "d0", GPUs: 4, Labels: []string{"disk"}}, {Name: "d1", GPUs: 4, Labels: []string{"disk", "fast"}},
		{Name: "n", GPUs: 4}, {Name: "k", GPUs: 4, Labels: []string{"team"}, Dedicated: true},
	}
	needs := func(n int, mark string) job { return job{Spec: sched.Spec{GPUs: n, Selector: mark}} }
	pinned := func(n int) job { return job{Spec: sched.Spec{GPUs: n, NonPreemptible: true}} }
	near := func(n int, mark string) job {
		return job{Spec: sched.Spec{GPUs: n, Selector: mark, MaxSpread: sched.SameMachine}}
	}
	for _, c := range []struct {
		name  string
		keeps bool // no preemption
		order []int
		jobs  []job
		want  string
	}{
		{"those behind move aside", false, []int{2, 0, 1}, []job{gpus(4).on(0, 0b1111), gpus(4).on(1, 0b1111), needs(8, "disk")}, "a:n[0-3] b:behind c:d0[0-3] d1[0-3]"},
		{"one of two moves", false, []int{2, 0, 1}, []job{gpus(4).on(0, 0b1111), gpus(4).on(1, 0b1111), needs(4, "fast")}, "a:d0[0-3] b:n[0-3] c:d1[0-3]"},
		{"nobody behind takes the place of one that moves", false, []int{1, 0, 2}, []job{gpus(4).on(1, 0b1111), needs(8, "disk"), gpus(4)}, "a:n[0-3] b:d0[0-3] d1[0-3] c:behind"},
		{"nobody moves for one that finds no place", false, []int{2, 3, 0, 1}, []job{pinned(2).on(0, 0b11), pinned(2).on(1, 0b11), near(4, "disk"), gpus(1).on(0, 0b1000)}, "a:d0[0-1] b:d1[0-1] c:fragmented d:d0[3]"},
		{"those ahead do not", false, []int{0, 1, 2}, []job{gpus(4).on(0, 0b1111), gpus(4).on(1, 0b1111), needs(4, "disk")}, "a:d0[0-3] b:d1[0-3] c:behind"},
		{"nobody does without preemption", true, []int{2, 0, 1}, []job{gpus(4).on(0, 0b1111), gpus(4).on(1, 0b1111), needs(8, "disk")}, "a:d0[0-3] b:d1[0-3] c:full"},
		{"nor where nodes with the mark are free", false, []int{1, 0}, []job{gpus(4).on(0, 0b1111), needs(4, "disk")}, "a:d0[0-3] b:d1[0-3]"},
		{"a job without a need gets what is not kept", false, []int{3, 0, 1, 2}, []job{gpus(4).on(0, 0b1111), gpus(4).on(1, 0b1111), gpus(4).on(2, 0b1111), gpus(4)}, "a:d0[0-3] b:d1[0-3] c:behind d:n[0-3]"},
	} {
		_, s := snapshotOf(t, nodes, c.jobs...)
		plan := place.Queue{Preempt: !c.keeps}.Plan(s, c.order, place.NewFree(s.Cluster))
		if v := sched.Check(s, plan); len(v) > 0 {
			t.Errorf("%s: the plan breaks %v", c.name, v)
		}
		if got := text(s, plan); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.name, got, c.want)
		}
	}
}
