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

// TestTerms: what users may ask for is the admins' to decide, by tenant.
func TestTerms(t *testing.T) {
	d := open(t)
	terms := sched.Terms{MaxPriority: 5, NonPreemptible: true, MaxTimeLimit: sched.Duration(time.Hour)}
	if _, err := d.SetTenant(t.Context(), admin, sched.Tenant{ID: "red", Terms: terms}); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		who  api.Identity
		edit func(*api.Submission)
		want string // empty: it is taken
	}{
		"priority":                      {ann, func(s *api.Submission) { s.Priority = 1 }, "priority: is 1; jobs of tenant blue may have at most 0; use 0, or ask an admin"},
		"low priority":                  {ann, func(s *api.Submission) { s.Priority = -1 }, ""},
		"priority of an admin":          {admin, func(s *api.Submission) { s.Priority = 1 }, ""},
		"allowed priority":              {bob, func(s *api.Submission) { s.Priority = 5 }, ""},
		"priority above the bound":      {bob, func(s *api.Submission) { s.Priority = 6 }, "at most 5"},
		"never stopped":                 {ann, func(s *api.Submission) { s.NonPreemptible = true }, "non_preemptible: is true; jobs of tenant blue have to make room"},
		"never stopped, new name":       {ann, func(s *api.Submission) { s.Preemptible = new(false) }, "preemptible: is false; jobs of tenant blue have to make room"},
		"never stopped, allowed":        {bob, func(s *api.Submission) { s.NonPreemptible = true }, ""},
		"any limit where none is set":   {ann, func(s *api.Submission) { s.TimeLimit = sched.Duration(100 * time.Hour) }, ""},
		"longer than the tenant's":      {bob, func(s *api.Submission) { s.TimeLimit = sched.Duration(2 * time.Hour) }, "time_limit: is 2h; jobs of tenant red may run for at most 1h"},
		"nothing: the tenant's longest": {bob, func(s *api.Submission) {}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := plain("x", 1)
			c.edit(&s)
			_, err := d.Submit(t.Context(), c.who, []api.Submission{s})
			if c.want == "" && err != nil || c.want != "" && (api.CodeOf(err) != api.Denied || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("submit: %v; want %q", err, c.want)
			}
		})
	}
	if j := d.job(d.submit(bob, plain("x", 1))); j.TimeLimit != terms.MaxTimeLimit {
		t.Errorf("time limit %s; want the tenant's longest", j.TimeLimit)
	}
	terms = sched.Terms{TimeLimit: sched.Duration(time.Minute), MaxTimeLimit: sched.Duration(time.Hour)}
	if _, err := d.SetTenant(t.Context(), admin, sched.Tenant{ID: "red", Terms: terms}); err != nil {
		t.Fatal(err)
	}
	if j := d.job(d.submit(bob, plain("x", 1))); j.TimeLimit != terms.TimeLimit {
		t.Errorf("time limit %s; want the tenant's default, not its longest", j.TimeLimit)
	}
}

// TestNeverRuns: a job that can never run is refused with what could, unless it is
// willing to wait.
func TestNeverRuns(t *testing.T) {
	d := open(t, func(c *Config) { c.Node.CPUs, c.Node.Memory, c.Node.GPUMemory = 64, 128<<30, 80<<30 })
	for _, tenant := range []sched.Tenant{{ID: "red", Quota: 1, Borrow: true}, {ID: "blue", Max: 3}} {
		if _, err := d.SetTenant(t.Context(), admin, tenant); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		who  api.Identity
		edit func(*api.Submission)
		want string // empty: it is taken
	}{
		"too many GPUs":       {admin, func(s *api.Submission) { s.GPUs = 8 }, "gpus: the job can never run here: it needs 8 GPUs, and there are 4 that it could use; ask for 4 GPUs, or wait"},
		"an unknown level":    {admin, func(s *api.Submission) { s.Topology = []sched.Rule{{Required: "machine"}, {Preferred: "zone"}} }, `topology[1].preferred: is "zone", which is no level of this cluster's topology; use one of slot, machine, rack, cross-rack`},
		"a known level":       {admin, func(s *api.Submission) { s.Topology = []sched.Rule{{Segment: 2, Required: "machine"}} }, ""},
		"elastic and plain":   {admin, func(s *api.Submission) { s.GPUs, s.MinGPUs, s.MaxGPUs = 1, 1, 64 }, ""},
		"a type":              {admin, func(s *api.Submission) { s.GPUTypes = []sched.GPUType{"a100"} }, "accepts GPUs of type a100, and the nodes have h200"},
		"memory of a GPU":     {admin, func(s *api.Submission) { s.GPUMemory = 1<<63 - 1 }, "and the largest have 80.0 GiB"},
		"memory for each GPU": {admin, func(s *api.Submission) { s.GPUs, s.Memory = 2, 100<<30 }, "there are 1 that it could use; ask for 1 GPU, or wait"},
		"more than the tenant may hold": {ann, func(s *api.Submission) { s.GPUs, s.Preemptible = 4, new(true) },
			"it needs 4 GPUs, and tenant blue may hold 3; ask for 3, or wait"},
		"more than its guarantee": {bob, func(s *api.Submission) { s.GPUs = 2 },
			"tenant red may use, for jobs that cannot be preempted, 1; ask for 1, or set preemptible: true if the job can be stopped, or wait"},
		"borrowed":        {bob, func(s *api.Submission) { s.GPUs, s.Preemptible = 2, new(true) }, ""},
		"willing to wait": {admin, func(s *api.Submission) { s.GPUs, s.WaitForCapacity = 8, true }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := plain("x", 1)
			c.edit(&s)
			_, err := d.Submit(t.Context(), c.who, []api.Submission{s})
			if c.want == "" && err != nil || c.want != "" && (api.CodeOf(err) != api.Invalid || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("submit: %v; want %q", err, c.want)
			}
		})
	}
	cluster := open(t, func(c *Config) { c.Node, c.FixedNodes = sched.Node{}, false })
	cluster.submit(admin, plain("x", 8)) // nodes come and go
	if _, err := d.SetTenant(t.Context(), admin, sched.Tenant{ID: "red", Quota: 4, Borrow: true}); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Submit(t.Context(), ann, []api.Submission{plain("x", 1)}); err == nil || !strings.Contains(err.Error(), "preempted, 0; set preemptible: true") {
		t.Errorf("a plain script of a tenant without a guarantee: %v; want what could run instead", err)
	}
	suspends := open(t, suspending) // where it makes room all the same
	if _, err := suspends.SetTenant(t.Context(), admin, sched.Tenant{ID: "red", Quota: 4, Borrow: true}); err != nil {
		t.Fatal(err)
	}
	suspends.submit(ann, plain("x", 1))
}

// TestTimeLimit: a job that has run for its time limit, over all its attempts and
// whatever happens to the daemon, is stopped and fails.
func TestTimeLimit(t *testing.T) {
	d := open(t)
	s := submission("x", 1)
	s.TimeLimit, s.Retries, s.Retry = sched.Duration(time.Hour), 3, api.RetryAlways
	id := d.submit(ann, s)
	expire := func(want string) {
		t.Helper()
		if err := d.Expire(t.Context()); err != nil {
			t.Fatal(err)
		}
		d.wantState(id, want)
	}
	d.decide(wants{id: on(0)})
	d.Started(api.AttemptID{Job: id, Number: 1})
	d.clock.add(50 * time.Minute)
	expire(api.Running)
	d.decide(wants{})
	d.exited(api.Exit{AttemptID: api.AttemptID{Job: id, Number: 1}, Code: api.YieldCode, Yielded: true})
	d.clock.add(time.Hour) // waiting does not count
	expire(api.Waiting)
	d = reopen(t, d.tape.copyTape(), d.clock)
	d.decide(wants{id: on(0)})
	d.Started(api.AttemptID{Job: id, Number: 2})
	d.clock.add(9 * time.Minute)
	expire(api.Running)
	d.clock.add(time.Minute)
	expire(api.Failed)
	d.wantRunning(map[string]string{})
	if stop := d.Withdrawn(); len(stop) != 1 {
		t.Errorf("withdrawn %v; want attempt 2, to be asked to save its work", stop)
	}
	d.exited(api.Exit{AttemptID: api.AttemptID{Job: id, Number: 2}, Code: api.YieldCode, Yielded: true, Noticed: true})
	d.wantState(id, api.Failed)
	const why = "it ran for its time limit of 1h; not retried"
	if j := d.job(id); j.Why != why {
		t.Errorf("why %q; want %q", j.Why, why)
	}
	if e, err := d.Explain(ann, id); err != nil || e.Summary != "It failed: "+why+"." {
		t.Errorf("summary %q, %v", e.Summary, err)
	}
	d.wantDurable()
}
