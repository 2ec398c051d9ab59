// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/goodput"
	"github.com/fairway-gpu/fairway/sched/plan"
)

// planning is a job that may run under some plans.
func planning(t *testing.T, names ...string) api.Submission {
	t.Helper()
	s := submission("gpt", 0)
	s.Plans = &plan.Options{Model: plan.Model{Parameters: 1e9, Layers: 8, Hidden: 1024, Heads: 8, Sequence: 512, Batch: 32}}
	for _, name := range names {
		p, err := plan.Parse(name)
		if err != nil {
			t.Fatal(err)
		}
		s.Plans.List = append(s.Plans.List, p)
	}
	return s
}

// planOf returns the plan that the attempt of a job is told, in its environment.
func (d *desk) planOf(id sched.JobID) string {
	d.t.Helper()
	for _, a := range d.Attempts() {
		if a.Job == id {
			name := a.Variables()[api.PlanVariable]
			if p := d.job(id).Plan; p == nil && name != "" || p != nil && p.String() != name {
				d.t.Errorf("the attempt has the plan %q, the job %v", name, p)
			}
			return name
		}
	}
	return ""
}

// steps lets a planned job train and report how long its steps take, in seconds, and what
// they are spent on, if that was measured.
func (d *desk) steps(id sched.JobID, done, seconds float64, spent ...plan.Parts) {
	d.t.Helper()
	var parts *plan.Parts
	if len(spent) > 0 {
		parts = &spent[0]
	}
	j := d.job(id)
	gpus := j.Status.Placement.GPUs()
	d.report(id, j.Status.Starts, api.AgentReport{
		Done: done, Work: 32 * 10_000, Rate: 32 / seconds, Can: new(sched.Resizes),
		Training: &api.Training{
			Limits: goodput.Limits{Initial: 32, Max: 32, LocalMin: 1, LocalMax: 32}, Fixed: 32, Parts: parts,
			Samples: []goodput.Sample{{Nodes: 1, GPUs: gpus, Local: 8, Step: seconds, Count: 10}},
		},
	})
}

// left lets the attempts leave that should not run any more.
func (d *desk) left(id sched.JobID) {
	d.t.Helper()
	for _, n := range slices.Clone(d.mem.jobs[id].Open) {
		if n != d.mem.jobs[id].Job.Starts {
			e := exitOf(id, n)
			e.Yielded, e.Code = true, api.YieldCode
			d.exited(e)
		}
	}
}

// TestPlanTravels: a job runs under the fastest plan for its GPUs; the plan is with its
// attempt, its record and its explanation, and another size has another plan.
func TestPlanTravels(t *testing.T) {
	d := open(t)
	id := d.submit(ann, planning(t, "fsdp4", "fsdp2", "tp2"))
	j := d.job(id)
	if j.GPUs != 2 || j.MinGPUs != 2 || j.MaxGPUs != 4 || !slices.Equal(j.Sizes, []int{2, 4}) {
		t.Errorf("%d GPUs, %d to %d, %v; want the sizes of its plans", j.GPUs, j.MinGPUs, j.MaxGPUs, j.Sizes)
	}
	c := j.Status.Perf.Plans["h200"]
	if c == nil || len(c.Plans) != 3 || c.Node != 4 || j.Status.Perf.UsableGPUs != 4 {
		t.Fatalf("policies know %+v; want its three plans", j.Status.Perf)
	}
	d.decide(wants{id: on(0, 1)})
	want, _, _ := c.Best(plan.On(2))
	if got := d.planOf(id); got != want.String() {
		t.Errorf("it starts under %q; want %s", got, want)
	}
	records := d.feed.records
	if last := records[len(records)-1]; last.Plan == nil || *last.Plan != want || !strings.HasSuffix(last.Text, ", plan "+want.String()) {
		t.Errorf("the record says %q and the plan %v; want %s", last.Text, last.Plan, want)
	}
	d.wantDurable()

	d.clock.add(time.Minute)
	d.steps(id, 320, 2, plan.Parts{Exchange: 0.6, Wait: 0.2, Bubble: 0.1})
	d.steps(id, 640, 2) // without parts: those before still hold
	text := d.explain(ann, id).Plans
	spent := ", 30 % of it with exchanges under way, 10 % of it waiting for them, 5 % of it waiting for other stages; "
	for _, part := range []string{want.String() + ", 2 s a step (measured)" + spent, "fsdp4 would be ", " (predicted) but needs 4 GPUs"} {
		if !strings.Contains(text, part) {
			t.Errorf("explained as %q; want %q in it", text, part)
		}
	}
	d.wantDurable()

	d.decide(wants{id: on(0, 1, 2, 3)})
	if got := d.planOf(id); got != "fsdp4" || d.job(id).Status.Starts != 2 {
		t.Errorf("on 4 GPUs it runs under %q after %d starts; want fsdp4 after 2", got, d.job(id).Status.Starts)
	}
	d.wantDurable()
}

// TestPlanElsewhere: the explanation says what a plan would bring that the GPUs of the job do
// not allow, which it needs, and when they are expected to be free.
func TestPlanElsewhere(t *testing.T) {
	d := open(t)
	d.addNodes("b")
	id := d.submit(ann, planning(t, "fsdp4", "tp4"))
	estimated := func(name string, gpus int, estimate time.Duration) sched.JobID {
		s := submission(name, gpus)
		s.Estimate = sched.Duration(estimate)
		return d.submit(ann, s)
	}
	short, long := estimated("short", 2, 130*time.Minute), estimated("long", 2, 5*time.Hour)
	spread := sched.Placement{onNode(0, 0b11), onNode(1, 0b11)}
	d.decide(wants{id: spread, short: {onNode(1, 0b1100)}, long: {onNode(0, 0b1100)}})
	d.clock.add(time.Minute)
	d.report(id, 1, api.AgentReport{Done: 320, Work: 32 * 10_000, Rate: 1, Can: new(sched.Resizes), Training: &api.Training{
		Limits: goodput.Limits{Initial: 32, Max: 32, LocalMin: 1, LocalMax: 32}, Fixed: 32,
		Samples: []goodput.Sample{{Nodes: 2, GPUs: 4, Local: 8, Step: 1, Count: 10}},
	}})
	for _, c := range []struct {
		then func()
		want string
	}{
		{func() {}, " but needs 4 GPUs on one node; node b frees at 14:10"},
		{func() { d.command(short, api.Cancel) }, " but needs 4 GPUs on one node, which are free"},
	} {
		c.then()
		text := d.explain(ann, id).Plans
		if !strings.HasPrefix(text, "fsdp4, 1 s a step (measured); tp4 would be ") || !strings.HasSuffix(text, c.want) {
			t.Errorf("explained as %q; want tp4 compared, and %q", text, c.want)
		}
	}
}

// TestReplan: once measured steps are far slower than what another plan promises on the
// same GPUs, the job changes to that one; not before it has trained for a while, and only
// if that saves more than it costs. The next start is under the plan that was faster.
func TestReplan(t *testing.T) {
	d := open(t)
	id := d.submit(ann, planning(t, "fsdp4", "fsdp2-tp2", "tp2"))
	d.decide(wants{id: on(0, 1)})
	d.clock.add(time.Minute)
	d.steps(id, 320, 0.5)
	d.decide(wants{id: on(0, 1, 2, 3)})
	d.left(id)
	first := d.planOf(id)
	other := map[string]string{"fsdp4": "fsdp2-tp2", "fsdp2-tp2": "fsdp4"}[first]
	if other == "" {
		t.Fatalf("on 4 GPUs it starts under %q", first)
	}
	for _, after := range []time.Duration{10 * time.Second, 50 * time.Second} { // it was away for 10 s
		d.clock.add(after)
		d.steps(id, 640, 5)
	}
	if got := d.planOf(id); got != first || d.job(id).Status.Starts != 2 {
		t.Fatalf("it runs under %q after %d starts; want to be left alone at first", got, d.job(id).Status.Starts)
	}
	d.clock.add(time.Minute)
	d.steps(id, 960, 5)
	if got := d.planOf(id); got != other {
		t.Fatalf("it runs under %q; want %s, which promises to be faster", got, other)
	}
	j := d.job(id)
	if j.Status.Starts != 3 || j.Status.Moves != 2 || j.Status.Placement.GPUs() != 4 {
		t.Errorf("%d starts, %d moves, on %d GPUs; want 3, 2 and 4", j.Status.Starts, j.Status.Moves, j.Status.Placement.GPUs())
	}
	ledger := d.mem.jobs[id].Ledger
	if why := ledger[len(ledger)-1].Why; !strings.Contains(why, "changes its plan from "+first+", 5 s a step, to "+other) {
		t.Errorf("the ledger says %q", why)
	}
	d.wantDurable()

	d.left(id)
	d.clock.add(10 * time.Second)
	d.steps(id, 1280, 6) // it does not keep its promise
	for _, gpus := range [][]int{{0, 1}, {0, 1, 2, 3}} {
		d.decide(wants{id: on(gpus...)})
		d.left(id)
	}
	if got := d.planOf(id); got != first {
		t.Errorf("on 4 GPUs again it runs under %q; want %s, which was measured to be faster", got, first)
	}
	d.wantDurable()
}

// TestReplanNotWorth: near the end of its work, or while it cannot be stopped, a job keeps
// its plan.
func TestReplanNotWorth(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(*api.Submission)
		done float64
	}{
		"near its end":    {func(*api.Submission) {}, 32 * 9_999},
		"non-preemptible": {func(s *api.Submission) { s.Preemptible = new(false) }, 320},
	} {
		d := open(t)
		s := planning(t, "fsdp4", "fsdp2-tp2")
		s.GPUs = 4
		c.edit(&s)
		id := d.submit(admin, s)
		d.decide(wants{id: on(0, 1, 2, 3)})
		d.clock.add(time.Minute)
		d.steps(id, c.done, 30)
		if starts := d.job(id).Status.Starts; starts != 1 {
			t.Errorf("%s: %d starts; want 1", name, starts)
		}
	}
}

// TestGeneratedPlans: of generated plans a job has those that fit in memory, and the sizes
// they are for.
func TestGeneratedPlans(t *testing.T) {
	d := open(t, func(c *Config) { c.Node.GPUMemory = 9e9 })
	s := planning(t)
	s.Plans.Generate = []string{"fsdp", "accumulate", "recompute"}
	s.GPUs, s.MinGPUs, s.MaxGPUs = 1, 1, 4
	id := d.submit(ann, s)
	j := d.job(id)
	if !slices.Equal(j.Sizes, []int{4}) || j.GPUs != 4 { // 16 bytes for each of 1e9 parameters
		t.Errorf("sizes %v, %d GPUs; want 4, where its state fits", j.Sizes, j.GPUs)
	}
	s.MaxGPUs = 2
	_, err := d.Submit(t.Context(), ann, []api.Submission{s})
	if wantCode(t, "no plan fits", err, api.Invalid); err != nil && !strings.Contains(err.Error(), "plans: none fits on the GPUs that the job asks for: fsdp2 needs about ") {
		t.Errorf("refused with %v; want how much memory is missing", err)
	}
	rigid := planning(t, "fsdp4")
	rigid.GPUs = 3
	_, err = d.Submit(t.Context(), ann, []api.Submission{rigid})
	wantCode(t, "no plan for 3 GPUs", err, api.Invalid)
}

// TestPlansWithoutNodes: while no GPU is known, as for a moment after a start, a job with plans is
// neither accepted nor refused for good.
func TestPlansWithoutNodes(t *testing.T) {
	d := open(t)
	nodes := d.mem.state.Cluster().Nodes
	if err := d.SetNodes(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	_, err := d.Submit(t.Context(), ann, []api.Submission{planning(t, "fsdp4")})
	wantCode(t, "no nodes", err, api.Unavailable)
	if err := d.SetNodes(t.Context(), nodes); err != nil {
		t.Fatal(err)
	}
	d.submit(ann, planning(t, "fsdp4"))
}

// TestPlansOfHeldJob: a job that waits for another knows its plans when it queues.
func TestPlansOfHeldJob(t *testing.T) {
	d := open(t)
	first := d.submit(ann, submission("first", 1))
	s := planning(t, "fsdp4")
	s.DependsOn = []string{string(first)}
	id := d.submit(ann, s)
	d.decide(wants{first: on(0)})
	d.exited(exitOf(first, 1))
	if perf := d.job(id).Status.Perf; perf == nil || len(perf.Plans) != 1 {
		t.Fatalf("policies know %+v; want its plans", perf)
	}
	d.decide(wants{id: on(0, 1, 2, 3)})
	if got := d.planOf(id); got != "fsdp4" {
		t.Errorf("it runs under %q; want fsdp4", got)
	}
	d.wantDurable()
}
