// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"testing"
	"time"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/sched"
)

// resumed returns a job of 10,000 units that made 2,000 in 20 s, saved them, was
// preempted, and has begun its second attempt.
func resumed(t *testing.T) *desk {
	t.Helper()
	d := open(t)
	d.submit(ann, submission("x", 1))
	d.decide(wants{"x-1": on(0)})
	for _, done := range []float64{1000, 2000} {
		d.clock.add(10 * time.Second)
		d.report("x-1", 1, api.AgentReport{Done: done, Rate: 100, Work: 10000, Checkpoint: true})
	}
	d.decide(wants{})
	e := exitOf("x-1", 1)
	e.Code, e.Yielded, e.Noticed = api.YieldCode, true, true
	d.exited(e)
	d.clock.add(time.Minute)
	d.decide(wants{"x-1": on(0)})
	return d
}

// TestRestoredWorkIsNoRate: an agent of version 0.1 reports nothing done, then what it
// restored as work of its own. Neither is believed.
func TestRestoredWorkIsNoRate(t *testing.T) {
	d := resumed(t)
	for _, step := range []struct {
		after      time.Duration
		done, rate float64 // as the agent says
		want       float64 // the rate that the job shows
	}{
		{time.Second, 0, 0, 0},
		{2 * time.Second, 2200, 1100, 0},
		{4 * time.Second, 2600, 600, 100},
		{8 * time.Second, 3400, 350, 100},
		{16 * time.Second, 5000, 120, 120},
	} {
		d.clock.add(step.after)
		d.report("x-1", 2, api.AgentReport{Done: step.done, Rate: step.rate, Work: 10000})
		j := d.job("x-1")
		if want := max(2000, step.done); j.Status.Done != want || j.Status.Rate != step.want {
			t.Errorf("agent says %g done at %g/s: job shows %g at %g/s; want %g at %g/s", step.done, step.rate, j.Status.Done, j.Status.Rate, want, step.want)
		}
		if j.Rho > 4 {
			t.Errorf("rho %.1f of a job that waited one minute of two; want less than 4", j.Rho)
		}
	}
	d.wantDurable()
}

// TestProgressIsAsReported: nothing is shown as done that no agent reported, however
// long ago the report is.
func TestProgressIsAsReported(t *testing.T) {
	d := resumed(t)
	restored := 2000.0
	d.report("x-1", 2, api.AgentReport{Done: 2000, Restored: &restored, Work: 10000})
	d.clock.add(10 * time.Second)
	d.report("x-1", 2, api.AgentReport{Done: 3000, Restored: &restored, Rate: 100, Work: 10000})
	show := func(what string, want float64) {
		t.Helper()
		if got := d.job("x-1").Status.Done; got != want {
			t.Errorf("%s: %g done; want %g", what, got, want)
		}
	}
	d.clock.add(time.Hour)
	show("an hour after a report", 3000)
	d.decide(wants{})
	show("when it was stopped", 3000)
	e := exitOf("x-1", 2)
	e.Signal, e.Noticed = "SIGKILL", true
	d.exited(e)
	show("after it was killed", 2000)
	d.wantDurable()
}

// TestFoundLess: an attempt that finds less in its checkpoints than was reported as
// saved says so, and the price of the stop says it too.
func TestFoundLess(t *testing.T) {
	d := resumed(t)
	restored := 1500.0
	for range 2 {
		d.clock.add(time.Second)
		d.report("x-1", 2, api.AgentReport{Done: restored, Restored: &restored, Work: 10000})
	}
	if s := d.job("x-1").Status; s.Done != 1500 || s.CheckpointedWork != 1500 {
		t.Errorf("done %g, saved %g; want 1500 of both", s.Done, s.CheckpointedWork)
	}
	e, err := d.Explain(ann, "x-1")
	if err != nil {
		t.Fatal(err)
	}
	if l := e.Ledger[1]; l.Verb != "preempt" || l.Lost != 500 || l.LostS != 5 || e.Price.LostS != 5 {
		t.Errorf("ledger %+v, price %+v; want 500 units, 5 GPU-seconds lost", e.Ledger, e.Price)
	}
	d.clock.add(10 * time.Second)
	d.report("x-1", 2, api.AgentReport{Done: 2500, Restored: &restored, Rate: 100, Work: 10000, Checkpoint: true})
	d.report("x-1", 2, api.AgentReport{Done: 2500, Restored: &restored, Rate: 100, Work: 10000})
	if s := d.job("x-1").Status; s.CheckpointedWork != 2500 || s.Rate != 100 {
		t.Errorf("saved %g at %g/s; want 2500 at 100/s", s.CheckpointedWork, s.Rate)
	}
	d.wantDurable()
}

// TestSavedBehind: a checkpoint that was written while the training went on holds less
// than what is done.
func TestSavedBehind(t *testing.T) {
	d := resumed(t)
	restored, saved := 2000.0, 2400.0
	d.report("x-1", 2, api.AgentReport{Done: 2500, Restored: &restored, Rate: 100, Work: 10000, Checkpoint: true, Saved: &saved})
	if s := d.job("x-1").Status; s.CheckpointedWork != 2400 || s.Done != 2500 {
		t.Errorf("done %g, saved %g; want 2500 and 2400", s.Done, s.CheckpointedWork)
	}
	d.wantDurable()
	bad := api.AgentReport{Done: 1, Saved: new(-1.0)}
	if bad.Validate() == nil {
		t.Error("a negative number of saved work was taken")
	}
}

// TestSaveFailed: a job that was asked to stop and could not save says so. Its operator
// is told, and the stop counts as the loss that it is.
func TestSaveFailed(t *testing.T) {
	full := "No space left on device"
	for _, c := range []struct {
		name       string
		say        string // what the agent says
		end        api.Exit
		text       string // of the exit
		lost, less float64
	}{
		{"killed when its grace period ended", full, api.Exit{Signal: "SIGKILL", Why: "it did not stop within its notice of 30s"},
			"rank 0 was killed by SIGKILL: it did not stop within its notice of 30s; it could not save its work: " + full + "; lost 1000 of the work it had reported", 1000, 2000},
		{"an agent of version 0.1 left as if it had saved", "", api.Exit{Code: api.YieldCode, Yielded: true},
			"left when asked, without a checkpoint of its last work; lost 1000 of the work it had reported", 1000, 2000},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := resumed(t)
			for _, done := range []float64{2500, 3000} {
				d.clock.add(5 * time.Second)
				d.report("x-1", 2, api.AgentReport{Done: done, Rate: 100, Work: 10000})
			}
			d.decide(wants{})
			for range 3 {
				d.clock.add(5 * time.Second)
				d.report("x-1", 2, api.AgentReport{Done: 3000, Work: 10000, SaveFailed: c.say})
			}
			if got := d.job("x-1").SaveFailed; got != c.say {
				t.Errorf("save_failed %q; want %q", got, c.say)
			}
			c.end.AttemptID, c.end.Noticed = api.AttemptID{Job: "x-1", Number: 2}, true
			d.exited(c.end)
			j := d.job("x-1")
			if j.Exit.Text() != c.text || j.Exit.Unsaved != c.lost || j.Status.Done != c.less || j.SaveFailed != "" {
				t.Errorf("exit %q with %g unsaved, %g done, save_failed %q", j.Exit.Text(), j.Exit.Unsaved, j.Status.Done, j.SaveFailed)
			}
			e, err := d.Explain(ann, "x-1")
			if err != nil {
				t.Fatal(err)
			}
			if l := e.Ledger[len(e.Ledger)-1]; l.Verb != "preempt" || l.Lost != c.lost || l.LostS != 10 {
				t.Errorf("the stop cost %+v; want %g units and 10 GPU-seconds lost", l, c.lost)
			}
			if said, want := len(d.records("save-failed")), min(1, len(c.say)); said != want {
				t.Errorf("%d events say that it cannot save; want %d", said, want)
			}
			d.wantDurable()
		})
	}
}

// TestSavedAfterAll: a save that succeeds later is a save.
func TestSavedAfterAll(t *testing.T) {
	d := resumed(t)
	d.report("x-1", 2, api.AgentReport{Done: 2500, Work: 10000})
	d.decide(wants{})
	d.report("x-1", 2, api.AgentReport{Done: 2500, Work: 10000, SaveFailed: "No space left on device"})
	d.report("x-1", 2, api.AgentReport{Done: 2600, Work: 10000, Checkpoint: true})
	e := exitOf("x-1", 2)
	e.Code, e.Yielded, e.Noticed = api.YieldCode, true, true
	d.exited(e)
	j := d.job("x-1")
	if j.Exit.Text() != "saved its work and made room" || j.Status.Done != 2600 || j.SaveFailed != "" {
		t.Errorf("exit %q, %g done, save_failed %q", j.Exit.Text(), j.Status.Done, j.SaveFailed)
	}
}

// TestSavesFail: a protected job whose saves fail is pinned until one works, also for its
// executor and over a restart, and its grace period is prolonged.
func TestSavesFail(t *testing.T) {
	d := open(t)
	id := d.submit(ann, plain("x", 1))
	first, second := api.AttemptID{Job: id, Number: 1}, api.AttemptID{Job: id, Number: 2}
	d.decide(wants{id: on(0)})
	pinned := func(when string, want bool) {
		t.Helper()
		list := d.Attempts()
		if len(list) != 1 || list[0].Pinned != want {
			t.Errorf("%s: attempts %+v; want one, pinned %v", when, list, want)
		}
		if kept := d.job(id); (kept.Kept() != "") != want {
			t.Errorf("%s: kept because %q; want a reason: %v", when, kept.Kept(), want)
		}
	}
	const full = "No space left on device"
	d.report(id, 1, api.AgentReport{Done: 1, Can: new(sched.Saves), Checkpoint: true})
	pinned("it saves", false)
	d.report(id, 1, api.AgentReport{Done: 2, Can: new(sched.Saves), SaveFailed: full})
	pinned("a save failed", true)
	d.report(id, 1, api.AgentReport{Done: 3, Can: new(sched.Saves)})
	pinned("it says nothing of it", true)
	lost := exitOf(id, 1)
	lost.Lost = true
	d.exited(lost)
	d.clock.add(time.Hour)
	d.decide(wants{id: on(0)})
	d.report(id, 2, api.AgentReport{Done: 1, Restored: new(float64), Can: new(sched.Saves)})
	pinned("started again, from an older checkpoint", true)
	d.report(id, 2, api.AgentReport{Done: 2, Can: new(sched.Saves), Checkpoint: true})
	pinned("it saves again", false)

	d.decide(wants{}) // a save that fails now
	if d.SaveFails(second) {
		t.Error("its save fails before it was tried")
	}
	d.report(id, 2, api.AgentReport{Done: 3, Can: new(sched.Saves), SaveFailed: full})
	if !d.SaveFails(second) || d.SaveFails(first) {
		t.Errorf("SaveFails: attempt 2 %v, attempt 1 %v; want only 2", d.SaveFails(second), d.SaveFails(first))
	}
	d.wantDurable()
	d.command(id, api.Cancel)
	if d.SaveFails(second) {
		t.Error("a cancelled job has more time to save")
	}
}

// TestAway: a job is away from when it lost its GPUs to its first step afterwards, not
// to its start. While it waits, it shows the time so far.
func TestAway(t *testing.T) {
	d := resumed(t)
	away := func() (api.Entry, float64) {
		t.Helper()
		e, err := d.Explain(ann, "x-1")
		if err != nil {
			t.Fatal(err)
		}
		return e.Ledger[1], e.Price.AwayS
	}
	want := func(what string, seconds float64, ongoing bool) {
		t.Helper()
		if l, sum := away(); l.Verb != "preempt" || l.Away != seconds || l.Ongoing != ongoing || sum != seconds {
			t.Errorf("%s: %+v, in all %g s; want %g s away, ongoing %t", what, l, sum, seconds, ongoing)
		}
	}
	want("when it starts again", 60, true)
	d.clock.add(50 * time.Second)
	restored := 2000.0
	d.report("x-1", 2, api.AgentReport{Done: 2000, Restored: &restored, Work: 10000})
	want("when it has read its checkpoint", 110, true)
	d.wantDurable()
	d.clock.add(5 * time.Second)
	d.report("x-1", 2, api.AgentReport{Done: 2010, Restored: &restored, Work: 10000})
	want("after its first step", 115, false)
	d.clock.add(5 * time.Second)
	d.report("x-1", 2, api.AgentReport{Done: 2510, Restored: &restored, Work: 10000})
	want("later", 115, false)
	d.wantDurable()
}

// TestAwayWithoutAgent: a job that reports nothing is away until it starts.
func TestAwayWithoutAgent(t *testing.T) {
	d := open(t)
	d.submit(ann, submission("x", 1))
	d.decide(wants{"x-1": on(0)})
	d.clock.add(time.Minute)
	d.decide(wants{})
	e := exitOf("x-1", 1)
	e.Signal, e.Noticed = "SIGTERM", true
	d.exited(e)
	d.clock.add(20 * time.Second)
	show := func(seconds float64, ongoing bool) {
		t.Helper()
		e, _ := d.Explain(ann, "x-1")
		if l := e.Ledger[1]; l.Away != seconds || l.Ongoing != ongoing {
			t.Errorf("%+v; want %g s away, ongoing %t", l, seconds, ongoing)
		}
	}
	show(20, true)
	d.decide(wants{"x-1": on(0)})
	d.clock.add(time.Minute)
	show(20, false)
}

// TestRanAgrees: the summary of a job says the same run time as the rest of the answer.
func TestRanAgrees(t *testing.T) {
	d := open(t)
	d.submit(ann, submission("x", 1))
	d.clock.add(35 * time.Second)
	d.decide(wants{"x-1": on(0)})
	d.clock.add(167 * time.Second)
	d.exited(exitOf("x-1", 1))
	e, err := d.Explain(ann, "x-1")
	if err != nil {
		t.Fatal(err)
	}
	if want := "It is finished, after 2m47s of running and 35s of waiting."; e.Summary != want || e.Job.Status.Ran.String() != "2m47s" {
		t.Errorf("summary %q, ran %s; want %q", e.Summary, e.Job.Status.Ran, want)
	}
}
