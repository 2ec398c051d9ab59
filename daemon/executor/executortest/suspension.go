// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package executortest

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/fairway-gpu/fairway/sched"
)

// Suspender is a world whose nodes can suspend jobs in place. Running does not have a
// job that is suspended: it has no GPUs.
type Suspender interface {
	World
	// Frozen returns the jobs whose processes are all frozen, and off their GPUs: what
	// is, not what should be.
	Frozen() map[sched.JobID]bool
	// Refuse makes every try to suspend a job fail from now on, or no more.
	Refuse(t *testing.T, id sched.JobID, refuses bool)
}

// RunSuspension tries the worlds that open makes, one for each rule of suspension. An
// executor that offers suspension keeps these rules and those of Run.
func RunSuspension(t *testing.T, pace Pace, open func(*testing.T) Suspender) {
	for _, test := range suspension {
		t.Run(test.name, func(t *testing.T) {
			s := open(t)
			w := &suspending{trial: &trial{World: s, Pace: pace, t: t}, Suspender: s}
			watch := w.watch()
			defer watch()
			w.findNode()
			if !w.snapshot().Cluster.Nodes[w.index].Suspend {
				t.Fatalf("node %s cannot suspend jobs", w.node)
			}
			test.run(w)
		})
	}
}

// suspending is one world under test that can suspend jobs.
type suspending struct {
	*trial
	Suspender
}

// suspension is the rules of suspension, by name.
var suspension = []struct {
	name string
	run  func(*suspending)
}{
	{"a suspended job makes room and goes on as the same attempt", turns},
	{"a suspended job keeps its GPUs until that was told", toldFirst},
	{"a suspended job goes on when its GPUs are free", waitsForGPUs},
	{"a job that cannot be suspended runs on", refusedRunsOn},
	{"a refusal is told until it is heard", refusalHeard},
	{"a suspended job can be stopped", stoppedSuspended},
	{"a crash while a job is being suspended suspends it once", crashSuspending},
	{"a crash does not touch what is suspended", crashSuspended},
	{"a crash while a job goes on lets it go on once", crashResuming},
	{"nothing is double-booked when jobs take turns", takeTurns},
}

// plain submits a job that would lose work if it were stopped.
func (w *suspending) plain() sched.JobID {
	w.t.Helper()
	return w.Submit(w.t, Job{Spec: sched.Spec{GPUs: 1}, Linger: w.Linger, Plain: true})
}

// two returns two plain jobs, of which the first is on GPU 0.
func (w *suspending) two() (a, b sched.JobID) {
	w.t.Helper()
	a, b = w.plain(), w.plain()
	w.plan(wants{a: w.on(0)})
	w.runsOn(a, 0)
	return a, b
}

// frozenIs waits until a job is suspended.
func (w *suspending) frozenIs(id sched.JobID) {
	w.t.Helper()
	w.eventually(fmt.Sprintf("job %s is suspended", id), func() bool { return w.Frozen()[id] })
}

// sameAttempt: a job was started once, whatever happened to it since.
func (w *suspending) sameAttempt(id sched.JobID) {
	w.t.Helper()
	w.wantStarts(id, 1)
	if j := find(w.snapshot(), id); j == nil || j.Starts != 1 {
		w.t.Errorf("job %+v in the snapshot; want one start", j)
	}
}

func turns(w *suspending) {
	a, b := w.two()
	for range 2 {
		w.plan(wants{b: w.on(0)})
		w.runsOn(b, 0)
		w.frozenIs(a)
		if j := find(w.snapshot(), a); j == nil || j.Phase != sched.Pending || !j.Suspended.Equal(w.on(0)) {
			w.t.Errorf("job %+v in the snapshot; want it suspended on GPU 0", j)
		}
		w.stays("the other runs, and it stays suspended", func() bool { return w.isOn(b, 0) && w.Frozen()[a] })
		w.plan(wants{a: w.on(0)})
		w.runsOn(a, 0)
		w.frozenIs(b)
	}
	w.sameAttempt(a)
	w.sameAttempt(b)
	w.End(w.t, a, 0)
	w.eventually("the job finished", func() bool { return w.Phase(a) == sched.Finished })
}

// toldFirst: whoever sees the next job run can read in the state that the first has left,
// and how long it took.
func toldFirst(w *suspending) {
	a, b := w.two()
	w.plan(wants{b: w.on(0)})
	w.runsOn(b, 0)
	if j := find(w.snapshot(), a); j == nil || j.Suspension == nil || j.Suspension.Out <= 0 {
		w.t.Errorf("job %+v in the snapshot, and its GPU is used; want how long its suspension took", j)
	}
}

// waitsForGPUs: the job that has the GPU meanwhile cannot be suspended, and takes a while
// to leave.
func waitsForGPUs(w *suspending) {
	a := w.plain()
	w.plan(wants{a: w.on(0)})
	w.runsOn(a, 0)
	b := w.Submit(w.t, Job{Spec: sched.Spec{GPUs: 1}, Linger: 2 * w.Linger})
	w.plan(wants{b: w.on(0)})
	w.runsOn(b, 0)
	w.frozenIs(a)
	w.plan(wants{a: w.on(0)})
	w.runsOn(a, 0)
	if len(w.Running()[b]) > 0 {
		w.t.Errorf("job b still runs: %v", w.Running())
	}
	w.sameAttempt(a)
	w.wantStarts(b, 1)
}

func refusedRunsOn(w *suspending) {
	a, b := w.two()
	w.Refuse(w.t, a, true)
	w.plan(wants{b: w.on(0)})
	w.isRefused(a)
	w.stays("it runs on, and nobody else on its GPU", func() bool { return w.isOn(a, 0) && len(w.Running()[b]) == 0 })
	w.plan(wants{a: w.on(0), b: w.on(1)})
	w.runsOn(b, 1)
	w.sameAttempt(a)
}

// isRefused waits until the state knows that a job runs on because it cannot be
// suspended.
func (w *suspending) isRefused(id sched.JobID) {
	w.t.Helper()
	w.eventually("the state knows that it runs on", func() bool {
		j := find(w.snapshot(), id)
		return j != nil && j.Phase == sched.Running && j.Placement.Equal(w.on(0)) && j.Suspension != nil && j.Suspension.Failed != ""
	})
}

// refusalHeard: nothing is lost with the daemon that could not tell it.
func refusalHeard(w *suspending) {
	a, b := w.two()
	w.Refuse(w.t, a, true)
	w.plan(wants{b: w.on(0)})
	w.Restart(w.t)
	w.isRefused(a)
	w.runsOn(a, 0)
	w.sameAttempt(a)
}

func stoppedSuspended(w *suspending) {
	a, b := w.two()
	w.plan(wants{b: w.on(0)})
	w.runsOn(b, 0)
	w.frozenIs(a)
	w.Cancel(w.t, a)
	w.eventually("its processes are gone", func() bool { return !w.Frozen()[a] && len(w.Running()[a]) == 0 })
	if got := w.Phase(a); got != sched.Cancelled {
		w.t.Errorf("the job is %s; want killed", got)
	}
	w.stays("the other runs on", func() bool { return w.isOn(b, 0) })
}

func crashSuspending(w *suspending) {
	a, b := w.two()
	w.plan(wants{b: w.on(0)})
	w.Restart(w.t)
	w.runsOn(b, 0)
	w.frozenIs(a)
	w.stays("nothing else is started", func() bool { return w.isOn(b, 0) && w.Frozen()[a] })
	w.sameAttempt(a)
	w.sameAttempt(b)
}

func crashSuspended(w *suspending) {
	a, b := w.two()
	w.plan(wants{b: w.on(0)})
	w.runsOn(b, 0)
	w.frozenIs(a)
	w.Restart(w.t)
	w.stays("it stays suspended, and the other runs", func() bool { return w.isOn(b, 0) && w.Frozen()[a] })
	w.plan(wants{a: w.on(0)})
	w.runsOn(a, 0)
	w.sameAttempt(a)
	w.sameAttempt(b)
}

func crashResuming(w *suspending) {
	a, b := w.two()
	w.plan(wants{b: w.on(0)})
	w.runsOn(b, 0)
	w.frozenIs(a)
	w.plan(wants{a: w.on(0)})
	w.Restart(w.t)
	w.runsOn(a, 0)
	w.frozenIs(b)
	w.sameAttempt(a)
	w.sameAttempt(b)
}

// takeTurns lets two jobs of each GPU take turns, mostly faster than they can change.
func takeTurns(w *suspending) {
	random := rand.New(rand.NewPCG(3, 4))
	var pairs [need][2]sched.JobID
	last := wants{}
	for g := range pairs {
		pairs[g] = [2]sched.JobID{w.plain(), w.plain()}
		last[pairs[g][0]] = w.on(g)
	}
	w.plan(last)
	for g := range pairs {
		w.runsOn(pairs[g][0], g)
	}
	for round := range 8 {
		last = wants{}
		for g := range pairs {
			last[pairs[g][random.IntN(2)]] = w.on(g)
		}
		w.plan(last)
		switch round % 3 {
		case 1:
			for id, at := range last {
				w.runsOn(id, at[0].GPUs.Indexes()...)
			}
		case 2:
			w.Restart(w.t)
		}
	}
	for g := range pairs {
		for _, id := range pairs[g] {
			if at, ok := last[id]; ok {
				w.runsOn(id, at[0].GPUs.Indexes()...)
			} else {
				w.eventually("the other has left", func() bool { return len(w.Running()[id]) == 0 })
			}
			if n := w.Starts(id); n > 1 {
				w.t.Errorf("job %s was started %d times; want once", id, n)
			}
		}
	}
}
