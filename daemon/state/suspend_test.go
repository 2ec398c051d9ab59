// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/sched"
)

// suspending is a machine that can suspend jobs.
func suspending(c *Config) { c.Node.Suspend, c.Node.Memory = true, 100<<30 }

func (d *desk) suspended(s api.Suspended) {
	d.t.Helper()
	if err := d.Suspended(d.t.Context(), s); err != nil {
		d.t.Fatal(err)
	}
}

// ordersText returns the attempts that should be there, with those that should be suspended
// in brackets.
func (d *desk) ordersText() string {
	var out []string
	for _, a := range d.Attempts() {
		text := a.AttemptID.String() + ":" + a.Placement[0].GPUs.String()
		if a.Suspended {
			text = "[" + text + "]"
		}
		out = append(out, text)
	}
	return strings.Join(out, " ")
}

func (d *desk) wantOrders(when, want string) {
	d.t.Helper()
	if got := d.ordersText(); got != want {
		d.t.Errorf("%s: orders are %q; want %q", when, got, want)
	}
	if w := d.Withdrawn(); len(w) > 0 {
		d.t.Errorf("%s: %v are withdrawn; want none", when, w)
	}
}

// crash returns the state that a daemon finds that starts now.
func (d *desk) crash() *desk {
	d.t.Helper()
	other := reopen(d.t, d.tape.copyTape(), d.clock, suspending)
	if diff := cmp.Diff(d.dump(), other.dump()); diff != "" {
		d.t.Errorf("after a restart (-before +after):\n%s", diff)
	}
	return other
}

// TestSuspendedTurns: a job that cannot save makes room by being suspended, and goes on
// as the same attempt. A crash changes nothing.
func TestSuspendedTurns(t *testing.T) {
	d := open(t, suspending)
	a, b := d.submit(ann, plain("a", 1)), d.submit(ann, plain("b", 1))
	d.decide(wants{a: on(0)})
	first := api.AttemptID{Job: a, Number: 1}
	d.Started(first)
	d.clock.add(time.Minute)
	if j := d.mem.jobs[a].Job; !j.Suspends || j.Pinned() {
		t.Fatalf("job %+v; want one that can be suspended", j.Status)
	}

	d.decide(wants{b: on(0)})
	d.wantOrders("b takes a's GPU", "[a-1.1:0] b-2.1:0")
	d.wantState(a, api.Stopping)
	d = d.crash()
	d.suspended(api.Suspended{AttemptID: first, Suspension: sched.Suspension{Memory: 7 << 30, Out: sched.Duration(3 * time.Second)}})
	d.wantState(a, api.Waiting)
	if n := d.mem.state.Cluster().Nodes[0]; n.SuspendedMemory != 7<<30 {
		t.Errorf("suspended jobs hold %d bytes of the node; want 7 GiB", n.SuspendedMemory)
	}
	e, err := d.Explain(ann, a)
	if err != nil || !strings.Contains(e.Summary, "frozen on node box") || !strings.Contains(e.Summary, "7.5 GB from its GPUs are in that node's memory") {
		t.Errorf("%v: %s", err, e.Summary)
	}
	if l := e.Ledger[len(e.Ledger)-1]; l.Verb != "preempt" || l.Lost != 0 || l.LostS != 0 {
		t.Errorf("the ledger says %+v; want a preemption that lost nothing", l)
	}

	d.clock.add(time.Minute)
	d.decide(wants{a: on(2), b: on(0)}) // where its state is not
	d.wantOrders("a can go on only on its own GPU", "[a-1.1:0] b-2.1:0")
	d.decide(wants{a: on(0)})
	d.wantOrders("a has its GPU back", "a-1.1:0 [b-2.1:0]")
	d = d.crash()
	d.suspended(api.Suspended{AttemptID: first, Suspension: sched.Suspension{Back: sched.Duration(time.Second)}})
	j := d.mem.jobs[a].Job
	if j.Starts != 1 || j.Preemptions != 1 || len(d.mem.jobs[a].Open) != 1 {
		t.Errorf("%+v, open %v; want one start, one preemption, one attempt", j.Status, d.mem.jobs[a].Open)
	}
	if out, back := j.SuspendCost(); out != 3*time.Second || back != time.Second {
		t.Errorf("it costs %s and %s; want what was measured", out, back)
	}
	d.exited(exitOf(a, 1))
	d.wantState(a, api.Finished)
	d.wantOrders("b waits", "[b-2.1:0]")
}

// TestSuspendedPause: a pause suspends a plain script, and not one that saves.
func TestSuspendedPause(t *testing.T) {
	d := open(t, suspending)
	a, b, c := d.submit(ann, plain("a", 1)), d.submit(ann, plain("b", 1)), d.submit(ann, submission("c", 1))
	d.decide(wants{a: on(0), b: on(1), c: on(2)})
	d.report(b, 1, api.AgentReport{Can: new(sched.Saves)})
	for _, id := range []sched.JobID{a, b, c} {
		d.command(id, api.Pause)
	}
	if got, want := d.ordersText(), "[a-1.1:0]"; got != want {
		t.Errorf("orders are %q; want %q", got, want)
	}
	d.suspended(api.Suspended{AttemptID: api.AttemptID{Job: a, Number: 1}, Suspension: sched.Suspension{Out: 1}})
	d.wantState(a, api.Paused)
	d.decide(wants{a: on(0)})
	d.wantState(a, api.Paused)
	d.command(a, api.Resume)
	d.decide(wants{a: on(0)})
	if got, want := d.ordersText(), "a-1.1:0"; got != want {
		t.Errorf("orders are %q; want %q", got, want)
	}
}

// TestSuspendedLost: what ends a suspended attempt is said with what was lost, and the
// job starts anew.
func TestSuspendedLost(t *testing.T) {
	d := open(t, suspending)
	a := d.submit(ann, plain("a", 1))
	d.decide(wants{a: on(0)})
	d.clock.add(time.Hour)
	d.command(a, api.Pause)
	e := exitOf(a, 1)
	e.Lost, e.Why = true, "the machine was restarted"
	d.exited(e)
	d.wantOrders("its state is lost", "")
	last := d.tape.records[len(d.tape.records)-1]
	if want := "ended while it was suspended (lost by the machine: the machine was restarted): all its work is lost, of 1h00m of running"; !strings.Contains(string(last), want) {
		t.Errorf("the last record is %s; want %q in it", last, want)
	}
	d.wantState(a, api.Paused)
	d = d.crash()
	d.command(a, api.Resume)
	d.decide(wants{a: on(3)})
	d.wantOrders("it starts anew", "a-1.2:3")
}

// TestSuspendRefused: a job that cannot be suspended runs on where it is, those that were
// given its GPUs wait, and nobody tries again.
func TestSuspendRefused(t *testing.T) {
	d := open(t, suspending)
	a, b := d.submit(ann, plain("a", 1)), d.submit(ann, plain("b", 1))
	d.decide(wants{a: on(0)})
	d.decide(wants{b: on(0)})
	d.suspended(api.Suspended{AttemptID: api.AttemptID{Job: a, Number: 1}, Suspension: sched.Suspension{Failed: "lock: CUDA_ERROR_NOT_SUPPORTED (801)"}})
	if got, want := d.ordersText(), "a-1.1:0"; got != want {
		t.Errorf("orders are %q; want %q", got, want)
	}
	d.exited(api.Exit{AttemptID: api.AttemptID{Job: b, Number: 1}, Noticed: true})
	if j := d.mem.jobs[a].Job; !j.Pinned() || j.Suspends {
		t.Errorf("%+v; want it pinned", j.Status)
	}
	d.wantState(b, api.Waiting)
	d = d.crash()
	d.decide(wants{a: on(0), b: on(1)})
	d.wantOrders("b goes elsewhere", "a-1.1:0 b-2.2:1")
}

// TestSuspendMemory: jobs are suspended only as long as the node's memory holds them.
func TestSuspendMemory(t *testing.T) {
	d := open(t, suspending)
	var ids []sched.JobID
	want := wants{}
	for g := range 3 {
		s := plain("x", 1)
		s.GPUMemory = 40 << 30
		ids = append(ids, d.submit(ann, s))
		want[ids[g]] = on(g)
	}
	d.decide(want)
	d.decide(wants{}) // of 100 GiB, two jobs take 80
	if got, want := d.ordersText(), "[x-1.1:0] [x-2.1:1] x-3.1:2"; got != want {
		t.Errorf("orders are %q; want %q", got, want)
	}
	if j := d.mem.jobs[ids[2]].Job; !j.Pinned() {
		t.Error("a job that memory cannot hold is not pinned")
	}
}

// TestSuspendedClaim: attempts that the journal has lost are taken as they are found,
// and two of them share no GPU.
func TestSuspendedClaim(t *testing.T) {
	d := open(t, suspending)
	a, b, c := d.submit(ann, plain("a", 1)), d.submit(ann, plain("b", 1)), d.submit(ann, plain("c", 1))
	d.decide(wants{a: on(0)})
	for _, found := range []api.Attempt{
		{AttemptID: api.AttemptID{Job: b, Number: 1}, Placement: on(0), Epoch: d.mem.epoch()},
		{AttemptID: api.AttemptID{Job: c, Number: 1}, Placement: on(0), Epoch: d.mem.epoch(), Suspended: true},
	} {
		if ok, err := d.Claim(t.Context(), found); !ok || err != nil {
			t.Fatalf("%s: %v, %v", found.AttemptID, ok, err)
		}
	}
	d.wantOrders("b was found on a's GPU, and c suspended there", "[a-1.1:0] b-2.1:0 [c-3.1:0]")
	d.crash()
}

// TestClaimDisplaces: who has made room, in records that the journal has lost, does not
// hold the GPUs of an attempt that was found there. Who would lose work keeps them.
func TestClaimDisplaces(t *testing.T) {
	d := open(t)
	a, b := d.submit(ann, submission("yields", 1)), d.submit(ann, plain("stays", 1))
	later, last := d.submit(ann, submission("later", 1)), d.submit(ann, submission("last", 1))
	d.decide(wants{a: on(0), b: on(1)})
	found := func(id sched.JobID, gpu int) api.Attempt {
		return api.Attempt{AttemptID: api.AttemptID{Job: id, Number: 1}, Placement: on(gpu), Epoch: d.mem.epoch()}
	}
	d.wantClaim(true, found(later, 0))
	d.wantClaim(true, found(last, 1))
	d.wantRunning(map[string]string{
		"later-3.1": on(0)[0].GPUs.String(), "stays-2.1": on(1)[0].GPUs.String(), "last-4.1": on(1)[0].GPUs.String()})
	d.wantDurable()
}
