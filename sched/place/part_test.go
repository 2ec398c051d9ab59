// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package place_test

import (
	"testing"

	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/place"
)

// TestParts: jobs that need a part of a GPU and may share come to lie on the same
// ones; others keep theirs to themselves.
func TestParts(t *testing.T) {
	const gib = 1 << 30
	c, err := sched.NewCluster([]sched.Node{{Name: "a", GPUs: 2, Type: "h200", GPUMemory: 100 * gib}})
	if err != nil {
		t.Fatal(err)
	}
	f := place.NewFree(c)
	part := func(milli int32, memory int64, shareable bool) *sched.Job {
		return &sched.Job{Spec: sched.Spec{ID: "x", GPUs: 1, MilliGPU: milli, GPUMemory: memory, Shareable: shareable}}
	}
	for _, step := range []struct {
		name  string
		job   *sched.Job
		gpus  sched.GPUSet
		milli int32 // 0: there is no place
	}{
		{"first quarter", part(250, 20*gib, true), 0b01, 250},
		{"second quarter, beside it", part(250, 0, true), 0b01, 250},
		{"half, fills it", part(500, 50*gib, true), 0b01, 500},
		{"a quarter more has its own", part(250, 0, true), 0b10, 250},
		{"not shareable", part(250, 0, false), 0, 0},
		{"too much memory for its part", part(250, 60*gib, true), 0, 0},
		{"whole", part(0, 0, true), 0, 0},
		{"three quarters", part(750, 0, true), 0b10, 750},
		{"full", part(100, 0, true), 0, 0},
	} {
		p, ok := place.Consolidated(f, step.job, 1)
		if ok != (step.milli > 0) || ok && (p[0].GPUs != step.gpus || p[0].Milli != step.milli) {
			t.Errorf("%s: %v, %v; want GPUs %s for %d thousandths", step.name, p, ok, step.gpus, step.milli)
		}
	}
}

// TestPartsBySeats: no more jobs come to a GPU than its node has seats for, however
// little each takes; who is there stays when there are fewer.
func TestPartsBySeats(t *testing.T) {
	c, err := sched.NewCluster([]sched.Node{{Name: "a", GPUs: 1, Seats: 2}, {Name: "b", GPUs: 1, Seats: 1}})
	if err != nil {
		t.Fatal(err)
	}
	f := place.NewFree(c)
	small := &sched.Job{Spec: sched.Spec{ID: "x", GPUs: 1, MilliGPU: 100, Shareable: true}}
	var at []sched.Placement
	for i, want := range []string{"a[0]x0.1", "a[0]x0.1", "b[0]x0.1", "-"} {
		p, ok := place.Consolidated(f, small, 1)
		got := "-"
		if ok {
			got = p.Text(c)
		}
		if got != want {
			t.Errorf("job %d is at %s; want %s", i, got, want)
		}
		at = append(at, p)
	}
	if f.Fits(small, at[2]) {
		t.Error("a second job fits on a GPU with one seat")
	}
	there := *small
	there.Phase, there.Placement = sched.Running, at[2]
	if f.Fits(&there, at[2]) {
		t.Error("a job stays where another has been given its seat")
	}
	g := place.NewFree(c)
	g.Take(&there, at[2])
	if !g.Fits(&there, at[2]) {
		t.Error("two jobs that are there cannot both stay")
	}
}
