// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package executortest_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fairway-gpu/fairway/daemon/executor/executortest"
	"github.com/fairway-gpu/fairway/daemon/loop"
	"github.com/fairway-gpu/fairway/sched"
)

// TestBook: the state, with processes that are pretended, keeps the rules.
func TestBook(t *testing.T) { executortest.Run(t, executortest.Quick(), open(mutant{})) }

// TestSuspension: so do they with jobs that are suspended.
func TestSuspension(t *testing.T) {
	executortest.RunSuspension(t, executortest.Quick(), openSuspender(mutant{}))
}

// mutants are worlds that break a rule each, with the test that must see it.
var mutants = map[string]struct {
	mutant mutant
	test   string // of the suite, as -run names it
}{
	"drops a start":                   {mutant{backend: wrap(dropStart)}, "a_job_runs_on"},
	"drops a stop":                    {mutant{backend: wrap(dropStop)}, "a_victim_leaves"},
	"applies nothing if one is stale": {mutant{backend: wrap(allOrNothing)}, "cancelled_in_between"},
	"applies a decision anew":         {mutant{backend: wrap(anew)}, "applied_twice"},
	"never says that it changed":      {mutant{backend: func(b loop.Backend) loop.Backend { return mute{b} }}, "a_job_that_finishes"},
	"changes old snapshots":           {mutant{backend: func(b loop.Backend) loop.Backend { return &shared{Backend: b} }}, "a_snapshot_stays"},
	"double-books":                    {mutant{crowds: true}, "two_jobs_change"},
	"runs a job twice at once":        {mutant{doubles: true}, "a_move_stops"},
	"starts again after a crash":      {mutant{forgets: true, doubles: true, crowds: true}, "a_crash_does_not"},
	"lets jobs die with the daemon":   {mutant{kills: true}, "a_crash_does_not"},
	"does not stop":                   {mutant{deaf: true}, "a_job_that_is_cancelled_leaves"},
	"does not tell ends":              {mutant{silent: true}, "a_job_that_fails"},
	"starts elsewhere":                {mutant{astray: true}, "a_job_runs_on"},

	"keeps the GPUs of what is suspended":  {mutant{keeps: true}, "a_suspended_job_makes"},
	"starts suspended jobs anew":           {mutant{restarts: true}, "a_suspended_job_makes"},
	"does not tell suspensions":            {mutant{hushes: true}, "a_suspended_job_keeps"},
	"goes on before GPUs are free":         {mutant{hurries: true}, "a_suspended_job_goes"},
	"does not tell refusals":               {mutant{mumbles: true}, "a_job_that_cannot"},
	"forgets refusals":                     {mutant{mumbles: true}, "a_refusal_is"},
	"does not stop what is suspended":      {mutant{hardens: true}, "a_suspended_job_can"},
	"starts what a crash left half-frozen": {mutant{forgets: true, doubles: true, crowds: true}, "a_crash_while_a_job_is_being"},
	"thaws in a crash":                     {mutant{thaws: true}, "a_crash_does_not_touch_what_is_suspended"},
	"does not let jobs go on":              {mutant{oversleep: true}, "a_crash_while_a_job_goes"},
	"wakes all in a crash":                 {mutant{thaws: true}, "nothing_is_double-booked_when"},
}

// TestMutants: every mutant is caught. A test that must fail runs in a process
// of its own.
func TestMutants(t *testing.T) {
	if name := os.Getenv("BACKENDTEST_MUTANT"); name != "" {
		// Long enough that a busy machine does not overlook what is wrong.
		pace := executortest.Pace{Patience: 10 * time.Second, Calm: time.Second, Linger: 300 * time.Millisecond}
		executortest.Run(t, pace, open(mutants[name].mutant))
		executortest.RunSuspension(t, pace, openSuspender(mutants[name].mutant))
		return
	}
	if testing.Short() {
		t.Skip("starts a process for each mutant")
	}
	var all sync.WaitGroup
	for name, m := range mutants {
		all.Go(func() {
			cmd := exec.Command(os.Args[0], "-test.run=^TestMutants$/"+m.test, "-test.timeout=10m")
			cmd.Env = append(os.Environ(), "BACKENDTEST_MUTANT="+name)
			out, err := cmd.CombinedOutput()
			var exit *exec.ExitError
			switch {
			case err == nil:
				t.Errorf("a backend that %s passes %s:\n%s", name, m.test, out)
			case !errors.As(err, &exit) || !strings.Contains(string(out), "--- FAIL: TestMutants/"):
				t.Errorf("a backend that %s: %v:\n%s", name, err, out)
			}
		})
	}
	all.Wait()
}

// tampered is a backend whose decisions are changed on the way.
type tampered struct {
	loop.Backend
	change func(loop.Backend, loop.Decision) error
}

func (b tampered) Apply(_ context.Context, d loop.Decision) error { return b.change(b.Backend, d) }

func wrap(change func(loop.Backend, loop.Decision) error) func(loop.Backend) loop.Backend {
	return func(b loop.Backend) loop.Backend { return tampered{b, change} }
}

func without(d loop.Decision, v sched.Verb) loop.Decision {
	var kept []sched.Action
	for _, a := range d.Actions {
		if a.Verb != v {
			kept = append(kept, a)
		}
	}
	d.Actions = kept
	return d
}

func dropStart(b loop.Backend, d loop.Decision) error {
	return b.Apply(context.Background(), without(d, sched.Start))
}

func dropStop(b loop.Backend, d loop.Decision) error {
	return b.Apply(context.Background(), without(d, sched.Stop))
}

// allOrNothing refuses a decision as soon as one of its jobs is gone.
func allOrNothing(b loop.Backend, d loop.Decision) error {
	s, err := b.Snapshot(context.Background())
	if err != nil {
		return err
	}
	there := map[sched.JobID]bool{}
	for _, j := range s.Jobs {
		there[j.ID] = true
	}
	for _, a := range d.Actions {
		if !there[a.Job.ID] {
			return nil
		}
	}
	return b.Apply(context.Background(), d)
}

// anew carries out the starts of a decision as often as it is told, by moving
// the jobs that run already.
func anew(b loop.Backend, d loop.Decision) error {
	ctx := context.Background()
	if err := b.Apply(ctx, d); err != nil {
		return err
	}
	s, err := b.Snapshot(ctx)
	if err != nil {
		return err
	}
	again := loop.Decision{Policy: d.Policy, Snapshot: s, Plan: sched.NewPlan(s)}
	for i, j := range s.Jobs {
		again.Plan.Want[i] = j.Placement
		for _, a := range d.Actions {
			if a.Verb == sched.Start && a.Job.ID == j.ID && j.Phase == sched.Running {
				again.Actions = append(again.Actions, sched.Action{Verb: sched.Stop, Job: j, From: j.Placement, Moving: true},
					sched.Action{Verb: sched.Start, Job: j, To: a.To, Moving: true})
			}
		}
	}
	return b.Apply(ctx, again)
}

// mute never says that something changed.
type mute struct{ loop.Backend }

func (mute) Changed() <-chan struct{} { return nil }

// shared gives everybody the same snapshot, and changes it.
type shared struct {
	loop.Backend
	mu   sync.Mutex
	last *sched.Snapshot
}

func (b *shared) Snapshot(ctx context.Context) (*sched.Snapshot, error) {
	s, err := b.Backend.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.last == nil {
		b.last = s
	} else {
		*b.last = *s
	}
	return b.last, nil
}
