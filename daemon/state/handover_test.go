// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"testing"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/sched"
)

// TestHandOver: a job that has never started is handed over to one copy, also across a
// restart, and one that has started to none.
func TestHandOver(t *testing.T) {
	d := open(t)
	give := func(id sched.JobID, to string, want api.Code) {
		t.Helper()
		_, err := d.HandOver(t.Context(), ann, id, api.Handover{To: to})
		if want == "" && err == nil {
			return
		}
		wantCode(t, "hand "+string(id)+" over to "+to, err, want)
	}
	id := d.submit(ann, submission("x", 1))
	give(id, "", api.Invalid)
	_, err := d.HandOver(t.Context(), bob, id, api.Handover{To: "b/x-1"})
	wantCode(t, "by another user", err, api.Unknown)
	give(id, "b/x-1", "")
	give(id, "b/x-1", "")
	give(id, "c/x-1", api.Conflict)
	if j := d.job(id); j.State != api.Cancelled || j.MovedTo != "b/x-1" {
		t.Errorf("it is %s, moved to %q", j.State, j.MovedTo)
	}
	if err := d.Compact(t.Context()); err != nil {
		t.Fatal(err)
	}
	d = reopen(t, d.tape.copyTape(), d.clock)
	give(id, "c/x-1", api.Conflict)
	give(id, "b/x-1", "")

	cancelled := d.submit(ann, submission("x", 1))
	d.command(cancelled, api.Cancel)
	give(cancelled, "b/x-2", api.Conflict)

	first := submission("first", 1)
	before := d.submit(ann, first)
	after := submission("after", 1)
	after.DependsOn = []string{string(before)}
	waits := d.submit(ann, after)
	give(before, "b/x-3", api.Conflict)
	give(waits, "b/x-4", api.Conflict)

	alone := d.submit(ann, submission("alone", 1))
	d.decide(wants{alone: on(0)})
	d.wantState(alone, api.Starting)
	give(alone, "b/x-5", api.Conflict)
	d.decide(wants{})
	give(alone, "b/x-5", api.Conflict)
}

// TestMovedFrom: a copy is submitted paused, and starts when it is resumed.
func TestMovedFrom(t *testing.T) {
	d := open(t)
	s := submission("x", 1)
	s.MovedFrom, s.Key = "a/x-7", "k"
	id := d.submit(ann, s)
	d.wantState(id, api.Paused)
	d.decide(wants{id: on(0)})
	d.wantState(id, api.Paused)
	d.command(id, api.Resume)
	if again := d.submit(ann, s); again != id {
		t.Errorf("the same key made %s", again)
	}
	d.decide(wants{id: on(0)})
	if j := d.job(id); j.State == api.Paused || j.State == api.Waiting || j.MovedFrom != "a/x-7" {
		t.Errorf("it is %s, moved from %q", j.State, j.MovedFrom)
	}
}
