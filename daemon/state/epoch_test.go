// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"regexp"
	"strings"
	"testing"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/sched"
)

// kept keeps the last mark, as the file of a daemon does.
func kept(m *Mark) func(*Config) {
	return func(c *Config) { c.Mark = func(now Mark) { *m = now } }
}

func found(job sched.JobID, number int, epoch string) api.Attempt {
	return api.Attempt{AttemptID: api.AttemptID{Job: job, Number: number}, Epoch: epoch, Placement: on(0)}
}

func (d *desk) wantClaim(want bool, a api.Attempt) {
	d.t.Helper()
	got, err := d.Claim(d.t.Context(), a)
	if err != nil || got != want {
		d.t.Errorf("claim of %s, epoch %q: %v, %v; want %v", a.AttemptID, a.Epoch, got, err, want)
	}
}

// TestLostTail: after a loss of records no name, folder or secret of a lost job
// becomes another's, and everybody is told.
func TestLostTail(t *testing.T) {
	var mark Mark
	d := open(t, kept(&mark))
	d.submit(ann, submission("train", 1))
	backup := d.tape.copyTape()
	lost := d.submit(ann, submission("train", 1))
	d.decide(wants{lost: on(1)})
	first, secret := d.mem.epoch(), d.secret(lost, 1)
	seen := mark

	d = reopen(t, backup, d.clock, kept(&mark), func(c *Config) { c.Seen = seen })
	if now := d.mem.epoch(); now == first || now == "" {
		t.Errorf("the epoch is %q as before; want a new one", now)
	}
	if o, _ := d.Overview(admin); len(o.Damages) != 1 || !strings.Contains(o.Problem, "missing") {
		t.Errorf("problem %q, damages %v; want the missing records", o.Problem, o.Damages)
	}
	d.wantClaim(true, found("train-1", 0, first))
	d.wantClaim(false, found(lost, 0, first))
	d.wantClaim(false, found(lost, 1, first))
	if other := d.submit(bob, submission("train", 1)); other != "train-3" {
		t.Errorf("the next job is %s; want train-3, for train-2 was given away", other)
	}
	d.wantClaim(false, found("train-3", 0, first))
	if _, err := d.Report(t.Context(), secret, api.AgentReport{}); api.CodeOf(err) != api.Denied {
		t.Errorf("report of a lost job: %v; want it denied", err)
	}
	d.wantDurable()

	// The loss is said again until somebody acknowledges it, and only once.
	d = reopen(t, d.tape, d.clock, func(c *Config) { c.Seen = mark })
	if o, _ := d.Overview(admin); len(o.Damages) != 1 {
		t.Errorf("damages after a restart: %v; want the same one", o.Damages)
	}
	if _, err := d.AcknowledgeDamage(t.Context(), ann); api.CodeOf(err) != api.Denied {
		t.Errorf("acknowledged by a user: %v; want it denied", err)
	}
	if _, err := d.AcknowledgeDamage(t.Context(), admin); err != nil {
		t.Fatal(err)
	}
	d = reopen(t, d.tape.copyTape(), d.clock, func(c *Config) { c.Seen = mark })
	if o, _ := d.Overview(admin); len(o.Damages) != 0 || o.Problem != "" {
		t.Errorf("acknowledged, but problem %q, damages %v", o.Problem, o.Damages)
	}
}

// TestNewJournal: a journal that begins anew knows nothing of the one before it.
func TestNewJournal(t *testing.T) {
	var mark Mark
	d := open(t, kept(&mark))
	old := d.submit(ann, submission("train", 1))
	d.decide(wants{old: on(0)})
	first, secret := d.mem.epoch(), d.secret(old, 1)

	forgetful := open(t) // even the mark is gone
	if same := forgetful.submit(bob, submission("train", 1)); same != old {
		t.Fatalf("the job is %s; want %s: the test has lost its point", same, old)
	}
	forgetful.decide(wants{old: on(0)})
	forgetful.wantClaim(false, found(old, 0, first))
	forgetful.wantClaim(false, found(old, 1, first))
	forgetful.wantClaim(false, found(old, 0, ""))
	if _, err := forgetful.Report(t.Context(), secret, api.AgentReport{Complete: true}); api.CodeOf(err) != api.Denied {
		t.Errorf("report of another journal's job: %v; want it denied", err)
	}

	d = open(t, func(c *Config) { c.Seen = mark })
	if next := d.submit(bob, submission("train", 1)); next != "train-2" {
		t.Errorf("the first job is %s; want train-2", next)
	}
	if o, _ := d.Overview(admin); !strings.Contains(o.Problem, "the journal is new") {
		t.Errorf("problem %q; want it to say that the journal is new", o.Problem)
	}
}

// TestClaimTakesOver: a job whose start the journal has lost is not started again.
func TestClaimTakesOver(t *testing.T) {
	d := open(t)
	id := d.submit(ann, submission("train", 1))
	epoch := d.mem.epoch()
	d.wantClaim(true, found(id, 2, epoch)) // and an attempt before it, of which nothing is left
	d.wantRunning(map[string]string{"train-1.2": on(0)[0].GPUs.String()})
	if a := d.Attempts()[0]; a.Epoch != epoch || a.Token != d.secret(id, 2) {
		t.Errorf("taken over with epoch %q and another token; want epoch %q", a.Epoch, epoch)
	}
	if w := d.Withdrawn(); len(w) != 1 || w[0].Number != 1 {
		t.Errorf("withdrawn: %v; want attempt 1", w)
	}
	d.exited(exitOf(id, 1))
	d.exited(exitOf(id, 2))
	d.wantState(id, api.Finished)
	d.wantClaim(true, found(id, 2, epoch))
	d.wantClaim(true, found(id, 3, epoch)) // it must have been its own: nothing starts an ended job
	d.wantState(id, api.Finished)
	d.wantDurable()
}

// TestClaimLostEpoch: attempts of an epoch whose beginning the journal has lost are taken
// over all the same, also if another epoch began since.
func TestClaimLostEpoch(t *testing.T) {
	var mark Mark
	d := open(t, kept(&mark))
	id := d.submit(ann, submission("train", 1))
	backup := d.tape.copyTape()
	d.submit(ann, submission("train", 1))
	var lost []string
	for range 2 { // each time the journal is restored from the backup
		seen := mark
		d = reopen(t, backup.copyTape(), d.clock, kept(&mark), func(c *Config) { c.Seen = seen })
		lost = append(lost, d.mem.epoch())
	}
	d.decide(wants{id: on(0)})
	seen := mark
	d = reopen(t, backup, d.clock, func(c *Config) { c.Seen = seen })
	d.wantClaim(true, found(id, 1, lost[0]))
	d.wantClaim(true, found(id, 2, lost[1]))
	d.wantClaim(false, found(id, 3, "0123456789abcdef"))
	d.wantRunning(map[string]string{"train-1.2": on(0)[0].GPUs.String()})
	d.wantDurable()

	other := open(t, func(c *Config) { c.Seen = seen })
	other.wantClaim(false, found(id, 1, lost[1])) // of another journal
}

// TestClaimUnknown: a job of this epoch that the journal does not know is proof of a
// loss; its number is not used again.
func TestClaimUnknown(t *testing.T) {
	d := open(t)
	first := d.mem.epoch()
	d.wantClaim(false, found("train-7", 0, first))
	if d.mem.epoch() == first {
		t.Error("the epoch is the same")
	}
	if id := d.submit(ann, submission("train", 1)); id != "train-8" {
		t.Errorf("the next job is %s; want train-8", id)
	}
}

// TestNumbersInUse: a new journal does not give the names of jobs whose pods are
// still there.
func TestNumbersInUse(t *testing.T) {
	d := open(t, func(c *Config) { c.Seen = Mark{Jobs: 7} })
	if id := d.submit(ann, submission("x", 1)); id != "x-8" {
		t.Errorf("the first job is %s; want x-8", id)
	}
	if o, _ := d.Overview(admin); o.Problem != "" {
		t.Errorf("problem %q; want none", o.Problem)
	}
	epoch := d.mem.epoch()
	d = reopen(t, d.tape.copyTape(), d.clock, func(c *Config) { c.Seen = Mark{Jobs: 8} })
	if d.mem.epoch() != epoch {
		t.Error("a new epoch began although the journal knows all jobs")
	}
	d = reopen(t, d.tape.copyTape(), d.clock, func(c *Config) { c.Seen = Mark{Jobs: 20} }) // an old backup
	if id := d.submit(ann, submission("x", 1)); id != "x-21" || d.mem.epoch() == epoch {
		t.Errorf("the next job is %s; want x-21, in a new epoch", id)
	}
}

// TestV01Epoch: a journal of version 0.1, which had no epochs, keeps its jobs and
// gets an epoch for new ones.
func TestV01Epoch(t *testing.T) {
	d := open(t)
	id := d.submit(ann, submission("train", 1))
	d.decide(wants{id: on(0)})
	old := d.tape.copyTape()
	old.records[0] = regexp.MustCompile(`,"epoch":\{[^}]*\}`).ReplaceAll(old.records[0], nil)
	d = reopen(t, old, d.clock)
	if d.mem.epoch() == "" {
		t.Error("it got no epoch")
	}
	a := d.Attempts()
	if len(a) != 1 || a[0].Epoch != "" || a[0].Token != secretOf(d.Key, a[0].AttemptID, "") {
		t.Fatalf("orders %+v; want the attempt as version 0.1 started it", a)
	}
	if _, err := d.Report(t.Context(), a[0].Token, api.AgentReport{Done: 1}); err != nil {
		t.Errorf("report with the secret of version 0.1: %v", err)
	}
	d.wantClaim(true, found(id, 0, ""))
	d.wantClaim(true, found(id, 1, ""))
	next := d.submit(ann, submission("train", 1))
	d.wantClaim(false, found(next, 0, ""))
	d.wantClaim(true, found(next, 0, d.mem.epoch()))
	d.wantDurable()
}
