// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/diagnose"
	"github.com/fairway-gpu/fairway/sched"
)

// withTable classifies failures.
func withTable(t testing.TB) func(*Config) {
	t.Helper()
	table, err := diagnose.Builtin()
	if err != nil {
		t.Fatal(err)
	}
	return func(c *Config) {
		c.Failures = table
		c.Node.Memory, c.Node.GPUMemory = 64<<30, 80<<30
	}
}

// crash is an exit with a code and what was printed last.
func crash(id sched.JobID, number int, log string) api.Exit {
	e := exitOf(id, number)
	e.Code = 1
	e.Tails = []diagnose.Log{{Name: "rank-0.log", Rank: 0, Text: log}}
	return e
}

const (
	traceback   = "Traceback (most recent call last):\n  File \"train.py\", line 3, in <module>\nNameError: name 'modle' is not defined\n"
	unreachable = "ConnectionRefusedError: [Errno 111] Connection refused\n"
	gpuMemory   = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 512.00 MiB.\n"
	peerLost    = "RuntimeError: NCCL error: unhandled system error\n"
)

// TestAdaptive: what is tried again, with what, and what is said about it.
func TestAdaptive(t *testing.T) {
	killed := exitOf("x-1", 1)
	killed.Signal, killed.Code = "SIGKILL", 137
	killed.Host = []diagnose.Event{{Kind: api.HostOutOfMemory, Text: "the job used more than its limit"}}
	tests := []struct {
		name    string
		retries int
		retry   string
		spec    sched.Spec
		exit    api.Exit
		state   string
		reason  string
		next    string
		wait    time.Duration
		check   func(*testing.T, api.Job, []api.Attempt)
	}{
		{name: "a bug is not tried again", retries: 3, exit: crash("x-1", 1, traceback), state: api.Failed, reason: "program-bug", next: "not retried: the program has a bug"},
		{name: "unless its user insists", retries: 3, retry: api.RetryAlways, exit: crash("x-1", 1, traceback), state: api.Waiting, reason: "program-bug", next: "retried in 5s", wait: firstBackOff},
		{name: "the network is tried again, later", retries: 3, exit: crash("x-1", 1, unreachable), state: api.Waiting, reason: "network", next: "retry 1 of 3", wait: time.Minute,
			check: func(t *testing.T, j api.Job, _ []api.Attempt) {
				if !slices.Equal(j.Status.Avoid, []string{"box"}) {
					t.Errorf("avoids %q; want box", j.Status.Avoid)
				}
			}},
		{name: "not without retries", exit: crash("x-1", 1, unreachable), state: api.Failed, reason: "network", next: "not retried: the job allows none (retries: 0)"},
		{name: "never", retries: 3, retry: api.RetryNever, exit: crash("x-1", 1, unreachable), state: api.Failed, reason: "network", next: "not retried: the job allows none (retry: never)"},
		{name: "out of memory", retries: 3, spec: sched.Spec{GPUs: 1, Memory: 8 << 30}, exit: killed, state: api.Waiting, reason: "host-out-of-memory", next: "12.0 GiB of host memory for each GPU instead of 8.0 GiB", wait: 30 * time.Second,
			check: func(t *testing.T, j api.Job, _ []api.Attempt) {
				if j.Memory != 12<<30 {
					t.Errorf("asks for %d; want 12 GiB", j.Memory)
				}
			}},
		{name: "out of little memory", retries: 3, spec: sched.Spec{GPUs: 1, Memory: 256 << 20}, exit: killed, state: api.Waiting, reason: "host-out-of-memory", next: "384 MiB of host memory for each GPU instead of 256 MiB", wait: 30 * time.Second},
		{name: "out of memory, of a node with little more", retries: 3, spec: sched.Spec{GPUs: 1, Memory: 60 << 30}, exit: killed, state: api.Waiting, reason: "host-out-of-memory", next: "64.0 GiB", wait: 30 * time.Second},
		{name: "out of all there is", retries: 3, spec: sched.Spec{GPUs: 1, Memory: 64 << 30}, exit: killed, state: api.Failed, reason: "host-out-of-memory", next: "no node has more"},
		{name: "out of GPU memory", retries: 1, spec: sched.Spec{GPUs: 1, GPUMemory: 4 << 30}, exit: crash("x-1", 1, gpuMemory), state: api.Waiting, reason: "gpu-out-of-memory", next: "FAIRWAY_BATCH_SCALE", wait: 30 * time.Second,
			check: func(t *testing.T, j api.Job, list []api.Attempt) {
				if j.GPUMemory != 6<<30 || len(list) != 1 || list[0].BatchScale != 0.5 {
					t.Errorf("GPU memory %d, attempts %+v; want 6 GiB and half the batch", j.GPUMemory, list)
				}
			}},
		{name: "no program", retries: 2, exit: func() api.Exit { e := exitOf("x-1", 1); e.Code, e.Why = 127, "trian: program not found"; return e }(), state: api.Failed, reason: "missing-program", next: "not retried"},
		{name: "nothing to go by", retries: 2, exit: crash("x-1", 1, ""), state: api.Waiting, reason: "unknown", next: "retry 1 of 2", wait: time.Minute},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			d := open(t, withTable(t))
			s := submission("x", 1)
			if test.spec.GPUs > 0 {
				s.Spec = test.spec
			}
			s.Retries, s.Retry = test.retries, test.retry
			d.submit(ann, s)
			d.decide(wants{"x-1": on(0)})
			d.clock.add(time.Minute)
			d.exited(test.exit)
			j := d.job("x-1")
			if j.State != test.state || j.Exit.Finding == nil || j.Exit.Finding.Reason != test.reason || !strings.Contains(j.Exit.Next, test.next) {
				t.Fatalf("%s, %+v, decided %q; want %s, %s, %q", j.State, j.Exit.Finding, j.Exit.Next, test.state, test.reason, test.next)
			}
			if len(j.Exit.Tails) > 0 {
				t.Error("the logs are kept")
			}
			if test.state == api.Waiting {
				if got := j.Status.NotBefore.Sub(d.clock.Now()); got != test.wait {
					t.Errorf("waits for %s; want %s", got, test.wait)
				}
				d.clock.add(test.wait)
				d.decide(wants{"x-1": on(0)})
			}
			if test.check != nil {
				test.check(t, d.job("x-1"), d.Attempts())
			}
			e, err := d.Explain(ann, "x-1")
			if err != nil || test.state == api.Failed && !strings.Contains(e.Summary, test.next) {
				t.Errorf("explained by %q (%v); want %q in it", e.Summary, err, test.next)
			}
			if n := strings.Count(e.Summary, j.Exit.Finding.Text); n > 1 {
				t.Errorf("explained by %q, which says the cause %d times", e.Summary, n)
			}
			d.wantDurable()
		})
	}
}

// TestFlaky: a job that fails twice for the network is tried again with growing
// pauses, keeps its history over a restart and a compaction, and then is given
// up because its retries are used up.
func TestFlaky(t *testing.T) {
	d := open(t, withTable(t))
	s := submission("x", 1)
	s.Retries = 2
	d.submit(ann, s)
	for n, want := range []time.Duration{time.Minute, 2 * time.Minute} {
		d.decide(wants{"x-1": on(0)})
		d.clock.add(time.Second)
		d.exited(crash("x-1", n+1, fmt.Sprintf("host %d: %s", n, unreachable)))
		if got := d.job("x-1").Status.NotBefore.Sub(d.clock.Now()); got != want {
			t.Fatalf("pause %d is %s; want %s", n+1, got, want)
		}
		if n == 0 {
			d = reopen(t, d.tape.copyTape(), d.clock, withTable(t))
		} else {
			if err := d.Compact(t.Context()); err != nil {
				t.Fatal(err)
			}
			d = reopen(t, d.tape.copyTape(), d.clock, withTable(t))
		}
		d.clock.add(want)
	}
	if got := len(d.mem.jobs["x-1"].Failed); got != 2 {
		t.Errorf("%d failures are remembered; want 2", got)
	}
	d.decide(wants{"x-1": on(0)})
	d.exited(crash("x-1", 3, "again: "+unreachable))
	if j := d.job("x-1"); j.State != api.Failed || !strings.Contains(j.Exit.Next, "all 2 retries are used up") {
		t.Errorf("%s, decided %q", j.State, j.Exit.Next)
	}
}

// TestOldJournal: records from before failures were looked into give the same
// state as ever.
func TestOldJournal(t *testing.T) {
	d := open(t) // without a table the records are those of old
	s := submission("x", 1)
	s.Retries = 3
	d.submit(ann, s)
	d.decide(wants{"x-1": on(0)})
	e := exitOf("x-1", 1)
	e.Code, e.Why = 1, "boom"
	d.exited(e)
	for _, r := range d.tape.records {
		for _, field := range []string{"finding", "advice", "quarantine", "screen", "tails"} {
			if strings.Contains(string(r), `"`+field+`"`) {
				t.Errorf("record %s has the field %s", r, field)
			}
		}
	}
	before := d.dump()
	after := reopen(t, d.tape.copyTape(), d.clock, withTable(t), func(c *Config) { c.Node.Memory, c.Node.GPUMemory = 0, 0 })
	if diff := difference(before, after.dump()); diff != "" {
		t.Errorf("(-before +after):\n%s", diff)
	}
	after.clock.add(time.Minute)
	after.decide(wants{"x-1": on(0)})
	after.exited(crash("x-1", 2, traceback))
	after.wantState("x-1", api.Failed)
}

// records returns the records of some kinds.
func (d *desk) records(kinds ...string) []api.Record {
	d.t.Helper()
	page, err := d.Records(admin, api.RecordFilter{Limit: api.MaxPage})
	if err != nil {
		d.t.Fatal(err)
	}
	return slices.DeleteFunc(page.Records, func(r api.Record) bool { return !slices.Contains(kinds, r.Kind()) })
}

// failOn makes jobs of three users fail on the node for its own reasons.
func (d *desk) failOn(log string) {
	d.t.Helper()
	for i, who := range []api.Identity{ann, bob, admin} {
		id := d.submit(who, submission("y", 1))
		d.decide(wants{id: on(i)})
		d.clock.add(time.Second)
		d.exited(crash(id, 1, log))
	}
}

// TestWithheld: on a cluster of one node nothing is taken out of use, but the
// operator is told, once, until time has passed or the operator says otherwise.
func TestWithheld(t *testing.T) {
	d := open(t, withTable(t))
	d.failOn(peerLost)
	list := d.records("node-withheld")
	if len(list) != 1 || !strings.Contains(list[0].Text, "3 jobs of 3 users failed on it") {
		t.Fatalf("records %+v; want one that names the failures", list)
	}
	node := func(d *desk) api.Node { n, _ := d.Nodes(ann); return n[0] }
	if n := node(d); n.State != sched.Ready || n.Quarantine == nil || n.Quarantine.State != diagnose.Withheld {
		t.Errorf("node %+v; want it in use, with a warning", n)
	}
	d.wantDurable()
	if _, err := d.SetNode(t.Context(), admin, "box", sched.Ready); err != nil {
		t.Fatal(err)
	}
	if n := node(d); n.Quarantine != nil {
		t.Errorf("after a pardon: %+v", n.Quarantine)
	}
	d2 := open(t, withTable(t))
	d2.failOn(peerLost)
	d2.clock.add(7 * time.Hour)
	if err := d2.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := node(d2); n.Quarantine != nil || len(d2.records("node-released")) != 1 {
		t.Errorf("after hours: %+v", n.Quarantine)
	}
	d2.wantDurable()
}

// addNodes lets the cluster be of several machines, as a later one will be.
func (d *desk) addNodes(names ...string) {
	d.t.Helper()
	err := d.commit(d.t.Context(), func(t *tx) error {
		for _, n := range names {
			if err := t.event(sched.Event{Kind: sched.NodeJoined, Node: &sched.Node{Name: n, GPUs: 4, Type: "h200"}}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		d.t.Fatal(err)
	}
}

// TestQuarantine: with other nodes the bad one is cordoned for a time, through
// restarts, and taken back; what an operator says goes.
func TestQuarantine(t *testing.T) {
	begin := func(t *testing.T) *desk {
		d := open(t, withTable(t))
		d.addNodes("b", "c")
		d.failOn(peerLost)
		return d
	}
	state := func(d *desk) string {
		i, _ := d.mem.state.Cluster().Node("box")
		_, held := d.mem.Quarantines["box"]
		return fmt.Sprint(d.mem.state.Cluster().Nodes[i].State, held)
	}
	const out, back, cordoned = "1true", "0false", "1false"
	norm := func(s string) string { return strings.ReplaceAll(s, " ", "") }
	d := begin(t)
	if got := norm(state(d)); got != out {
		t.Fatalf("state %s; want %s", got, out)
	}
	if err := d.Compact(t.Context()); err != nil {
		t.Fatal(err)
	}
	// A journal that the daemon of one machine reads again retires other names, so
	// the memory alone is looked at.
	payload, _, _ := d.tape.Snapshot()
	m, err := restore(payload, 100, 1<<20)
	if err != nil || m.Quarantines["box"].State != diagnose.Quarantined || m.nodeHealth.State("box") != diagnose.Quarantined {
		t.Fatalf("after a compaction: %+v, %v", m.Quarantines, err)
	}
	if err := d.Release(t.Context()); err != nil || norm(state(d)) != out {
		t.Errorf("released early: %s, %v", state(d), err)
	}
	d.clock.add(61 * time.Minute)
	if err := d.Release(t.Context()); err != nil || norm(state(d)) != back {
		t.Errorf("after an hour: %s, %v; want it back", state(d), err)
	}
	for want, set := range map[string]sched.NodeState{back: sched.Ready, cordoned: sched.Cordoned} {
		d := begin(t)
		if _, err := d.SetNode(t.Context(), admin, "box", set); err != nil {
			t.Fatal(err)
		}
		d.clock.add(2 * time.Hour)
		if err := d.Release(t.Context()); err != nil || norm(state(d)) != want {
			t.Errorf("after an operator set it to %d: %s, %v; want %s", set, state(d), err, want)
		}
	}
}

// TestUserErrorsConvictNobody: bugs of three users say nothing about the node.
func TestUserErrorsConvictNobody(t *testing.T) {
	d := open(t, withTable(t))
	d.addNodes("b", "c")
	d.failOn(traceback)
	if got := d.records("node-withheld", "node-quarantined"); len(got) > 0 {
		t.Errorf("records %+v; want none", got)
	}
}

// TestLostUncounted: what the machine lost counts as no retry, a restart of it
// convicts nobody.
func TestLostUncounted(t *testing.T) {
	d := open(t, withTable(t))
	s := submission("x", 1)
	s.Retries = 1
	d.submit(ann, s)
	for n := 1; n <= 3; n++ {
		d.decide(wants{"x-1": on(0)})
		e := exitOf("x-1", n)
		e.Lost, e.Why = true, "the machine was restarted"
		e.Host = []diagnose.Event{{Kind: api.HostRestarted}}
		d.exited(e)
		d.wantState("x-1", api.Waiting)
		if f := d.job("x-1").Exit.Finding; f == nil || f.Reason != "node-lost" {
			t.Errorf("finding %+v; want node-lost", f)
		}
		d.clock.add(time.Hour)
	}
	if got := d.records("node-withheld"); len(got) > 0 {
		t.Errorf("records %+v", got)
	}
	d.decide(wants{"x-1": on(0)})
	d.exited(crash("x-1", 4, unreachable))
	d.wantState("x-1", api.Waiting) // its own retry is still there
	d.wantDurable()
}

// TestFindingJSON: what a record keeps of a finding is what decides the same.
func TestFindingJSON(t *testing.T) {
	table, err := diagnose.Builtin()
	if err != nil {
		t.Fatal(err)
	}
	f := table.Classify(diagnose.Input{Logs: []diagnose.Log{{Name: "l", Rank: -1, Text: unreachable}}})
	b, err := json.Marshal(api.Exit{Finding: &f})
	if err != nil {
		t.Fatal(err)
	}
	var again api.Exit
	if err := json.Unmarshal(b, &again); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(&f, again.Finding); diff != "" || again.Finding.Hash() != f.Hash() {
		t.Errorf("(-before +after):\n%s", diff)
	}
}
