// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"strings"
	"testing"
	"time"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/goodput"
)

// asNamed makes a decision with the policy in force.
func (d *desk) asNamed() {
	d.t.Helper()
	p, _ := d.InForce()
	d.decide(p)
}

func (d *desk) explain(who api.Identity, id sched.JobID) api.Explanation {
	d.t.Helper()
	e, err := d.Explain(who, id)
	if err != nil {
		d.t.Fatal(err)
	}
	return e
}

func under(spec string) func(*Config) { return func(c *Config) { c.Standard = spec } }

// TestExplainAhead: explain names the jobs that go first, with the policy's reason.
func TestExplainAhead(t *testing.T) {
	d := open(t, under("fifo"))
	d.submit(admin, submission("holder", 4))
	d.asNamed()
	first := submission("first", 4)
	d.submit(admin, first)
	urgent := submission("urgent", 4)
	urgent.Priority = 5
	me := d.submit(admin, submission("me", 4))
	d.submit(admin, urgent)
	d.submit(admin, submission("later", 4))
	d.asNamed()
	e := d.explain(admin, me)
	want := []api.Rival{
		{Job: "holder-1", Tenant: DefaultTenant, GPUs: 4, Why: "runs; fifo never preempts"},
		{Job: "urgent-4", Tenant: DefaultTenant, Why: "priority 5, above 0"},
		{Job: "first-2", Tenant: DefaultTenant, Why: "submitted earlier"},
	}
	if e.Ahead != 2 || len(e.Before) != len(want) {
		t.Fatalf("%d ahead, namely %+v; want 2 that wait and %+v", e.Ahead, e.Before, want)
	}
	for i, w := range want {
		if e.Before[i] != w {
			t.Errorf("rival %d is %+v; want %+v", i, e.Before[i], w)
		}
	}
	hers := submission("hers", 4)
	for _, r := range d.explain(ann, d.submit(ann, hers)).Before {
		if r.Job != "(other tenant)" || r.Tenant != "" {
			t.Errorf("ann is shown %+v; want no names of another tenant", r)
		}
	}
}

// TestExplainAheadWithoutOrder: a policy that compares no two jobs names the jobs that
// were there before, and says so.
func TestExplainAheadWithoutOrder(t *testing.T) {
	d := open(t, under("fairway"))
	holder := d.submit(admin, submission("holder", 4))
	d.decide(wants{holder: on(0, 1, 2, 3)})
	first := d.submit(admin, submission("first", 4))
	me := d.submit(admin, submission("me", 4))
	d.submit(admin, submission("later", 4))
	d.decide(wants{holder: on(0, 1, 2, 3)})
	e := d.explain(admin, me)
	if len(e.Before) != 2 || e.Before[0].Job != holder || e.Before[1].Job != first || e.Ahead != 1 {
		t.Fatalf("%d ahead, namely %+v; want %s and %s", e.Ahead, e.Before, holder, first)
	}
	for _, r := range e.Before {
		if !strings.Contains(r.Why, "fairway weighs all jobs at once") {
			t.Errorf("%s is ahead because it %q", r.Job, r.Why)
		}
	}
}

func TestExplainAheadByService(t *testing.T) {
	d := open(t, under("las"))
	old := d.submit(admin, submission("old", 4))
	d.decide(wants{old: on(0, 1, 2, 3)})
	d.clock.add(time.Hour)
	fresh := d.submit(admin, submission("fresh", 4))
	d.decide(wants{fresh: on(0, 1, 2, 3)})
	d.clock.add(10 * time.Second)
	d.asNamed()
	e := d.explain(admin, old)
	if len(e.Before) != 1 || e.Before[0].Job != fresh || !strings.Contains(e.Before[0].Why, "has had 40s of GPU time, less than 4h00m") {
		t.Errorf("ahead of it: %+v; want %s with the GPU time it has had", e.Before, fresh)
	}
}

// TestExplainNotLarger: a job that holds less than it could use is told why.
func TestExplainNotLarger(t *testing.T) {
	elastic := submission("x", 1)
	elastic.MinGPUs, elastic.MaxGPUs = 1, 4
	fast := &goodput.Report{Params: map[string]goodput.Params{"h200": {AlphaGrad: 0.001, BetaGrad: 0.01, Gamma: 1}}, Limits: goodput.Limits{Initial: 64, Max: 64, LocalMin: 1, LocalMax: 64}}
	slow := &goodput.Report{Params: map[string]goodput.Params{"h200": {AlphaGrad: 1, BetaGrad: 0.0001, AlphaLocal: 10, AlphaNode: 10, Gamma: 1}}, Limits: fast.Limits}
	for _, c := range []struct {
		name, policy string
		edit         func(*api.Submission, *sched.Job)
		want         string
	}{
		{"a rigid policy", "fifo", nil, "fifo runs every job at the size it asks for, 1"},
		{"no report yet", "pollux", nil, "its agent has not reported yet"},
		{"protected", "pollux", func(_ *api.Submission, j *sched.Job) { j.Protected = true }, "protected: no agent has reported"},
		{"suspended", "pollux", func(_ *api.Submission, j *sched.Job) { j.Protected, j.Suspends = true, true }, "protected: no agent has reported"},
		{"not preemptible", "pollux", func(s *api.Submission, _ *sched.Job) { s.Preemptible = new(false) }, "may not be preempted"},
		{"not faster", "pollux", func(_ *api.Submission, j *sched.Job) { j.Perf = slow }, "not worth a restart"},
		{"faster", "pollux", func(_ *api.Submission, j *sched.Job) { j.Perf = fast }, "the policy"},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := open(t, under(c.policy))
			s, edit := elastic, c.edit
			if edit == nil {
				edit = func(*api.Submission, *sched.Job) {}
			}
			edit(&s, &sched.Job{})
			id := d.submit(admin, s)
			d.decide(wants{id: on(0)})
			j := d.mem.jobs[id].Job
			j.Protected = false
			edit(&s, j)
			if e := d.explain(admin, id); !strings.Contains(e.Larger, c.want) {
				t.Errorf("it has 1 of 4 GPUs because %q; want %q", e.Larger, c.want)
			}
		})
	}
	d := open(t, under("pollux"))
	if _, err := d.SetTenant(t.Context(), admin, sched.Tenant{ID: ann.Tenant, Max: 1}); err != nil {
		t.Fatal(err)
	}
	id := d.submit(ann, elastic)
	d.decide(wants{id: on(0)})
	d.mem.jobs[id].Job.Perf = fast
	if e := d.explain(ann, id); !strings.HasSuffix(e.Larger, "; tenant blue may hold no more GPUs now") {
		t.Errorf("its tenant may hold 1 GPU, and it has 1 of 4 because %q", e.Larger)
	}
}
