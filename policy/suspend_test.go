// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/fairway-gpu/fairway/policy"
	"github.com/fairway-gpu/fairway/sched"
)

// suspendWorld is a cluster whose nodes can suspend jobs, and jobs that cannot save.
type suspendWorld struct {
	t      *testing.T
	st     *sched.State
	now    time.Time
	policy sched.Policy
	jobs   []sched.JobID

	suspended int
}

func newSuspendWorld(t *testing.T, name string, nodes, gpus int) *suspendWorld {
	p, err := policy.Builtin().NewLive(name)
	if err != nil {
		t.Fatal(err)
	}
	var list []sched.Node
	for i := range nodes {
		list = append(list, sched.Node{Name: fmt.Sprint("n", i), GPUs: gpus, Type: "h200", GPUMemory: 80 << 30, Memory: 400 << 30, CPUs: 64, Suspend: true})
	}
	c, err := sched.NewCluster(list)
	if err != nil {
		t.Fatal(err)
	}
	return &suspendWorld{t: t, st: sched.NewState(c), now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), policy: p}
}

func (w *suspendWorld) apply(e sched.Event) {
	w.t.Helper()
	e.At = w.now
	if err := w.st.Apply(e); err != nil {
		w.t.Fatal(err)
	}
}

func (w *suspendWorld) submit(gpus int, edit func(*sched.Spec)) sched.JobID {
	id := sched.JobID(fmt.Sprint("j", len(w.jobs)))
	s := sched.Spec{ID: id, GPUs: gpus, Submitted: w.now, Protected: true, Estimate: sched.Duration(10 * time.Hour)}
	if edit != nil {
		edit(&s)
	}
	w.apply(sched.Event{Kind: sched.JobSubmitted, Spec: &s})
	w.jobs = append(w.jobs, id)
	return id
}

// decide carries out one decision as the daemon would.
func (w *suspendWorld) decide() {
	w.t.Helper()
	actions, _, err := sched.Decide(w.policy, w.st.Frozen(w.now))
	if err != nil {
		w.t.Fatal(err)
	}
	for _, a := range actions {
		j, _ := w.st.Job(a.Job.ID)
		if a.Verb == sched.Stop {
			if j.Pinned() {
				continue // an earlier stop took the memory
			}
			if a.Moving && j.Tied() {
				w.t.Fatalf("job %s is moved to where its state is not", j.ID)
			}
			w.apply(sched.Event{Kind: sched.JobStopped, Job: j.ID, Moving: a.Moving, Suspend: j.Suspends && !a.Moving})
			if len(j.Suspended) > 0 {
				w.suspended++
			}
			continue
		}
		if j.Phase == sched.Running {
			continue
		}
		if j.Bound() && !a.To.Equal(j.Suspended) {
			w.t.Fatalf("job %s, suspended on %v, starts on %v", j.ID, j.Suspended, a.To)
		}
		w.apply(sched.Event{Kind: sched.JobStarted, Job: j.ID, Placement: a.To, Screening: a.Screening, InPlace: j.Bound()})
	}
}

// TestPoliciesSuspend: whatever a policy plans, a job that cannot save is suspended or
// left alone, and goes on where it was.
func TestPoliciesSuspend(t *testing.T) {
	for _, name := range policy.Builtin().Names() {
		if _, err := policy.Builtin().NewLive(name); err != nil {
			continue // of the simulator alone
		}
		t.Run(name, func(t *testing.T) {
			random := rand.New(rand.NewPCG(3, 4))
			w := newSuspendWorld(t, name, 2, 4)
			for round := range 120 {
				if random.IntN(3) == 0 && w.st.Jobs() < 12 {
					w.submit(1+random.IntN(4), func(s *sched.Spec) {
						s.Protected = random.IntN(4) > 0
						s.GPUMemory, s.Memory = int64(random.IntN(80))<<30, int64(random.IntN(20))<<30
						s.Shareable = random.IntN(4) == 0
						s.Priority = random.IntN(3)
						if random.IntN(5) == 0 {
							s.MinGPUs, s.MaxGPUs = 1, 4
						}
					})
				}
				if live := w.st.Peek().Jobs; random.IntN(6) == 0 && len(live) > 0 {
					w.apply(sched.Event{Kind: sched.JobEnded, Job: live[random.IntN(len(live))].ID, Phase: sched.Finished})
				}
				w.decide()
				w.now = w.now.Add(time.Duration(1+round%20) * time.Minute)
			}
		})
	}
}

// TestTurnsBySuspending: policies that take turns do so with jobs that cannot save.
func TestTurnsBySuspending(t *testing.T) {
	for _, name := range []string{"gandiva", "las:lease=10m", "themis:lease=10m", "fairway"} {
		t.Run(name, func(t *testing.T) {
			w := newSuspendWorld(t, name, 1, 1)
			a, b := w.submit(1, nil), w.submit(1, nil)
			for range 24 * 60 {
				w.decide()
				w.now = w.now.Add(time.Minute)
			}
			for _, id := range []sched.JobID{a, b} {
				j, _ := w.st.Job(id)
				if j.Starts != 1 || j.RanBy(w.now) < time.Hour {
					t.Errorf("%s: %d starts, ran %s; want one start, and its turns", id, j.Starts, j.RanBy(w.now))
				}
			}
			if w.suspended < 2 {
				t.Errorf("%d suspensions; want turns", w.suspended)
			}
		})
	}
}
