// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package place

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/fairway-gpu/fairway/policy/policytest"
	"github.com/fairway-gpu/fairway/sched"
)

func TestWhy(t *testing.T) {
	c, err := sched.NewCluster([]sched.Node{
		{Name: "a", GPUs: 4, Rack: "r0", Type: "t4", CPUs: 8}, {Name: "b", GPUs: 4, Rack: "r0", Type: "t4"},
		{Name: "c", GPUs: 4, Rack: "r1", Type: "t4"}, {Name: "d", GPUs: 2, Rack: "r1", Type: "h200", GPUMemory: 80, Labels: []string{"big", "new"}},
		{Name: "e", GPUs: 8, Rack: "r1", Type: "t4", State: sched.Down},
	})
	if err != nil {
		t.Fatal(err)
	}
	f := NewFree(c)
	f.Take(&sched.Job{}, sched.Placement{whole(0, 0b1), whole(1, 0b11), whole(2, 0b111)}) // free: a 3, b 2, c 1, d 2
	for _, x := range []struct {
		name  string
		spec  sched.Spec
		level sched.Level
		want  string
	}{
		{"full", sched.Spec{GPUs: 7}, sched.CrossRack, "needs 7 GPUs; 6 are free in the cluster"},
		{"full of that type", sched.Spec{GPUs: 2, GPUTypes: []sched.GPUType{"h200"}}, sched.CrossRack, "needs 2 GPUs in the cluster; the best place has 2 free"},
		{"rack", sched.Spec{GPUs: 6}, sched.SameRack, "needs 6 GPUs in one rack; rack r0 has 5 free"},
		{"node", sched.Spec{GPUs: 4}, sched.SameMachine, "needs 4 GPUs in one node; node a has 3 free"},
		{"node, of its type", sched.Spec{GPUs: 4, GPUTypes: []sched.GPUType{"t4"}, MaxSpread: sched.SameMachine}, sched.CrossRack, "needs 4 GPUs in one node; node a has 3 free"},
		{"a wish grows with the job", sched.Spec{GPUs: 6}, sched.SameMachine, "needs 6 GPUs in one node; node a has 3 free"},
		{"never that many", sched.Spec{GPUs: 13}, sched.CrossRack, "needs 13 GPUs in the cluster of an accepted type; this cluster has at most 12"},
		{"never in one node", sched.Spec{GPUs: 5, MaxSpread: sched.SameMachine}, sched.CrossRack, "needs 5 GPUs in one node of an accepted type; this cluster has at most 4"},
		{"never in one rack", sched.Spec{GPUs: 9, MaxSpread: sched.SameRack}, sched.CrossRack, "needs 9 GPUs in one rack of an accepted type; this cluster has at most 8"},
		{"no such type", sched.Spec{GPUs: 1, GPUTypes: []sched.GPUType{"v100"}}, sched.CrossRack, "needs 1 GPU in the cluster of an accepted type; this cluster has at most 0"},
		{"too large for the GPU", sched.Spec{GPUs: 1, GPUTypes: []sched.GPUType{"h200"}, GPUMemory: 81}, sched.CrossRack, "needs 1 GPU in the cluster of an accepted type; this cluster has at most 0"},
		{"too many CPUs", sched.Spec{GPUs: 4, CPUs: 3, MaxSpread: sched.SameMachine, TaskGPUs: 4}, sched.CrossRack, "needs 4 GPUs in one node; node a has 3 free"},
		{"a mark that nobody bears", sched.Spec{GPUs: 1, Selector: "gold"}, sched.CrossRack, "needs 1 GPU; no node with the label it requires could hold it"},
		{"a mark that too few bear", sched.Spec{GPUs: 3, Selector: "big"}, sched.CrossRack, "needs 3 GPUs in the cluster of an accepted type on nodes with the label it requires; this cluster has at most 2"},
		{"a mark and a type", sched.Spec{GPUs: 1, Selector: "big", GPUTypes: []sched.GPUType{"t4"}}, sched.CrossRack, "needs 1 GPU; no node with the label it requires could hold it"},
	} {
		j := &sched.Job{Spec: x.spec}
		for range 2 { // the second time from the cache
			if got := f.Why(j, j.GPUs, x.level).Text(c); got != x.want {
				t.Errorf("%s:\n got %s\nwant %s", x.name, got, x.want)
			}
		}
	}
}

// TestEver: what an empty cluster could give, against the model.
func TestEver(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawScene(t)
		empty := newModel(ready(t, s.m.c))
		for range 4 { // the same view, so that its cache is used
			j := s.job(t)
			level := rapid.SampledFrom([]sched.Level{sched.SameRack, sched.CrossRack}).Draw(t, "level")
			got := s.f.Ever(j, j.GPUs, level)
			if got > j.GPUs || (got == j.GPUs) != empty.canHost(j, level) {
				t.Fatalf("Ever(%d GPUs within %s, %s at the widest) = %d; the model says %t", j.GPUs, level, j.MaxSpread, got, empty.canHost(j, level))
			}
		}
	})
}

func TestWhen(t *testing.T) {
	w, err := policytest.NewWorld([]sched.Node{{Name: "a", GPUs: 4}, {Name: "b", GPUs: 4}})
	if err != nil {
		t.Fatal(err)
	}
	run := func(id sched.JobID, estimate time.Duration, p ...sched.Slice) {
		t.Helper()
		n := sched.Placement(p).GPUs()
		if err := w.Submit(sched.Spec{ID: id, GPUs: n, Estimate: sched.Duration(estimate)}, 0); err != nil {
			t.Fatal(err)
		}
		if err := w.Apply(sched.Event{Kind: sched.JobStarted, Job: id, Placement: p}); err != nil {
			t.Fatal(err)
		}
	}
	run("x", time.Hour, whole(0, 0b11))
	run("y", 2*time.Hour, whole(0, 0b100))
	run("z", 0, whole(1, 0b1))
	s := w.State.Snapshot(w.Now.Add(30 * time.Minute))
	plan := sched.NewPlan(s)
	for i, j := range s.Jobs {
		plan.Want[i] = j.Placement
	}
	for _, c := range []struct {
		gpus  int
		level sched.Level
		want  time.Duration // 0: never
	}{
		{5, sched.CrossRack, time.Hour}, // four are free; two more when x ends
		{3, sched.SameMachine, time.Hour},
		{4, sched.SameMachine, 2 * time.Hour},
		{8, sched.CrossRack, 0}, // nobody knows when z ends
	} {
		j := &sched.Job{Spec: sched.Spec{GPUs: c.gpus}}
		got := When(s, plan, j, c.level)
		if c.want == 0 && !got.IsZero() || c.want > 0 && !got.Equal(policytest.Start.Add(c.want)) {
			t.Errorf("%d GPUs within %s: %s; want %s after the start", c.gpus, c.level, got, c.want)
		}
	}
}
