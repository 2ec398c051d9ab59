// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package optimus

import (
	"testing"
	"time"

	"github.com/fairway-gpu/fairway/sched"
)

// start lets a job run somewhere without asking the policy.
func (w world) start(id sched.JobID, slices ...sched.Slice) {
	w.tb.Helper()
	w.apply(sched.Event{Kind: sched.JobStarted, Job: id, Placement: slices})
}

func whole(node int32, gpus sched.GPUSet) sched.Slice {
	return sched.Slice{Node: node, Milli: sched.WholeGPU, GPUs: gpus}
}

// expect decides twice: the second time nothing may change.
func (w world) expect(p sched.Policy, want string) {
	w.tb.Helper()
	for _, when := range []string{"first", "again"} {
		if got := w.decide(p); got != want {
			w.tb.Errorf("%s:\n got %s\nwant %s", when, got, want)
		}
	}
}

// TestShareWithoutPlace: near should have four GPUs of one node, and finds
// three. Who can use the rest gets it.
func TestShareWithoutPlace(t *testing.T) {
	w := newWorld(t, 4, 4)
	for i, id := range []sched.JobID{"p0", "p1"} {
		w.submit(sched.Spec{ID: id, GPUs: 1, NonPreemptible: true}, nil)
		w.start(id, whole(int32(i), 1))
	}
	w.submit(sched.Spec{ID: "near", GPUs: 4, MinGPUs: 1, MaxGPUs: 8, MaxSpread: sched.SameMachine}, perfect(8, 1e6))
	w.submit(sched.Spec{ID: "far"}, perfect(8, 1))
	w.expect(mustBuild(t, "optimus"), "p0 n0[0], p1 n1[0], near n0[1-3], far n1[1-3]")
}

// TestShareThatOnlyOldPlaceHolds: the GPUs of a cordoned node count for the job
// that has them, but it cannot grow with them.
func TestShareThatOnlyOldPlaceHolds(t *testing.T) {
	w := newWorld(t, 4, 2)
	w.submit(sched.Spec{ID: "a"}, perfect(8, 1e6))
	w.start("a", whole(0, 0b1111))
	w.submit(sched.Spec{ID: "b"}, perfect(1, 1))
	if err := w.SetNode(0, sched.Cordoned); err != nil {
		t.Fatal(err)
	}
	w.expect(mustBuild(t, "optimus"), "a n0[0-3], b n1[0]")
	if a, _ := w.State.Job("a"); a.Starts != 1 {
		t.Errorf("a was started %d times; want 1", a.Starts)
	}
}

// TestHostLimits: a node's CPUs run out before its GPUs.
func TestHostLimits(t *testing.T) {
	w := newWorld(t)
	for _, n := range []sched.Node{{Name: "n0", GPUs: 4, CPUs: 8}, {Name: "n1", GPUs: 4, CPUs: 8}} {
		w.apply(sched.Event{Kind: sched.NodeJoined, Node: &n})
	}
	w.submit(sched.Spec{ID: "hungry", GPUs: 1, MinGPUs: 1, MaxGPUs: 8, CPUs: 4}, perfect(8, 1e6)) // two on each node
	w.submit(sched.Spec{ID: "b", GPUs: 1, MinGPUs: 1, MaxGPUs: 8}, perfect(8, 1))
	w.expect(mustBuild(t, "optimus"), "hungry n0[0-1] n1[0-1], b n0[2-3] n1[2-3]")
}

// twoTypes returns a world with 4 GPUs of type t4 on n0 and 2 of type h200, with
// more memory, on n1.
func twoTypes(t *testing.T) world {
	w := newWorld(t)
	for _, n := range []sched.Node{{Name: "n0", GPUs: 4, Type: "t4", GPUMemory: 16}, {Name: "n1", GPUs: 2, Type: "h200", GPUMemory: 141}} {
		w.apply(sched.Event{Kind: sched.NodeJoined, Node: &n})
	}
	return w
}

// TestPools: GPUs of two types never mix.
func TestPools(t *testing.T) {
	w := twoTypes(t)
	p := mustBuild(t, "optimus")
	w.submit(sched.Spec{ID: "a", GPUs: 1, MinGPUs: 1, MaxGPUs: 8, GPUTypes: []sched.GPUType{"h200", "t4"}}, perfect(8, 10))
	w.expect(p, "a n1[0-1]")
	w.submit(sched.Spec{ID: "b", GPUs: 1, MinGPUs: 1, MaxGPUs: 8, GPUTypes: []sched.GPUType{"h200"}}, perfect(8, 10))
	w.submit(sched.Spec{ID: "c"}, perfect(8, 10))
	w.expect(p, "a n1[0], b n1[1], c n0[0-3]")
	w.apply(sched.Event{Kind: sched.JobEnded, Job: "b", Phase: sched.Finished})
	w.expect(p, "a n1[0-1], c n0[0-3]")
}

// TestRunningJobKeepsItsType: it stays where it is although it likes another
// type better, until a job ahead of it needs the place.
func TestRunningJobKeepsItsType(t *testing.T) {
	w := twoTypes(t)
	p := mustBuild(t, "optimus")
	w.submit(sched.Spec{ID: "early", GPUs: 4, GPUTypes: []sched.GPUType{"t4"}}, nil)
	w.start("early", whole(0, 0b1111))
	w.apply(sched.Event{Kind: sched.JobFailed, Job: "early", Until: w.Now.Add(time.Minute)})
	w.submit(sched.Spec{ID: "late", GPUs: 1, MinGPUs: 1, MaxGPUs: 8, GPUTypes: []sched.GPUType{"h200", "t4"}}, perfect(2, 10))
	w.start("late", whole(0, 0b11))
	w.expect(p, "early -, late n0[0-1]")
	w.Now = w.Now.Add(time.Minute)
	w.expect(p, "early n0[0-3], late n1[0-1]")
}

// TestPoolThatCannotHost: a type whose GPUs are too small is no pool for a job
// that names none.
func TestPoolThatCannotHost(t *testing.T) {
	w := twoTypes(t)
	w.submit(sched.Spec{ID: "a", GPUs: 1, MinGPUs: 1, MaxGPUs: 8, GPUMemory: 80}, perfect(8, 10))
	w.expect(mustBuild(t, "optimus"), "a n1[0-1]")
}

// TestTenantLimit: a tenant's limit bounds growth, and a lower one shrinks.
func TestTenantLimit(t *testing.T) {
	w := newWorld(t, 8)
	p := mustBuild(t, "optimus")
	w.apply(sched.Event{Kind: sched.TenantSet, Tenant: &sched.Tenant{ID: "t", Max: 5}})
	w.submit(sched.Spec{ID: "a", GPUs: 1, MinGPUs: 1, MaxGPUs: 8, Tenant: "t"}, perfect(8, 1e6))
	w.submit(sched.Spec{ID: "b", GPUs: 1, MinGPUs: 1, MaxGPUs: 8, Tenant: "t"}, perfect(8, 1))
	w.submit(sched.Spec{ID: "c"}, perfect(2, 1))
	w.expect(p, "a n0[3-6], b n0[0], c n0[1-2]")
	w.apply(sched.Event{Kind: sched.TenantSet, Tenant: &sched.Tenant{ID: "t", Max: 1}})
	w.expect(p, "a n0[0], b -, c n0[1-2]")
}

func TestSizes(t *testing.T) {
	for _, tc := range []struct {
		name string
		spec sched.Spec
		want []int
	}{
		{"rigid", sched.Spec{GPUs: 3}, []int{3}},
		{"one size", sched.Spec{GPUs: 3, MinGPUs: 3, MaxGPUs: 3}, []int{3}},
		{"elastic", sched.Spec{GPUs: 2, MinGPUs: 2, MaxGPUs: 5}, []int{2, 3, 4, 5}},
		{"tasks", sched.Spec{GPUs: 4, MinGPUs: 3, MaxGPUs: 9, TaskGPUs: 4}, []int{4, 8}},
		{"list", sched.Spec{GPUs: 4, MinGPUs: 2, MaxGPUs: 9, Sizes: []int{1, 2, 4, 8, 16}}, []int{2, 4, 8}},
		{"list and tasks", sched.Spec{GPUs: 2, MinGPUs: 1, MaxGPUs: 9, Sizes: []int{1, 2, 3, 4, 8}, TaskGPUs: 2}, []int{2, 4, 8}},
	} {
		j := &sched.Job{Spec: tc.spec}
		n := 0
		for _, want := range append(tc.want, 0) {
			last := n
			if n = j.NextSize(n); n != want {
				t.Errorf("%s: after %d comes %d; want %d", tc.name, last, n, want)
			}
		}
		for i := len(tc.want) - 1; i > 0; i-- {
			if got := before(j, tc.want[i]); got != tc.want[i-1] {
				t.Errorf("%s: before %d comes %d; want %d", tc.name, tc.want[i], got, tc.want[i-1])
			}
		}
		if before(j, tc.want[0]) >= tc.want[0] {
			t.Errorf("%s: before the smallest size comes %d", tc.name, before(j, tc.want[0]))
		}
	}
}
