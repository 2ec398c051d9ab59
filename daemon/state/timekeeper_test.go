// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/sched"
)

// wrongClock is a machine whose clock is off. clock of the desk is what it shows.
type wrongClock struct {
	*desk
	steps time.Duration // since the start
	off   time.Duration
}

var trueStart = time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)

func newWrongClock(t *testing.T, off time.Duration) *wrongClock {
	w := &wrongClock{off: off}
	w.desk = reopen(t, newTape(), &clock{now: trueStart.Add(off)}, w.config)
	return w
}

func (w *wrongClock) config(c *Config) { c.Elapsed = func() time.Duration { return w.steps } }

func (w *wrongClock) right() time.Time { return trueStart.Add(w.steps) }

// pass lets time pass, and the daemon look at its clock as it does.
func (w *wrongClock) pass(d time.Duration) {
	w.t.Helper()
	for ; d > 0; d -= min(d, time.Minute) {
		w.steps += min(d, time.Minute)
		w.clock.add(min(d, time.Minute))
		if err := w.CheckClock(w.t.Context()); err != nil {
			w.t.Fatal(err)
		}
	}
}

func (w *wrongClock) jump(off time.Duration) {
	w.clock.add(off - w.off)
	w.off = off
}

func (w *wrongClock) wantNow(off time.Duration) {
	w.t.Helper()
	if o, _ := w.Overview(admin); (o.Now.Sub(w.right()) - off).Abs() > clockTolerance {
		w.t.Errorf("after %s the daemon's clock is off by %s; want %s", w.steps, o.Now.Sub(w.right()), off)
	}
}

// TestClockAheadForAMoment: a clock that was wrong for minutes leaves no trace.
func TestClockAheadForAMoment(t *testing.T) {
	w := newWrongClock(t, 0)
	id := w.submit(ann, submission("x", 1))
	w.decide(wants{id: on(0)})
	w.pass(time.Minute)
	w.jump(30 * 24 * time.Hour)
	w.pass(5 * time.Minute)
	w.wantNow(0)
	w.report(id, 1, api.AgentReport{Done: 5, Rate: 1, Checkpoint: true})
	w.jump(0)
	w.pass(20 * time.Minute)
	w.wantNow(0)
	if j := w.job(id); j.Status.Checkpoint.After(w.right()) || len(w.records("clock-set")) > 0 {
		t.Errorf("at %s the last checkpoint is of %s, %d corrections; want it in the past, and none", w.right(), j.Status.Checkpoint, len(w.records("clock-set")))
	}
}

// TestClockSetBack: times that were recorded with a clock that was ahead for long are
// corrected, once it is right again for some minutes.
func TestClockSetBack(t *testing.T) {
	const month = 30 * 24 * time.Hour
	w := newWrongClock(t, month)
	expires := w.clock.Now().Add(time.Hour)
	if _, _, err := w.CreateToken(t.Context(), admin, api.Token{User: "ann", Role: api.User, Expires: expires}); err != nil {
		t.Fatal(err)
	}
	id := w.submit(ann, submission("x", 1))
	w.decide(wants{id: on(0)})
	w.report(id, 1, api.AgentReport{Done: 5, Rate: 1, Work: 100, Checkpoint: true})
	ended := w.submit(ann, submission("ended", 1))
	w.command(ended, api.Cancel)
	w.pass(3 * time.Minute)
	w.wantNow(month)
	w.jump(0)
	w.pass(5 * time.Minute) // perhaps it is wrong now
	w.wantNow(month)
	w.submit(ann, submission("last", 1)) // a new daemon goes on from the last record
	w.desk = reopen(t, w.tape, w.clock, w.config)
	w.pass(11 * time.Minute)
	w.wantNow(0)
	if n := len(w.records("clock-set")); n != 1 {
		t.Fatalf("%d corrections; want 1", n)
	}
	j := w.job(id)
	for name, at := range map[string]time.Time{
		"submitted": j.Submitted, "since": j.Status.Since, "first start": j.Status.FirstStart, "checkpoint": j.Status.Checkpoint,
		"reported": j.Status.ReportedAt, "point": j.Last.At, "ended": w.job(ended).Ended, "ledger": w.explain(ann, id).Ledger[0].At,
	} {
		if at.Sub(trueStart).Abs() > clockTolerance {
			t.Errorf("%s: %s; want %s", name, at, trueStart)
		}
	}
	if tokens, _ := w.Tokens(admin); !tokens[0].Expires.Equal(expires) {
		t.Errorf("the token ends at %s; want %s as before", tokens[0].Expires, expires)
	}
	w.report(id, 1, api.AgentReport{Done: 50, Rate: 1, Work: 100, Checkpoint: true})
	e := exitOf(id, 1)
	w.exited(e)
	w.wantState(id, api.Finished)
	if ran := w.job(id).Status.Ran.D(); (ran - w.steps).Abs() > clockTolerance {
		t.Errorf("it ran for %s; want %s", ran, w.steps)
	}
	w.wantDurable()
}

// TestClockJumps is the small dose of what e2e does to a whole daemon: the clock jumps to
// and fro by up to a month, and the daemon is killed. In the end it is right.
func TestClockJumps(t *testing.T) {
	w := newWrongClock(t, 0)
	draw := rand.New(rand.NewPCG(7, 8))
	count := 0
	for range 60 {
		span := []time.Duration{time.Minute, time.Hour, 24 * time.Hour, 30 * 24 * time.Hour}[draw.IntN(4)]
		w.jump(time.Duration(draw.Int64N(int64(2*span))) - span)
		w.pass(time.Duration(draw.IntN(30)) * time.Minute)
		id := w.submit(ann, submission("x", 1))
		count++
		w.decide(wants{id: on(0)})
		if lost := exitOf(id, 1); draw.IntN(2) == 0 {
			lost.Lost = true
			w.exited(lost)
		} else {
			w.command(id, api.Cancel)
		}
		if draw.IntN(4) == 0 {
			w.desk = reopen(t, w.tape, w.clock, w.config)
		}
		w.decide(wants{})
	}
	w.jump(0)
	w.pass(30 * time.Minute)
	w.wantNow(0)
	page, err := w.List(admin, api.JobFilter{Limit: 200})
	if err != nil || page.Total != count {
		t.Fatalf("%d jobs, %v; want %d", page.Total, err, count)
	}
	for _, j := range page.Jobs {
		if j.Submitted.After(w.right()) || j.Status.Since.After(w.right()) || j.Status.NotBefore.After(w.right()) || j.Status.Ran < 0 || j.Status.Waited < 0 {
			t.Errorf("%s: at %s: submitted %s, %+v; want times of the past", j.ID, w.right(), j.Submitted, j.Status)
		}
		if j.Status.Phase == sched.Pending && !w.mem.jobs[j.ID].Job.Ready(w.right()) {
			t.Errorf("%s is held back until %s", j.ID, j.Status.NotBefore)
		}
	}
	w.wantDurable()
}
