// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package executortest

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/fairway-gpu/fairway/daemon/loop"
	"github.com/fairway-gpu/fairway/sched"
)

// trial is one world under test.
type trial struct {
	World
	Pace
	t     *testing.T
	node  string // with at least four GPUs
	index int32  // of it
}

// need is the number of GPUs the suite works with.
const need = 4

func (w *trial) findNode() {
	w.t.Helper()
	s := w.snapshot()
	for i, n := range s.Cluster.Nodes {
		if n.State == sched.Ready && n.GPUs >= need {
			w.node, w.index = n.Name, int32(i)
			return
		}
	}
	w.t.Fatalf("no node is ready with %d GPUs: %+v", need, s.Cluster.Nodes)
}

func (w *trial) snapshot() *sched.Snapshot {
	w.t.Helper()
	s, err := w.Backend().Snapshot(w.t.Context())
	if err != nil {
		w.t.Fatalf("take snapshot: %v", err)
	}
	return s
}

// find returns a job of the snapshot; nil if it is not there.
func find(s *sched.Snapshot, id sched.JobID) *sched.Job {
	for _, j := range s.Jobs {
		if j.ID == id {
			return j
		}
	}
	return nil
}

func (w *trial) job(gpus int) sched.JobID {
	w.t.Helper()
	return w.Submit(w.t, Job{Spec: sched.Spec{GPUs: gpus}, Linger: w.Linger})
}

// on returns the placement of some GPUs of the node.
func (w *trial) on(gpus ...int) sched.Placement {
	var set sched.GPUSet
	for _, g := range gpus {
		set |= 1 << g
	}
	return sched.Placement{{Node: w.index, Milli: sched.WholeGPU, GPUs: set}}
}

// wants is a policy with a fixed plan: jobs that are not in it do not run.
type wants map[sched.JobID]sched.Placement

func (p wants) Schedule(s *sched.Snapshot) sched.Plan {
	plan := sched.NewPlan(s)
	for i, j := range s.Jobs {
		if at, ok := p[j.ID]; ok {
			plan.Want[i] = at
		} else {
			plan.Why[i] = sched.Reason{Code: sched.Behind, Need: j.GPUs}
		}
	}
	return plan
}

// decide returns a decision on the world as it is.
func (w *trial) decide(p wants) loop.Decision {
	w.t.Helper()
	s := w.snapshot()
	actions, plan, err := sched.Decide(p, s)
	if err != nil {
		w.t.Fatalf("decide: %v", err)
	}
	return loop.Decision{Policy: "executortest", Snapshot: s, Actions: actions, Plan: plan}
}

func (w *trial) apply(d loop.Decision) {
	w.t.Helper()
	if err := w.Backend().Apply(w.t.Context(), d); err != nil {
		w.t.Fatalf("apply decision: %v", err)
	}
}

// plan decides and applies.
func (w *trial) plan(p wants) {
	w.t.Helper()
	w.apply(w.decide(p))
}

// eventually waits for something that must happen.
func (w *trial) eventually(what string, ok func() bool) {
	w.t.Helper()
	for end := time.Now().Add(w.Patience); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			w.t.Fatalf("%s: not within %s; running: %v", what, w.Patience, w.Running())
		}
		if w.t.Failed() { // the watcher has seen something: waiting is over
			w.t.FailNow()
		}
	}
}

// runsOn waits until a job runs on exactly these GPUs.
func (w *trial) runsOn(id sched.JobID, gpus ...int) {
	w.t.Helper()
	w.eventually(fmt.Sprintf("job %s on GPUs %v", id, gpus), func() bool { return w.isOn(id, gpus...) })
}

func (w *trial) isOn(id sched.JobID, gpus ...int) bool {
	var want []GPU
	for _, g := range gpus {
		want = append(want, GPU{w.node, g})
	}
	got := slices.Clone(w.Running()[id])
	slices.SortFunc(got, func(a, b GPU) int { return a.Index - b.Index })
	return slices.Equal(got, want)
}

// stays looks for a while that something does not change.
func (w *trial) stays(what string, ok func() bool) {
	w.t.Helper()
	for end := time.Now().Add(w.Calm); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		if !ok() {
			w.t.Fatalf("%s: not so; running: %v", what, w.Running())
		}
	}
}

// changed waits for a signal of the backend.
func (w *trial) changed(after string) {
	w.t.Helper()
	select {
	case <-w.Backend().Changed():
	case <-time.After(w.Patience):
		w.t.Fatalf("Changed yields nothing within %s after %s", w.Patience, after)
	}
}

// settle takes a snapshot and drops the signals so far.
func (w *trial) settle() {
	w.t.Helper()
	w.snapshot()
	select {
	case <-w.Backend().Changed():
	default:
	}
}

// wantStarts: a process runs a moment before it has written down that it does.
func (w *trial) wantStarts(id sched.JobID, want int) {
	w.t.Helper()
	w.eventually(fmt.Sprintf("job %s was started %d times", id, want), func() bool { return w.Starts(id) >= want })
	if got := w.Starts(id); got != want {
		w.t.Errorf("the processes of job %s were started %d times; want %d", id, got, want)
	}
}

// watch looks at the world all the time and fails the test if a GPU is held by
// two jobs at once. It returns what ends it.
func (w *trial) watch() (stop func()) {
	done := make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() {
		for {
			// Looking at many processes takes time, and one may follow the other in
			// between: only what is seen twice is so.
			if first := doubles(w.Running()); len(first) > 0 {
				second := doubles(w.Running())
				for gpu, jobs := range first {
					if second[gpu] == jobs {
						w.t.Errorf("GPU %d of node %s is used by two jobs at once: %s", gpu.Index, gpu.Node, jobs)
						return
					}
				}
			}
			select {
			case <-done:
				return
			case <-time.After(time.Millisecond):
			}
		}
	})
	return func() { close(done); watching.Wait() }
}

// doubles returns the GPUs that more than one job uses.
func doubles(running map[sched.JobID][]GPU) map[GPU]string {
	by := map[GPU][]sched.JobID{}
	for _, id := range slices.Sorted(maps.Keys(running)) {
		for _, g := range running[id] {
			by[g] = append(by[g], id)
		}
	}
	out := map[GPU]string{}
	for g, jobs := range by {
		if len(jobs) > 1 {
			out[g] = fmt.Sprint(jobs)
		}
	}
	return out
}
