// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"bytes"
	"strings"
	"testing"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/sched"
)

// cut damages a tape: it loses some records, and those behind them are found.
func (j *tape) cut(from, to int) (found [][]byte) {
	for _, p := range j.records[to:] {
		found = append(found, bytes.Clone(p))
	}
	j.records = j.records[:from]
	return found
}

// TestSalvage: what stands behind damage comes back, as far as it makes sense.
func TestSalvage(t *testing.T) {
	var mark Mark
	d := open(t, kept(&mark))
	first := d.submit(ann, submission("first", 1))
	before := len(d.tape.records)
	lost := d.submit(ann, submission("lost", 1))
	after := len(d.tape.records)
	s := submission("kept", 1)
	s.Key = "once"
	back := d.submit(ann, s)
	ran := d.submit(bob, submission("ran", 1))
	gone := d.submit(bob, submission("gone", 1))
	held := d.submit(bob, submission("held", 1))
	d.decide(wants{ran: on(2)})
	d.command(gone, api.Cancel)
	d.command(first, api.Cancel)
	d.command(lost, api.Cancel)
	d.command(held, api.Pause)
	token, secret, err := d.CreateToken(t.Context(), admin, api.Token{User: "ann", Role: api.User})
	if err != nil {
		t.Fatal(err)
	}
	epoch := d.mem.epoch()
	damaged := d.tape.copyTape()
	found := damaged.cut(before, after)
	found = append(found, []byte("not a record"))

	d = reopen(t, damaged, d.clock, func(c *Config) { c.Seen, c.Lost, c.Found = mark, "a bad page", found })
	for id, want := range map[sched.JobID]string{first: api.Cancelled, back: api.Waiting, ran: api.Waiting, gone: api.Cancelled, held: api.Paused} {
		d.wantState(id, want)
	}
	if _, err := d.Job(admin, lost); err == nil {
		t.Errorf("%s is back, but its record is lost", lost)
	}
	if who, err := d.Authenticate(secret); err != nil || who.User != token.User {
		t.Errorf("the token is gone: %v, %v", who, err)
	}
	if again := d.submit(ann, s); again != back {
		t.Errorf("the key of %s gives %s", back, again)
	}
	d.wantClaim(true, api.Attempt{AttemptID: api.AttemptID{Job: ran, Number: 1}, Epoch: epoch, Placement: on(2)})
	d.wantState(ran, api.Starting)
	if next := d.submit(ann, submission("x", 1)); next != "x-7" {
		t.Errorf("the next job is %s; want x-7", next)
	}
	o, _ := d.Overview(admin)
	for _, want := range []string{"missing", "a bad page", "4 jobs"} {
		if len(o.Damages) != 1 || !strings.Contains(o.Problem, want) {
			t.Errorf("problem %q, damages %v; want %q in one", o.Problem, o.Damages, want)
		}
	}
	d.wantDurable()

	// Brought back twice, because the daemon was killed in between: nothing changes.
	jobs := len(d.mem.jobs)
	d = reopen(t, d.tape, d.clock, func(c *Config) { c.Found = found })
	if len(d.mem.jobs) != jobs {
		t.Errorf("%d jobs after the second time; want %d", len(d.mem.jobs), jobs)
	}
	d.wantState(ran, api.Starting)
}

// TestCutOffWrite: a file that is damaged, but lacks nothing that was acknowledged,
// needs nobody's attention.
func TestCutOffWrite(t *testing.T) {
	var mark Mark
	d := open(t, kept(&mark))
	d.submit(ann, submission("x", 1))
	first := d.mem.epoch()
	d = reopen(t, d.tape.copyTape(), d.clock, func(c *Config) { c.Seen, c.Lost = mark, "a bad meta page" })
	if o, _ := d.Overview(admin); o.Problem != "" {
		t.Errorf("problem %q; want none", o.Problem)
	}
	if d.mem.epoch() == first {
		t.Error("the epoch is the same")
	}
}
