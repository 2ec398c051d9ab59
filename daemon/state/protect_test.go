// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"testing"
	"time"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/policy"
	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/goodput"
)

// TestProtected: a job of which nothing is known is protected, whatever the request
// says of it, unless its user or its tenant opted out.
func TestProtected(t *testing.T) {
	d := open(t)
	if _, err := d.SetTenant(t.Context(), admin, sched.Tenant{ID: "red", Terms: sched.Terms{Preemptible: true, NonPreemptible: true}}); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		who       api.Identity
		edit      func(*api.Submission)
		protected bool
		never     bool
	}{
		"plain":                       {ann, func(*api.Submission) {}, true, false},
		"says that it is not":         {ann, func(s *api.Submission) { s.Preemptible, s.Protected = new(true), true }, false, false},
		"opts in":                     {ann, func(s *api.Submission) { s.Preemptible = new(true) }, false, false},
		"never":                       {admin, func(s *api.Submission) { s.Preemptible = new(false) }, true, true},
		"never, old name":             {admin, func(s *api.Submission) { s.NonPreemptible = true }, true, true},
		"the tenant's default":        {bob, func(*api.Submission) {}, false, false},
		"the tenant's default, never": {bob, func(s *api.Submission) { s.Preemptible = new(false) }, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := plain("x", 1)
			c.edit(&s)
			j := d.job(d.submit(c.who, s))
			if j.Protected != c.protected || j.NonPreemptible != c.never {
				t.Errorf("protected %v, non_preemptible %v; want %v, %v", j.Protected, j.NonPreemptible, c.protected, c.never)
			}
		})
	}
	both := plain("x", 1)
	both.Preemptible, both.NonPreemptible = new(true), true
	_, err := d.Submit(t.Context(), admin, []api.Submission{both})
	wantCode(t, "preemptible and non_preemptible", err, api.Invalid)
}

// TestAbilityReported: what an agent says, or an old one shows, lifts the protection.
func TestAbilityReported(t *testing.T) {
	training := &api.Training{Limits: goodput.Limits{Initial: 32, Max: 32, LocalMin: 1, LocalMax: 32}, Fixed: 32}
	for name, c := range map[string]struct {
		report  api.AgentReport
		elastic bool
		want    sched.Ability
	}{
		"progress only":                           {api.AgentReport{Done: 1}, true, sched.Unproven},
		"saves":                                   {api.AgentReport{Can: new(sched.Saves)}, true, sched.Saves},
		"resizes":                                 {api.AgentReport{Can: new(sched.Resizes)}, true, sched.Resizes},
		"trains, but nowhere to save":             {api.AgentReport{Can: new(sched.Unproven), Training: training}, true, sched.Unproven},
		"old agent with a checkpoint":             {api.AgentReport{Checkpoint: true}, true, sched.Saves},
		"old agent of a rigid job that trains":    {api.AgentReport{Training: training}, false, sched.Saves},
		"old agent of an elastic job that trains": {api.AgentReport{Training: training}, true, sched.Resizes},
	} {
		t.Run(name, func(t *testing.T) {
			d := open(t)
			s := plain("x", 1)
			if c.elastic {
				s.MinGPUs, s.MaxGPUs = 1, 4
			}
			id := d.submit(ann, s)
			d.decide(wants{id: on(0)})
			d.report(id, 1, c.report)
			j := d.mem.jobs[id].Job
			if j.Can != c.want || j.Pinned() != (c.want == sched.Unproven) || j.Elastic() != (c.want == sched.Resizes) {
				t.Errorf("can %s, pinned %v, elastic %v; want can %s", j.Can, j.Pinned(), j.Elastic(), c.want)
			}
			d.wantDurable()
		})
	}
}

// TestKindProved: a job of a kind of which one has resumed from a checkpoint starts
// with what that one has shown, until one of the kind runs without an agent.
func TestKindProved(t *testing.T) {
	d := open(t)
	next := func() sched.JobID { return d.submit(ann, plain("x", 1)) }
	end := func(id sched.JobID) {
		d.exited(exitOf(id, d.job(id).Status.Starts))
		d.wantState(id, api.Finished)
	}
	begin := func(id sched.JobID) {
		d.decide(wants{id: on(0)})
		d.clock.add(2 * time.Minute)
	}

	first := next()
	begin(first)
	d.report(first, 1, api.AgentReport{Can: new(sched.Saves), Done: 5, Checkpoint: true})
	end(first)
	second := next()
	if can := d.job(second).Status.Can; can != sched.Unproven {
		t.Errorf("after a job that was never interrupted: can %s; want nothing known", can)
	}
	begin(second)
	d.report(second, 1, api.AgentReport{Can: new(sched.Saves), Done: 5, Checkpoint: true})
	d.decide(wants{})
	d.exited(api.Exit{AttemptID: api.AttemptID{Job: second, Number: 1}, Yielded: true, Code: api.YieldCode})
	begin(second)
	d.report(second, 2, api.AgentReport{Can: new(sched.Saves), Done: 5, Restored: new(5.0)})
	end(second)
	third := next()
	if can := d.job(third).Status.Can; can != sched.Saves {
		t.Errorf("after a job that resumed: can %s; want saves", can)
	}
	other := plain("x", 1)
	other.Command = []string{"python3", "other.py"}
	if can := d.job(d.submit(ann, other)).Status.Can; can != sched.Unproven {
		t.Errorf("another script: can %s; want nothing known", can)
	}
	d.wantDurable()
	d = reopen(t, d.tape.copyTape(), d.clock)
	begin(third)
	end(third) // without a word: the agent was taken out
	if can := d.job(next()).Status.Can; can != sched.Unproven {
		t.Errorf("after a job without an agent: can %s; want nothing known", can)
	}
}

// TestAdminsKeepProtected: no node that is cordoned, no quota that is lowered and no
// policy stops a job that has not shown that it can save its work.
func TestAdminsKeepProtected(t *testing.T) {
	for _, name := range policy.Builtin().Names() {
		d := open(t)
		if _, err := d.buildPolicy(name); err != nil {
			continue // not for real jobs
		}
		id := d.submit(ann, plain("x", 2))
		d.decide(wants{id: on(0, 1)})
		_, err := d.SetNode(t.Context(), admin, "box", sched.Cordoned)
		if err == nil {
			_, err = d.SetTenant(t.Context(), admin, sched.Tenant{ID: "blue", Quota: 1})
		}
		if err == nil {
			_, err = d.SetPolicy(t.Context(), admin, name, false)
		}
		if err != nil {
			t.Fatal(err)
		}
		s := plain("later", 1)
		s.Tenant, s.Priority = "red", 9
		d.submit(admin, s)
		d.clock.add(24 * time.Hour)
		p, _ := d.InForce()
		d.decide(p)
		d.wantRunning(map[string]string{string(id) + ".1": on(0, 1)[0].GPUs.String()})
	}
}

// TestScript: which part of a command tells its kind.
func TestScript(t *testing.T) {
	for _, c := range []struct {
		command []string
		want    string
	}{
		{[]string{"python3", "train.py", "--lr", "0.1"}, "train.py"},
		{[]string{"torchrun", "--nproc_per_node", "2", "train.py", "b.py"}, "train.py"},
		{[]string{"python3", "-m", "pkg.train"}, "pkg.train"},
		{[]string{"./run.sh"}, "./run.sh"},
	} {
		if got := scriptOf(c.command); got != c.want {
			t.Errorf("script of %q is %q; want %q", c.command, got, c.want)
		}
	}
}
