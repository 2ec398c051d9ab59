// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/diagnose"
	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/goodput"
)

// TestExits looks at every way an attempt can end.
func TestExits(t *testing.T) {
	failed := func(n int) api.Exit { e := exitOf("x-1", n); e.Code = 1; e.Why = "boom"; return e }
	yielded := func(n int) api.Exit {
		e := exitOf("x-1", n)
		e.Code, e.Yielded, e.Noticed = api.YieldCode, true, true
		return e
	}
	noticed := func(n int) api.Exit { e := exitOf("x-1", n); e.Noticed = true; return e }
	shot := func(n int) api.Exit { e := exitOf("x-1", n); e.Signal, e.Noticed = "SIGKILL", true; return e }
	lost := func(n int) api.Exit { e := exitOf("x-1", n); e.Lost = true; return e }
	preempt := func(d *desk) { d.decide(wants{}) }
	next := func(d *desk) { preempt(d); d.decide(wants{"x-1": on(1)}) } // attempt 1 still leaves
	tests := []struct {
		name     string
		retries  int
		before   func(*desk)
		exit     api.Exit
		state    string
		failures int
		running  map[string]string // nil: nothing
	}{
		{name: "finished", exit: exitOf("x-1", 1), state: api.Finished},
		{name: "failed", exit: failed(1), state: api.Failed},
		{name: "failed, to be tried again", retries: 1, exit: failed(1), state: api.Waiting, failures: 1},
		{name: "lost", exit: lost(1), state: api.Waiting, failures: 1},
		{name: "yielded unasked", exit: yielded(1), state: api.Waiting},
		{name: "noticed by somebody else", exit: noticed(1), state: api.Waiting},
		{name: "stopped", before: preempt, exit: yielded(1), state: api.Waiting},
		{name: "stopped and shot", before: preempt, exit: shot(1), state: api.Waiting},
		{name: "stopped, ends with 0", before: preempt, exit: noticed(1), state: api.Waiting},
		{name: "stopped, but had finished before", before: preempt, exit: exitOf("x-1", 1), state: api.Finished},
		{name: "stopped, but had failed before", before: preempt, exit: failed(1), state: api.Waiting},
		{name: "stopped, complete, ends with 0", before: func(d *desk) {
			preempt(d)
			d.report("x-1", 1, api.AgentReport{Done: 5, Complete: true})
		}, exit: noticed(1), state: api.Finished},
		{name: "stopped, complete, shot", before: func(d *desk) {
			preempt(d)
			d.report("x-1", 1, api.AgentReport{Done: 5, Complete: true})
		}, exit: shot(1), state: api.Waiting},
		{name: "the next is ordered, the old one yields", before: next, exit: yielded(1), state: api.Starting, running: map[string]string{"x-1.2": "1"}},
		{name: "the next is ordered, the old one fails", before: next, exit: failed(1), state: api.Starting, running: map[string]string{"x-1.2": "1"}},
		{name: "the next is ordered, the old one is lost", before: next, exit: lost(1), state: api.Starting, running: map[string]string{"x-1.2": "1"}},
		{name: "the next is ordered, the old one finishes", before: next, exit: exitOf("x-1", 1), state: api.Finished},
		{name: "paused, finishes", before: func(d *desk) { d.command("x-1", api.Pause) }, exit: exitOf("x-1", 1), state: api.Finished},
		{name: "paused, yields", before: func(d *desk) { d.command("x-1", api.Pause) }, exit: yielded(1), state: api.Paused},
		{name: "cancelled", before: func(d *desk) { d.command("x-1", api.Cancel) }, exit: exitOf("x-1", 1), state: api.Cancelled},
		{name: "an attempt that never was", exit: failed(7), state: api.Running, running: map[string]string{"x-1.1": "0"}},
		{name: "a job that never was", exit: exitOf("y-9", 1), state: api.Running, running: map[string]string{"x-1.1": "0"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			d := open(t)
			s := submission("x", 1)
			s.Retries = test.retries
			d.submit(ann, s)
			d.decide(wants{"x-1": on(0)})
			d.Started(api.AttemptID{Job: "x-1", Number: 1})
			d.clock.add(time.Minute)
			if test.before != nil {
				test.before(d)
			}
			for range 2 { // reported twice: the second changes nothing
				d.exited(test.exit)
				d.wantState("x-1", test.state)
				if got := d.job("x-1").Status.Failures; got != test.failures {
					t.Errorf("%d failures; want %d", got, test.failures)
				}
				want := test.running
				if want == nil {
					want = map[string]string{}
				}
				d.wantRunning(want)
			}
			if e, err := d.Explain(ann, "x-1"); err != nil || strings.Contains(e.Summary, "killed") {
				t.Errorf("explained by %q (%v); want words of people", e.Summary, err)
			}
			d.wantDurable()
		})
	}
}

// TestRetries: a job is tried again as often as it says, later each time.
func TestRetries(t *testing.T) {
	d := open(t)
	s := submission("x", 1)
	s.Retries = 2
	d.submit(ann, s)
	wait := time.Duration(0)
	for n := 1; n <= 3; n++ {
		d.decide(wants{"x-1": on(0)})
		e := exitOf("x-1", n)
		e.Code = 3
		d.exited(e)
		if n == 3 {
			break
		}
		d.wantState("x-1", api.Waiting)
		now := d.job("x-1").Status.NotBefore.Sub(d.clock.Now())
		if now <= wait {
			t.Errorf("wait %d is %s; want more than %s", n, now, wait)
		}
		wait = now
		d.clock.add(now)
	}
	d.wantState("x-1", api.Failed)
	if got := d.job("x-1").Exit; got == nil || got.Code != 3 {
		t.Errorf("exit %+v; want code 3", got)
	}
}

// TestLostDoesNotCount: what the machine lost uses up no retry.
func TestLostDoesNotCount(t *testing.T) {
	d := open(t)
	s := submission("x", 1)
	s.Retries = 1
	d.submit(ann, s)
	for n, want := range []string{api.Waiting, api.Waiting, api.Failed} {
		d.decide(wants{"x-1": on(0)})
		e := exitOf("x-1", n+1)
		if n == 0 {
			e.Lost = true
		} else {
			e.Code = 3
		}
		d.exited(e)
		d.wantState("x-1", want)
		d.clock.add(time.Hour)
	}
}

// TestHeldBack: a job that a quota keeps from starting waits for as long as it takes,
// and says so.
func TestHeldBack(t *testing.T) {
	d := open(t)
	d.submit(ann, submission("x", 1))
	for n := range 3 * maxLost {
		d.decide(wants{"x-1": on(0)})
		e := exitOf("x-1", n+1)
		e.Lost, e.Why, e.Host = true, "exceeded quota", []diagnose.Event{{Kind: api.HostHeldBack}}
		d.exited(e)
		d.wantState("x-1", api.Waiting)
		d.clock.add(mostBackOff)
	}
	j := d.job("x-1")
	if got := j.Exit.Text(); got != "could not be started: exceeded quota" {
		t.Errorf("it ended with %q", got)
	}
	if j.Status.Failures != 0 {
		t.Errorf("%d failures; want none: it never ran", j.Status.Failures)
	}
	d.decide(wants{"x-1": on(0)})
	e := exitOf("x-1", 3*maxLost+1)
	e.Lost, e.Why = true, "the machine was restarted"
	d.exited(e)
	d.wantState("x-1", api.Waiting) // the first attempt that was really lost
}

// TestHeldInVain: a job that holds GPUs again and again without starting waits longer
// than it held them, so that others get most of their time.
func TestHeldInVain(t *testing.T) {
	d := open(t)
	d.submit(ann, submission("x", 1))
	for n := 1; n <= 4; n++ {
		d.decide(wants{"x-1": on(0)})
		const held = 15 * time.Minute
		d.clock.add(held)
		e := exitOf("x-1", n)
		e.Lost, e.Why, e.Host = true, "its pods did not start", []diagnose.Event{{Kind: api.HostHeldBack}, {Kind: api.HostUnfit, Node: "full"}}
		d.exited(e)
		d.wantState("x-1", api.Waiting)
		wait := d.job("x-1").Status.NotBefore.Sub(d.clock.Now())
		if want := time.Duration(n) * held; wait != want {
			t.Errorf("after %d times it waits for %v; want %v", n, wait, want)
		}
		if got := d.job("x-1").Status.Avoid; !slices.Equal(got, []string{"full"}) {
			t.Errorf("it avoids %v; want the node that had no room", got)
		}
		d.clock.add(wait)
	}
}

// TestStartingPaused: while the machine starts nothing, the reason is the same
// wherever somebody looks.
func TestStartingPaused(t *testing.T) {
	d := open(t)
	why := "the disk is full"
	d.Store.Paused = func() string { return why }
	d.submit(ann, submission("x", 1))
	if r := d.job("x-1").Reason; r == nil || r.Code != startingPaused || !strings.Contains(r.Text, why) {
		t.Errorf("it waits because of %+v; want %s", r, why)
	}
	o, _ := d.Overview(admin)
	if o.StartingPaused != why || !strings.Contains(o.Problem, why) || o.WaitingFor[startingPaused] != 1 {
		t.Errorf("overview %+v; want %s", o, why)
	}
	why = ""
	if o, _ := d.Overview(admin); o.StartingPaused != "" || o.Problem != "" {
		t.Errorf("overview %+v; want no problem", o)
	}
}

// TestLostTooOften: a job that kills the machine again and again is given up;
// one that runs in between is not.
func TestLostTooOften(t *testing.T) {
	for _, good := range []bool{false, true} {
		d := open(t)
		d.submit(ann, submission("x", 1))
		n := 0
		for n < 3*maxLost && d.job("x-1").State == api.Waiting {
			n++
			d.decide(wants{"x-1": on(0)})
			e := exitOf("x-1", n)
			e.Lost = !good || n%2 == 1
			e.Yielded = !e.Lost
			d.exited(e)
			d.clock.add(mostBackOff)
		}
		want := map[bool]string{false: api.Failed, true: api.Waiting}[good]
		if got := d.job("x-1").State; got != want {
			t.Errorf("after %d attempts, some of them good %t: %s; want %s", n, good, got, want)
		}
		if !good && n != maxLost+1 {
			t.Errorf("given up after %d attempts; want %d", n, maxLost+1)
		}
	}
}

// TestCompleteOfAnOldAttempt: that attempt 1 said it was complete says nothing
// of attempt 2.
func TestCompleteOfAnOldAttempt(t *testing.T) {
	d := open(t)
	s := submission("x", 1)
	s.Retries = 1
	d.submit(ann, s)
	d.decide(wants{"x-1": on(0)})
	d.report("x-1", 1, api.AgentReport{Done: 10, Complete: true})
	e := exitOf("x-1", 1)
	e.Code = 1 // it could not write its last checkpoint
	d.exited(e)
	d.clock.add(time.Minute)
	d.decide(wants{"x-1": on(0)})
	d.decide(wants{})
	e = exitOf("x-1", 2)
	e.Noticed = true
	d.exited(e)
	d.wantState("x-1", api.Waiting)
}

// TestPrice: what a preemption cost depends on what was saved.
func TestPrice(t *testing.T) {
	yield := func(d *desk, n int) {
		e := exitOf("x-1", n)
		e.Code, e.Yielded, e.Noticed = api.YieldCode, true, true
		d.exited(e)
	}
	shot := func(d *desk, n int) {
		e := exitOf("x-1", n)
		e.Signal, e.Noticed = "SIGKILL", true
		d.exited(e)
	}
	tests := []struct {
		name string
		life func(*desk)
		lost float64 // work
		secs float64 // GPU-seconds
		done float64
	}{
		{"nothing saved", func(d *desk) { d.decide(wants{}); shot(d, 1) }, 100, 200, 0},
		{"an old checkpoint", func(d *desk) {
			d.report("x-1", 1, api.AgentReport{Done: 100, Rate: 1, Checkpoint: true})
			d.clock.add(10 * time.Second)
			d.decide(wants{})
			shot(d, 1)
		}, 10, 20, 100},
		{"saved on notice and yielded", func(d *desk) {
			d.decide(wants{})
			d.report("x-1", 1, api.AgentReport{Done: 101, Checkpoint: true})
			yield(d, 1)
		}, 0, 0, 101},
		{"saved on notice, shot all the same", func(d *desk) {
			d.decide(wants{})
			d.report("x-1", 1, api.AgentReport{Done: 101, Checkpoint: true})
			shot(d, 1)
		}, 0, 0, 101},
		{"yielded unasked", func(d *desk) {
			d.report("x-1", 1, api.AgentReport{Done: 100, Checkpoint: true})
			d.clock.add(10 * time.Second)
			yield(d, 1)
		}, 0, 0, 100},
		{"the second yields unasked: the first stays lost", func(d *desk) {
			d.decide(wants{})
			shot(d, 1)
			d.decide(wants{"x-1": on(0, 1)})
			d.clock.add(time.Second)
			yield(d, 2)
		}, 100, 200, 0},
		{"the second is moved before the first has yielded", func(d *desk) {
			d.decide(wants{"x-1": on(2, 3)}) // a move: attempt 2
			d.clock.add(10 * time.Second)
			d.decide(wants{"x-1": on(0, 1)}) // another: attempt 3
			yield(d, 1)
		}, 0, 0, 0},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			d := open(t)
			d.submit(ann, submission("x", 2))
			d.decide(wants{"x-1": on(0, 1)})
			d.report("x-1", 1, api.AgentReport{Rate: 1})
			d.clock.add(100 * time.Second)
			test.life(d)
			e, err := d.Explain(ann, "x-1")
			if err != nil {
				t.Fatal(err)
			}
			lost := 0.0
			for _, l := range e.Ledger {
				lost += l.Lost
			}
			if lost != test.lost || e.Price.LostS != test.secs {
				t.Errorf("lost %g of work and %g GPU-seconds; want %g and %g; ledger %+v", lost, e.Price.LostS, test.lost, test.secs, e.Ledger)
			}
			if got := e.Job.Status.Done; got != test.done {
				t.Errorf("done %g; want %g", got, test.done)
			}
			d.wantDurable()
		})
	}
}

// TestLearnsOnce: the experience of a job is worth one job, however often its
// end is told.
func TestLearnsOnce(t *testing.T) {
	learned := 0
	d := open(t, func(c *Config) { c.Learned = func() { learned++ } })
	d.submit(ann, submission("x", 1))
	d.decide(wants{"x-1": on(0)})
	d.report("x-1", 1, api.AgentReport{Done: 1, Rate: 1, Training: training(goodput.Sample{Nodes: 1, GPUs: 1, Local: 8, Step: 0.1})})
	d.tape.setFail(errDisk)
	wantCode(t, "exit on a full disk", d.Exited(t.Context(), exitOf("x-1", 1)), api.Unavailable)
	if learned != 0 {
		t.Errorf("learned %d times from an end that is not known yet", learned)
	}
	d.tape.setFail(nil)
	for range 3 {
		d.exited(exitOf("x-1", 1))
	}
	if learned != 1 || d.Pool.Len() != 1 {
		t.Errorf("learned %d times, %d records; want 1 and 1", learned, d.Pool.Len())
	}
}

// TestTypicalWork: policies are told what an agent announces and what similar jobs had done
// when they completed, in examples.
func TestTypicalWork(t *testing.T) {
	d := open(t)
	sample := goodput.Sample{Nodes: 1, GPUs: 1, Local: 8, Step: 0.1}
	for i, typical := range []float64{0, 300} { // the first ends long before what it announced
		id := d.submit(ann, submission("x", 1))
		d.decide(wants{id: on(0)})
		d.report(id, 1, api.AgentReport{Done: 300, Work: 1000, Training: training(sample)})
		if p := d.job(id).Status.Perf; p.Work != 1000 || p.Typical != typical || p.Examples != 1 {
			t.Errorf("job %d: work %g, typical %g, of %g examples; want 1000, %g of 1", i, p.Work, p.Typical, p.Examples, typical)
		}
		d.exited(exitOf(id, 1))
	}
	if off := d.mem.state.Peek().Announcements.Off; math.Abs(off-math.Log(1000.0/300)) > 0.01 {
		t.Errorf("announced lengths were off by %g; want log(1000/300)", off)
	}
}

// TestRecall: a state store that begins anew knows what the one before has learned, from
// records as well as from a snapshot.
func TestRecall(t *testing.T) {
	recall := func(c *Config) { c.Recall = true }
	d := open(t, recall)
	for i, name := range []string{"x", "y", "z"} {
		s := submission(name, 1)
		s.Model = "m-" + name
		id := d.submit(ann, s)
		d.decide(wants{id: on(0)})
		d.report(id, 1, api.AgentReport{Done: 1, Rate: 1, Training: training(goodput.Sample{Nodes: 1, GPUs: 1, Local: 8, Step: 0.1 * float64(i+1)})})
		e := exitOf(id, 1)
		if name == "z" {
			e.Code = 1 // who fails has nothing to teach
		}
		d.exited(e)
		if name == "x" {
			if err := d.Compact(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	text := func(d *desk) string {
		var b strings.Builder
		if err := d.Pool.Write(&b); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	after := reopen(t, d.tape.copyTape(), d.clock, recall)
	if d.Pool.Len() != 2 || text(after) != text(d) {
		t.Errorf("%d records; the next store knows\n%s\nwant 2, and\n%s", d.Pool.Len(), text(after), text(d))
	}
	if without := reopen(t, d.tape.copyTape(), d.clock); without.Pool.Len() != 0 {
		t.Errorf("without being asked it knows of %d; want none", without.Pool.Len())
	}
}

func training(samples ...goodput.Sample) *api.Training {
	return &api.Training{Limits: goodput.Limits{Initial: 8, Max: 64, LocalMin: 1, LocalMax: 32}, Noise: 10, Samples: samples}
}

var _ sched.Policy = wants{}
