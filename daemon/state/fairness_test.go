// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/goodput"
)

func (d *desk) wantRho(what string, id sched.JobID, want float64) {
	d.t.Helper()
	if got := d.job(id).Rho; !(math.Abs(got-want) <= 1e-9) {
		d.t.Errorf("%s: rho of %s is %g; want %g", what, id, got, want)
	}
}

// working is a submission of a job that says how much work it has.
func working(name string, app sched.AppID, gpus int, work float64) api.Submission {
	s := submission(name, gpus)
	s.App, s.Work = app, work
	return s
}

// TestRho: the box has four GPUs. A job of 100 s on all of them waits for 100 s, the
// last 40 of which it shares with another.
func TestRho(t *testing.T) {
	d := open(t)
	d.submit(ann, working("x", "", 4, 100))
	d.clock.add(60 * time.Second)
	d.wantRho("nobody knows how long it takes", "x-1", 0)
	d.submit(bob, submission("y", 1))
	d.clock.add(40 * time.Second)
	d.decide(wants{"x-1": on(0, 1, 2, 3)})
	d.report("x-1", 1, api.AgentReport{Rate: 1})
	// 60 s alone, 40 s and 100 s to come as one of two: N = 1.7, and a share of 1/1.7
	// of what it asked for.
	d.wantRho("it starts after 100 s", "x-1", 200/170.)
	d.clock.add(50 * time.Second)
	d.wantRho("half of its time later", "x-1", 200/170.)
	d.decide(wants{})
	d.clock.add(100 * time.Second)
	// 60 s alone, 190 s and 50 s to come as one of two: N = 1.8.
	d.wantRho("stopped for 100 s", "x-1", 300/180.)
	d.wantRho("nobody knows how long the other takes", "y-2", 0)

	tenants, err := d.Tenants(admin)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range tenants {
		if want := map[sched.TenantID]float64{"blue": 300 / 180.}[v.ID]; math.Abs(v.Rho-want) > 1e-9 {
			t.Errorf("tenant %s has rho %g; want %g", v.ID, v.Rho, want)
		}
	}
	d.takeSample()
	past, err := d.History(admin)
	if err != nil {
		t.Fatal(err)
	}
	if s := past[len(past)-1]; math.Abs(s.Apps[0].Rho-300/180.) > 1e-9 || s.Apps[0].ID != "x-1" {
		t.Errorf("the last sample has %+v; want x-1 with rho %g", s.Apps, 300/180.)
	}
	d.decide(wants{"x-1": on(0, 1, 2, 3)})
	d.up[api.AttemptID{Job: "x-1", Number: 2}] = true
	if e, err := d.Explain(admin, "x-1"); err != nil || !strings.Contains(e.Summary, "1.67 times") {
		t.Errorf("explained as %q, %v; want 1.67 times", e.Summary, err)
	}
	d.wantDurable()
}

// TestRhoOfEstimates: without reports an estimate says how long a job takes, at the
// size it asked for.
func TestRhoOfEstimates(t *testing.T) {
	d := open(t)
	s := submission("x", 2)
	s.Estimate = sched.Duration(100 * time.Second)
	d.submit(ann, s)
	d.wantRho("new", "x-1", 1)
	d.clock.add(50 * time.Second)
	d.wantRho("after a wait of half its length", "x-1", 1.5)
}

// TestRhoOfAnApp: all jobs of an app have its rho, and those that have ended count as
// work that it did.
func TestRhoOfAnApp(t *testing.T) {
	d := open(t)
	d.submit(ann, working("a", "app", 2, 100))
	d.submit(ann, working("b", "app", 2, 300))
	d.submit(ann, working("c", "app", 2, 10))
	d.submit(bob, working("d", "", 2, 10))
	d.decide(wants{"a-1": on(0, 1), "b-2": on(2, 3)})
	d.report("a-1", 1, api.AgentReport{Rate: 1})
	d.report("b-2", 1, api.AgentReport{Rate: 1})
	d.wantRho("one job is of unknown length", "a-1", 0)
	d.command("c-3", api.Cancel)
	// On its share of two GPUs it would take 400 s, one job after the other.
	d.wantRho("both run", "a-1", 300/400.)
	d.wantRho("both run", "b-2", 300/400.)
	d.clock.add(100 * time.Second)
	d.exited(exitOf("a-1", 1))
	d.wantRho("one has ended", "b-2", 300/400.)
	d.decide(wants{})
	d.clock.add(100 * time.Second)
	d.wantRho("the other has waited", "b-2", 400/400.)
	if j := d.job("a-1"); j.Rho != 0 {
		t.Errorf("a job that has ended has rho %g; want none", j.Rho)
	}
	apps, err := d.Apps(ann)
	if err != nil || len(apps) != 1 || math.Abs(apps[0].Rho-1) > 1e-9 {
		t.Errorf("apps %+v, %v; want one with rho 1", apps, err)
	}
	d.wantDurable()

	// When all its jobs have ended, the app has too: the next one begins anew.
	d.command("b-2", api.Cancel)
	d.command("d-4", api.Cancel)
	d.submit(ann, working("e", "app", 2, 50))
	d.decide(wants{"e-5": on(0, 1)})
	d.report("e-5", 1, api.AgentReport{Rate: 1})
	d.wantRho("a new life", "e-5", 1)
}

// TestRhoOfAQueue: jobs of an app that wait for each other do not end at once.
func TestRhoOfAQueue(t *testing.T) {
	d := open(t)
	for range 3 {
		s := working("a", "app", 4, 100)
		s.Estimate = sched.Duration(100 * time.Second)
		d.submit(ann, s)
	}
	d.wantRho("three in a row, alone", "a-1", 1)
}

// TestRhoByCurve: a job that reports how it scales is held against its own curve.
func TestRhoByCurve(t *testing.T) {
	d := open(t)
	d.submit(ann, working("x", "", 4, 100))
	d.submit(bob, submission("y", 1))
	d.decide(wants{"x-1": on(0, 1, 2, 3)})
	d.report("x-1", 1, api.AgentReport{Rate: 1})
	d.wantRho("in proportion", "x-1", 0.5)
	// Four GPUs take as long for a step as two.
	tr := training(
		goodput.Sample{Nodes: 1, GPUs: 1, Local: 16, Step: 0.3, Count: 10},
		goodput.Sample{Nodes: 1, GPUs: 2, Local: 8, Step: 0.2, Sync: 0.05, Count: 10},
		goodput.Sample{Nodes: 1, GPUs: 4, Local: 4, Step: 0.2, Sync: 0.12, Count: 10},
	)
	tr.Fixed = 16
	d.report("x-1", 1, api.AgentReport{Rate: 1, Training: tr})
	if rho := d.job("x-1").Rho; !(rho > 0.8 && rho < 1.2) {
		t.Errorf("by its curve, rho is %g; want about 1: half the GPUs are as fast", rho)
	}
	d.wantDurable()
}

// TestRhoOfASearch: a search never has more trials at once than it says.
func TestRhoOfASearch(t *testing.T) {
	d := open(t)
	first, second := d.startTrials() // two at once, on one GPU each
	for _, id := range []sched.JobID{first, second} {
		d.report(id, 1, api.AgentReport{Rate: 1, Work: 100})
	}
	d.noteSearch(api.SearchRecord{ID: "blue/sweep", Propose: []api.Proposal{
		{Number: 2, Params: map[string]string{"x": "1"}}, {Number: 3, Params: map[string]string{"x": "2"}},
	}})
	next := wants{}
	search := d.search()
	for i, trial := range search.Trials[2:] {
		next[d.submit(ann, search.Spec.Submission(api.Proposal{Number: trial.Number, Params: trial.Params}))] = on(i)
	}
	d.clock.add(100 * time.Second)
	d.exited(exitOf(first, 1))
	d.exited(exitOf(second, 1))
	d.decide(next)
	for id := range next {
		d.report(id, 1, api.AgentReport{Rate: 1, Work: 100})
	}
	// Alone on all four GPUs it would still be two after two.
	for id := range next {
		d.wantRho("the last two trials", id, 1)
	}
}
