// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package pods_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/kube/kubetest"
	"github.com/fairway-gpu/fairway/kube/pods"
	"github.com/fairway-gpu/fairway/kube/workload"
	"github.com/fairway-gpu/fairway/sched"
)

// abroad stands for the controller of an external workload.
type abroad struct {
	mu    sync.Mutex
	runs  map[api.AttemptID][]string
	exits map[api.AttemptID]*api.Exit
	slow  bool // to stop
	waits *corev1.PodSpec
	// missing is the number of pods that are never created.
	missing int
	asked   []api.AttemptID
}

func newAbroad() *abroad {
	return &abroad{runs: map[api.AttemptID][]string{}, exits: map[api.AttemptID]*api.Exit{}}
}

func (a *abroad) Start(_ context.Context, at api.Attempt, n []string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.runs[at.AttemptID] = n
	return nil
}

func (a *abroad) Stop(_ context.Context, id api.AttemptID) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.asked = append(a.asked, id)
	if !a.slow {
		delete(a.runs, id)
	}
	return nil
}

func (a *abroad) State(id api.AttemptID) workload.External {
	a.mu.Lock()
	defer a.mu.Unlock()
	_, runs := a.runs[id]
	s := workload.External{Up: runs, Gone: !runs, Exit: a.exits[id]}
	if runs && a.missing > 0 {
		s.Up, s.Missing = false, a.missing
	}
	if runs && !a.fits(id) {
		s.Up, s.Waits = false, a.waits
	}
	return s
}

func (a *abroad) has(id sched.JobID, number int) []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.runs[api.AttemptID{Job: id, Number: number}]
}

// fits reports whether the pods of an attempt accept their nodes.
func (a *abroad) fits(id api.AttemptID) bool {
	return a.waits == nil || a.waits.NodeSelector[corev1.LabelHostname] == a.runs[id][0]
}

// TestExternalMisplaced: external pods do not accept their node, which only the pods
// themselves show. They are not bound, and the job is placed elsewhere.
func TestExternalMisplaced(t *testing.T) {
	other := newAbroad()
	w := newWorld(t, kubetest.NodeSpec{Count: 2, GPUs: 4}, func(c *pods.Config) { c.External = other })
	other.waits = &corev1.PodSpec{NodeSelector: map[string]string{corev1.LabelHostname: w.prefix + "-1"}}
	jobs, err := w.now().Submit(t.Context(), admin, []api.Submission{{
		Spec: sched.Spec{GPUs: 2}, Task: api.Task{Name: "picky", Command: []string{"x"}, Origin: "TrainJob/" + w.namespace + "/picky"}}})
	if err != nil {
		t.Fatal(err)
	}
	id := jobs[0].ID
	w.plan(wants{id: {w.on(0, 0b11)}})
	w.waitState(id, api.Waiting)
	s, err := w.now().Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if j := s.Jobs[0]; len(j.Avoid) != 1 || j.Avoid[0] != w.prefix+"-0" {
		t.Errorf("the job avoids %v; want the first node", j.Avoid)
	}
	if got := w.job(id).Exit.Text(); !strings.Contains(got, "does not satisfy nodeSelector {kubernetes.io/hostname="+w.prefix+"-1}; suitable nodes: 1") {
		t.Errorf("the attempt ended with %q", got)
	}
	w.wait("it may run elsewhere", func() bool {
		w.plan(wants{id: {w.on(1, 0b11)}})
		return other.has(id, 2) != nil
	})
	w.waitState(id, api.Running)
}

// TestExternalNeverMade: if no controller creates the pods of a job, it gives its GPUs
// back.
func TestExternalNeverMade(t *testing.T) {
	other := newAbroad()
	other.missing = 2
	w := newWorld(t, kubetest.NodeSpec{Count: 1, GPUs: 4}, func(c *pods.Config) { c.External, c.PullFor = other, time.Second })
	jobs, err := w.now().Submit(t.Context(), admin, []api.Submission{{
		Spec: sched.Spec{GPUs: 2}, Task: api.Task{Name: "nobodys", Command: []string{"x"}, Origin: "TrainJob/" + w.namespace + "/nobodys"}}})
	if err != nil {
		t.Fatal(err)
	}
	id := jobs[0].ID
	w.plan(wants{id: {w.on(0, 0b11)}})
	w.wait("it is given back", func() bool { return w.job(id).Exit != nil })
	w.waitState(id, api.Waiting)
	if got := w.job(id).Exit.Text(); !strings.Contains(got, "2 of 2 pods were not created within 1s; see the events of TrainJob "+w.namespace+"/nobodys") {
		t.Errorf("the attempt ended with %q", got)
	}
}

// TestExternal: external attempts wait for their GPUs like all others, and others wait
// for them, even through a crash.
func TestExternal(t *testing.T) {
	other := newAbroad()
	w := newWorld(t, kubetest.NodeSpec{Count: 1, GPUs: 4}, func(c *pods.Config) { c.External = other })
	submit := func() sched.JobID {
		jobs, err := w.now().Submit(t.Context(), admin, []api.Submission{{
			Spec: sched.Spec{GPUs: 2}, Task: api.Task{Name: "batch", Command: []string{"x"}, Origin: "Job/" + w.namespace + "/batch", Preemptible: new(true)}}})
		if err != nil {
			t.Fatal(err)
		}
		return jobs[0].ID
	}
	ours := w.submit(sched.Spec{GPUs: 1}, map[string]string{kubetest.StopAfter: "1s"})
	w.plan(wants{ours: {w.on(0, 0b1)}})
	w.waitState(ours, api.Running)
	theirs := submit()
	w.plan(wants{theirs: {w.on(0, 0b11)}})
	w.wait("they run", func() bool {
		runs := other.has(theirs, 1) != nil
		if runs && w.left(ours) > 0 {
			t.Fatal("they began before our pod was gone")
		}
		return runs
	})
	if got := other.has(theirs, 1); !slices.Equal(got, []string{w.prefix + "-0", w.prefix + "-0"}) {
		t.Errorf("they were sent to %v", got)
	}
	w.waitState(theirs, api.Running)

	// They are slow to stop, and our attempt waits. A new operator knows only that they
	// should stop.
	other.mu.Lock()
	other.slow = true
	other.mu.Unlock()
	w.plan(wants{ours: {w.on(0, 0b1)}})
	w.Restart(t)
	end := time.Now().Add(1500 * time.Millisecond)
	w.wait("ours is not started while they are there", func() bool {
		if n := w.Starts(ours); n != 1 {
			t.Fatalf("ours was started %d times; want 1", n)
		}
		return time.Now().After(end)
	})
	other.mu.Lock()
	other.slow = false
	other.mu.Unlock()
	w.waitState(ours, api.Running)
	w.waitState(theirs, api.Waiting)

	// They end by themselves.
	w.plan(wants{ours: {w.on(0, 0b1)}, theirs: {w.on(0, 0b1100)}})
	w.waitState(theirs, api.Running)
	other.mu.Lock()
	other.exits[api.AttemptID{Job: theirs, Number: 2}] = &api.Exit{Code: 1, Why: "BackoffLimitExceeded"}
	other.mu.Unlock()
	w.waitState(theirs, api.Failed)
	if got := w.job(theirs).Exit.Text(); !strings.Contains(got, "BackoffLimitExceeded") {
		t.Errorf("they ended with %q", got)
	}
}
