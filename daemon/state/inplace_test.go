// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"strings"
	"testing"
	"time"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/sched"
)

// changeable returns an elastic job that trains on GPU 0 and can change in place.
func changeable(t *testing.T, roles ...api.JobRole) *desk {
	t.Helper()
	d := open(t)
	s := submission("x", 1)
	s.GPUs, s.MinGPUs, s.MaxGPUs, s.Roles = 0, 1, 4, roles
	if roles != nil {
		s.MinGPUs, s.MaxGPUs = 0, 0 // they say it
	}
	d.submit(ann, s)
	d.decide(wants{"x-1": on(0)})
	d.Started(api.AttemptID{Job: "x-1", Number: 1})
	can := sched.InPlace
	d.clock.add(10 * time.Second)
	d.report("x-1", 1, api.AgentReport{Done: 1000, Rate: 100, Work: 10000, Can: &can})
	return d
}

// last returns the last entry of a job's ledger.
func (d *desk) last(id sched.JobID) api.Entry {
	ledger := d.mem.jobs[id].Ledger
	return ledger[len(ledger)-1]
}

func TestChangeInPlaceKeepsTheAttempt(t *testing.T) {
	d := changeable(t)
	before := d.Attempts()[0]
	d.decide(wants{"x-1": on(0, 1, 2)})
	after := d.Attempts()[0]
	if after.AttemptID != before.AttemptID || after.Token != before.Token || !after.Placement.Equal(on(0, 1, 2)) {
		t.Fatalf("attempt %s on %v, was %s on %v", after.AttemptID, after.Placement, before.AttemptID, before.Placement)
	}
	if j := d.job("x-1"); j.Status.Starts != 1 || j.Status.Moves != 1 || len(d.Withdrawn()) != 0 {
		t.Errorf("%d starts, %d moves, %v withdrawn; want 1, 1, none", j.Status.Starts, j.Status.Moves, d.Withdrawn())
	}
	// While new ranks start, the others train on: it is not there yet.
	d.clock.add(5 * time.Second)
	d.report("x-1", 1, api.AgentReport{Done: 1500, Rate: 100, Work: 10000})
	if e := d.last("x-1"); !e.Ongoing || !e.InPlace {
		t.Errorf("entry %+v; want one that is ongoing", e)
	}
	d.clock.add(5 * time.Second)
	d.report("x-1", 1, api.AgentReport{Done: 2000, Rate: 100, Work: 10000, Resized: &api.Resized{GPUs: 3, Away: 0.7}})
	if e := d.last("x-1"); e.Ongoing || e.Away != 0.7 || e.Lost != 0 || e.From != 1 || e.To != 3 {
		t.Errorf("entry %+v; want 0.7 s away, nothing lost", e)
	}
	if away := d.mem.jobs["x-1"].awayForMove(); away != 0.7 {
		t.Errorf("policies are told that a change takes %g s; want 0.7", away)
	}
	d.wantDurable()
	// The same again is no news; another one without an order is a rank that died.
	d.report("x-1", 1, api.AgentReport{Done: 2100, Rate: 100, Work: 10000, Resized: &api.Resized{GPUs: 3, Away: 0.7}})
	if e := d.last("x-1"); e.Verb != "move" {
		t.Errorf("entry %+v; want none for what is known", e)
	}
	d.report("x-1", 1, api.AgentReport{Done: 2200, Rate: 100, Work: 10000, Resized: &api.Resized{GPUs: 3, Away: 2.5}})
	if e := d.last("x-1"); e.Verb != "recover" || e.Away != 2.5 {
		t.Errorf("entry %+v; want a recovery of 2.5 s", e)
	}
	for _, size := range []struct{ gpus, from int }{{2, 3}, {3, 2}} { // without it first, then with another
		d.clock.add(time.Second)
		d.report("x-1", 1, api.AgentReport{Done: 2300, Rate: 100, Work: 10000, Resized: &api.Resized{GPUs: size.gpus, Away: 0.5}})
		if e := d.last("x-1"); e.Verb != "recover" || e.From != size.from || e.To != size.gpus || e.Ongoing {
			t.Errorf("entry %+v; want a recovery from %d to %d", e, size.from, size.gpus)
		}
	}
	d.wantDurable()
}

// The ranks train while others start, so the time from one order to the next is not the
// time that they were away.
func TestChangeInPlaceRightAfterAnother(t *testing.T) {
	d := changeable(t)
	d.decide(wants{"x-1": on(0, 1, 2)})
	d.clock.add(30 * time.Second)
	d.decide(wants{"x-1": on(0)})
	if away := d.mem.jobs["x-1"].awayForMove(); away != 0 {
		t.Errorf("policies are told that a change takes %g s; want nothing until it is known", away)
	}
	for _, z := range []api.Resized{{GPUs: 3, Away: 0.7}, {GPUs: 1, Away: 0.5}} {
		d.clock.add(time.Second)
		d.report("x-1", 1, api.AgentReport{Done: 5000, Rate: 100, Work: 10000, Resized: &z})
	}
	ledger := d.mem.jobs["x-1"].Ledger
	grow, shrink := ledger[len(ledger)-2], ledger[len(ledger)-1]
	if grow.To != 3 || grow.Away != 0.7 || grow.Ongoing || shrink.To != 1 || shrink.Away != 0.5 || shrink.Ongoing {
		t.Errorf("entries %+v and %+v; want 0.7 s and 0.5 s away", grow, shrink)
	}
	d.wantDurable()
}

func TestChangeThatFailsInPlaceStartsAnew(t *testing.T) {
	d := changeable(t)
	d.decide(wants{"x-1": on(0, 1)})
	e := exitOf("x-1", 1)
	e.Code, e.Yielded, e.Noticed, e.Why = api.YieldCode, true, true, "could not change in place: a new process ended"
	d.exited(e)
	records := d.feed.records
	if text := records[len(records)-1].Text + records[len(records)-2].Text; !strings.Contains(text, "starts anew: ") || !strings.Contains(text, "a new process ended") {
		t.Errorf("the record says %q", text)
	}
	d.decide(wants{"x-1": on(0, 1)}) // at once
	d.wantRunning(map[string]string{"x-1.2": "0-1"})
	d.wantDurable()
}

// TestRolesChangeInPlace: the agent of the first role does not hear of processes of others
// that come and go, so the job is there with its next step; if it could not be done, the job
// starts anew at once.
func TestRolesChangeInPlace(t *testing.T) {
	d := changeable(t, api.JobRole{Name: "worker", GPUs: 1, MaxGPUs: 4})
	d.decide(wants{"x-1": on(0, 1, 2)})
	if e := d.last("x-1"); !e.Ongoing || !e.InPlace {
		t.Errorf("entry %+v; want one that is ongoing", e)
	}
	d.clock.add(2 * time.Second)
	d.report("x-1", 1, api.AgentReport{Done: 1200, Rate: 100, Work: 10000})
	if e := d.last("x-1"); e.Ongoing || e.Away != 2 || e.From != 1 || e.To != 3 {
		t.Errorf("entry %+v; want it to be back after 2 s", e)
	}
	e := exitOf("x-1", 1)
	e.Code, e.Yielded, e.Noticed = api.YieldCode, true, true
	d.exited(e)
	d.decide(wants{"x-1": on(0, 1)}) // at once
	d.wantRunning(map[string]string{"x-1.2": "0-1"})
	d.wantDurable()
}

func TestWhatIsNotChangedInPlace(t *testing.T) {
	for name, edit := range map[string]func(*desk) sched.Placement{
		"no GPU stays":     func(*desk) sched.Placement { return on(1, 2) },
		"not up":           func(d *desk) sched.Placement { clear(d.up); return on(0, 1) },
		"only resizes":     func(d *desk) sched.Placement { d.mem.jobs["x-1"].Shown = sched.Resizes; return on(0, 1) },
		"a single process": func(d *desk) sched.Placement { d.mem.jobs["x-1"].Task.Single = true; return on(0, 1) },
	} {
		d := changeable(t)
		d.decide(wants{"x-1": edit(d)})
		if j := d.job("x-1"); j.Status.Starts != 2 {
			t.Errorf("%s: %d starts; want 2", name, j.Status.Starts)
		}
	}
}
