// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package executortest

import (
	"encoding/json"
	"math/rand/v2"

	"github.com/fairway-gpu/fairway/sched"
)

// suite is the rules, by name.
var suite = []struct {
	name string
	run  func(*trial)
}{
	{"a submitted job is in the snapshot", submitted},
	{"a job runs on the GPUs it was given", started},
	{"a snapshot stays as it is", frozen},
	{"a decision applied twice is applied once", twice},
	{"a job that was cancelled in between is left out", staleCancelled},
	{"a job that ended in between is left out", staleEnded},
	{"a job that moved in between is left out", staleMoved},
	{"a GPU that was given away in between is left out", staleTaken},
	{"a move stops before it starts", moved},
	{"two jobs change places", swapped},
	{"a victim leaves before the next begins", preempted},
	{"a job that finishes leaves", finished},
	{"a job that fails leaves", failed},
	{"a job that is cancelled leaves", cancelled},
	{"a job that is cancelled before it runs never runs on", cancelledEarly},
	{"a cordoned node takes nothing new", cordoned},
	{"a crash does not touch what runs", crashRunning},
	{"a crash after a start starts once", crashStart},
	{"a crash after a stop stops", crashStop},
	{"a crash in a move moves once", crashMove},
	{"nothing is double-booked in a busy hour", busy},
}

func submitted(w *trial) {
	w.settle()
	id := w.job(2)
	w.changed("a submission")
	j := find(w.snapshot(), id)
	if j == nil || j.Phase != sched.Pending || j.GPUs != 2 {
		w.t.Errorf("job %+v in the snapshot; want it pending, of 2 GPUs", j)
	}
	w.stays("nothing runs that nobody started", func() bool { return len(w.Running()) == 0 })
}

func started(w *trial) {
	a, b := w.job(2), w.job(1)
	w.plan(wants{a: w.on(1, 3), b: w.on(0)})
	w.runsOn(a, 1, 3)
	w.runsOn(b, 0)
	j := find(w.snapshot(), a)
	if j == nil || j.Phase != sched.Running || !j.Placement.Equal(w.on(1, 3)) || j.Starts != 1 {
		w.t.Errorf("job %+v in the snapshot; want it running on GPUs 1 and 3", j)
	}
	w.stays("both run on", func() bool { return w.isOn(a, 1, 3) && w.isOn(b, 0) })
}

func frozen(w *trial) {
	a, b := w.job(1), w.job(1)
	w.plan(wants{a: w.on(0)})
	w.runsOn(a, 0)
	s := w.snapshot()
	text := func() string {
		out, err := json.Marshal([]any{s.Now, s.Cluster.Nodes, s.Tenants, s.Jobs})
		if err != nil {
			w.t.Fatal(err)
		}
		return string(out)
	}
	before := text()
	w.plan(wants{b: w.on(0)})
	w.runsOn(b, 0)
	w.Cancel(w.t, a)
	w.job(1)
	if after := text(); after != before {
		w.t.Errorf("the snapshot was\n%s\nand is\n%s", before, after)
	}
}

func twice(w *trial) {
	a, b := w.job(1), w.job(1)
	first := w.decide(wants{a: w.on(0), b: w.on(1)})
	w.apply(first)
	w.apply(first)
	w.runsOn(a, 0)
	w.runsOn(b, 1) // or it would be stopped before it began
	w.apply(first)
	move := w.decide(wants{a: w.on(2)})
	w.apply(move)
	w.apply(move)
	w.apply(first)
	w.runsOn(a, 2)
	w.eventually("job b stopped", func() bool { return len(w.Running()[b]) == 0 })
	w.apply(move)
	w.stays("a alone runs, on GPU 2", func() bool { return w.isOn(a, 2) && len(w.Running()) == 1 })
	w.wantStarts(a, 2)
	w.wantStarts(b, 1)
	if j := find(w.snapshot(), b); j == nil || j.Preemptions != 1 {
		w.t.Errorf("job %+v in the snapshot; want it preempted once", j)
	}
}

func staleCancelled(w *trial) {
	a, b := w.job(1), w.job(1)
	d := w.decide(wants{a: w.on(0), b: w.on(1)})
	w.Cancel(w.t, a)
	w.apply(d)
	w.runsOn(b, 1)
	w.stays("the cancelled job does not run", func() bool { return len(w.Running()[a]) == 0 })
	w.wantStarts(a, 0)
}

func staleEnded(w *trial) {
	a, b, c := w.job(1), w.job(1), w.job(1)
	w.plan(wants{a: w.on(0)})
	w.runsOn(a, 0)
	d := w.decide(wants{b: w.on(0), c: w.on(1)}) // stops a
	w.End(w.t, a, 0)
	w.eventually("job a finished", func() bool { return w.Phase(a) == sched.Finished })
	w.apply(d)
	w.runsOn(b, 0)
	w.runsOn(c, 1)
}

func staleMoved(w *trial) {
	a, b := w.job(1), w.job(1)
	w.plan(wants{a: w.on(0)})
	w.runsOn(a, 0)
	d := w.decide(wants{a: w.on(1), b: w.on(2)})
	w.plan(wants{a: w.on(3)})
	w.apply(d)
	w.runsOn(a, 3)
	w.runsOn(b, 2)
	w.stays("the job stays where the later decision put it", func() bool { return w.isOn(a, 3) })
}

func staleTaken(w *trial) {
	a, b, c := w.job(1), w.job(1), w.job(1)
	d := w.decide(wants{b: w.on(0), c: w.on(1)})
	w.plan(wants{a: w.on(0)})
	w.apply(d)
	w.runsOn(a, 0)
	w.runsOn(c, 1)
	w.stays("the GPU stays with who got it first", func() bool { return w.isOn(a, 0) && len(w.Running()[b]) == 0 })
	if j := find(w.snapshot(), b); j == nil || j.Phase != sched.Pending {
		w.t.Errorf("job %+v in the snapshot; want it pending", j)
	}
}

func moved(w *trial) {
	a := w.job(2)
	w.plan(wants{a: w.on(0, 1)})
	w.runsOn(a, 0, 1)
	w.plan(wants{a: w.on(2, 3)}) // free, so that nothing but its own processes is in the way
	w.eventually("the job moved", func() bool {
		// Only what is seen twice is so: see watch.
		if len(w.Running()[a]) > 2 {
			if now := w.Running()[a]; len(now) > 2 {
				w.t.Fatalf("the job runs twice at once: %v", now)
			}
		}
		return w.isOn(a, 2, 3)
	})
	w.plan(wants{a: w.on(1, 2)})
	w.runsOn(a, 1, 2)
	w.wantStarts(a, 3)
}

// swapped: one of the two leaves at once, and must wait for the other.
func swapped(w *trial) {
	a := w.Submit(w.t, Job{Spec: sched.Spec{GPUs: 1}})
	b := w.Submit(w.t, Job{Spec: sched.Spec{GPUs: 1}, Linger: 2 * w.Linger})
	w.plan(wants{a: w.on(0), b: w.on(1)})
	w.runsOn(a, 0)
	w.runsOn(b, 1)
	w.plan(wants{a: w.on(1), b: w.on(0)})
	w.runsOn(a, 1)
	w.runsOn(b, 0)
	w.wantStarts(a, 2)
	w.wantStarts(b, 2)
}

func preempted(w *trial) {
	a, b := w.job(1), w.job(1)
	w.plan(wants{a: w.on(0)})
	w.runsOn(a, 0)
	w.plan(wants{b: w.on(0)})
	w.runsOn(b, 0)
	if len(w.Running()[a]) > 0 {
		w.t.Errorf("job a still runs: %v", w.Running())
	}
	j := find(w.snapshot(), a)
	if j == nil || j.Phase != sched.Pending || j.Preemptions != 1 {
		w.t.Errorf("job %+v in the snapshot; want it pending, preempted once", j)
	}
	w.plan(wants{a: w.on(1), b: w.on(0)})
	w.runsOn(a, 1)
}

func finished(w *trial) { w.ends(0, sched.Finished) }

func failed(w *trial) { w.ends(3, sched.Failed) }

func (w *trial) ends(code int, phase sched.Phase) {
	w.t.Helper()
	a := w.job(1)
	w.plan(wants{a: w.on(0)})
	w.runsOn(a, 0)
	w.settle()
	w.End(w.t, a, code)
	w.changed("the end of a job")
	w.eventually("the job ended", func() bool { return w.Phase(a) == phase })
	if j := find(w.snapshot(), a); j != nil {
		w.t.Errorf("job %+v has ended and is in the snapshot", j)
	}
	b := w.job(1)
	w.plan(wants{b: w.on(0)})
	w.runsOn(b, 0)
}

func cancelled(w *trial) {
	a := w.job(1)
	w.plan(wants{a: w.on(0)})
	w.runsOn(a, 0)
	w.settle()
	w.Cancel(w.t, a)
	w.changed("a cancellation")
	w.eventually("its processes are gone", func() bool { return len(w.Running()) == 0 })
	if got := w.Phase(a); got != sched.Cancelled {
		w.t.Errorf("the job is %s; want killed", got)
	}
}

func cancelledEarly(w *trial) {
	a, b := w.job(1), w.job(1)
	w.plan(wants{a: w.on(0)})
	w.Cancel(w.t, a)
	w.plan(wants{b: w.on(0)})
	w.runsOn(b, 0)
	w.stays("the cancelled job is gone", func() bool { return len(w.Running()[a]) == 0 })
}

func cordoned(w *trial) {
	a, b := w.job(1), w.job(1)
	w.plan(wants{a: w.on(0)})
	w.runsOn(a, 0)
	d := w.decide(wants{a: w.on(0), b: w.on(1)})
	w.Cordon(w.t, w.node, true)
	w.apply(d)
	w.stays("what runs runs on, nothing new begins", func() bool { return w.isOn(a, 0) && len(w.Running()[b]) == 0 })
	if n := w.snapshot().Cluster.Nodes[w.index]; n.State != sched.Cordoned {
		w.t.Errorf("node %+v in the snapshot; want it cordoned", n)
	}
	w.settle()
	w.Cordon(w.t, w.node, false)
	w.changed("a node that takes work again")
	w.plan(wants{a: w.on(0), b: w.on(1)})
	w.runsOn(b, 1)
	w.wantStarts(a, 1)
}

func crashRunning(w *trial) {
	a, b := w.job(1), w.job(1)
	w.plan(wants{a: w.on(2)})
	w.runsOn(a, 2)
	w.Restart(w.t)
	w.stays("the job runs on", func() bool { return w.isOn(a, 2) })
	w.wantStarts(a, 1)
	s := w.snapshot()
	if j := find(s, a); j == nil || j.Phase != sched.Running || !j.Placement.Equal(w.on(2)) {
		w.t.Errorf("job %+v in the snapshot after a crash; want it running on GPU 2", j)
	}
	if j := find(s, b); j == nil || j.Phase != sched.Pending {
		w.t.Errorf("job %+v in the snapshot after a crash; want it pending", j)
	}
	w.End(w.t, a, 0)
	w.eventually("the job finished", func() bool { return w.Phase(a) == sched.Finished })
	w.wantStarts(a, 1) // whoever tells the end has looked at what should run
}

func crashStart(w *trial) {
	for g := range need {
		a := w.job(1)
		d := w.decide(wants{a: w.on(g)})
		w.apply(d)
		w.Restart(w.t)
		w.runsOn(a, g)
		w.wantStarts(a, 1)
		w.apply(d) // the loop does not know that it was applied
		w.stays("the job runs once", func() bool { return w.isOn(a, g) && w.Starts(a) == 1 })
	}
}

func crashStop(w *trial) {
	a, b := w.job(1), w.job(1)
	w.plan(wants{a: w.on(0)})
	w.runsOn(a, 0)
	w.plan(wants{b: w.on(0)})
	w.Restart(w.t)
	w.runsOn(b, 0)
	w.wantStarts(a, 1)
	w.wantStarts(b, 1)
}

func crashMove(w *trial) {
	a := w.job(1)
	w.plan(wants{a: w.on(0)})
	w.runsOn(a, 0)
	w.plan(wants{a: w.on(1)})
	w.Restart(w.t)
	w.runsOn(a, 1)
	w.Restart(w.t)
	w.stays("the job runs on", func() bool { return w.isOn(a, 1) })
	w.wantStarts(a, 2)
}

// busy shuffles jobs over the GPUs faster than they can leave.
func busy(w *trial) {
	random := rand.New(rand.NewPCG(1, 2))
	var jobs []sched.JobID
	for range need + 2 {
		jobs = append(jobs, w.job(1))
	}
	var last wants
	for round := range 15 {
		last = wants{}
		order := random.Perm(len(jobs))
		for g := range need {
			if random.IntN(4) > 0 || round == 14 {
				last[jobs[order[g]]] = w.on(g)
			}
		}
		w.plan(last)
		if round%6 == 5 {
			w.Restart(w.t)
		}
	}
	for id, at := range last {
		w.runsOn(id, at[0].GPUs.Indexes()...)
	}
	w.eventually("only these run", func() bool { return len(w.Running()) == len(last) })
}
