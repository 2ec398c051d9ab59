// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package fairway

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/fairway-gpu/fairway/policy/policytest"
	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/goodput"
	"github.com/fairway-gpu/fairway/sched/plan"
)

func TestNew(t *testing.T) {
	with := func(set func(*Config)) Config {
		c := Default()
		set(&c)
		return c
	}
	for _, c := range []struct {
		config Config
		want   string // the error
	}{
		{Default(), "<nil>"},
		{with(func(c *Config) { c.Wait, c.Bound, c.Rank = 0, 0, 0 }), "<nil>"},
		{with(func(c *Config) { c.Rank = -1 }), "rank = -1; want 0 to 10"},
		{with(func(c *Config) { c.Power = math.NaN() }), "power = NaN; want above 0 to 1"},
		{with(func(c *Config) { c.Restart = -1 }), "restart = -1ns; want 0s to 24h"},
		{with(func(c *Config) { c.Settle = 0 }), "settle = 0s; want more than 0s, and at most 365d"},
		{with(func(c *Config) { c.Wait = -1 }), "wait = -1ns; want 0s (never) to 365d"},
		{with(func(c *Config) { c.Turn = 0 }), "turn = 0s; want 1s to 365d"},
		{with(func(c *Config) { c.Bound = 0.5 }), "bound = 0.5; want 0 (none), or 1 to 1000"},
		{with(func(c *Config) { c.Whole = -1 }), "whole = -1; want 0 or more"},
		{with(func(c *Config) { c.Interval = 0 }), "interval = 0s; want 1s or more"},
	} {
		if _, err := New(c.config); fmt.Sprint(err) != c.want {
			t.Errorf("New(%+v): %v; want %s", c.config, err, c.want)
		}
	}
}

// TestLongestWait holds the policy to its theorem: however jobs arrive and end, none
// waits for longer than wait, and a turn for each job that waited before it and for
// itself. Some jobs never end.
func TestLongestWait(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		c := Default()
		c.Wait, c.Turn, c.Interval = sched.Duration(time.Hour), sched.Duration(20*time.Minute), sched.Duration(10*time.Minute)
		c.Share = rapid.Bool().Draw(rt, "share")
		c.Whole = rapid.SampledFrom([]int{0, c.Whole}).Draw(rt, "whole")
		p, err := New(c)
		if err != nil {
			t.Fatal(err)
		}
		w := adversary(rt)
		ahead := map[string]int{} // by job and the start of its wait
		see := func(policytest.Seen) {
			jobs := w.State.Snapshot(w.Now).Jobs
			for _, j := range jobs {
				if j.Phase != sched.Pending {
					continue
				}
				key := fmt.Sprint(j.ID, j.Since)
				n, known := ahead[key]
				if !known {
					for _, other := range jobs {
						if other != j && other.Phase == sched.Pending && !other.Since.After(j.Since) {
							n++
						}
					}
					ahead[key] = n
				}
				if longest := c.Wait.D() + time.Duration(n+1)*c.Turn.D(); w.Now.Sub(j.Since) > longest {
					rt.Fatalf("job %s of %d GPUs has waited for %s with %d jobs before it; want at most %s", j.ID, j.GPUs, w.Now.Sub(j.Since), n, longest)
				}
			}
		}
		if err := w.Play(p, policytest.Start.Add(8*time.Hour), see); err != nil {
			rt.Fatal(err)
		}
	})
}

// adversary returns a world in which jobs of all sizes keep coming, most of them short
// and small.
func adversary(t *rapid.T) *policytest.World {
	nodes := make([]sched.Node, rapid.IntRange(1, 3).Draw(t, "nodes"))
	for i := range nodes {
		nodes[i] = sched.Node{Name: fmt.Sprint("n", i), GPUs: 4, Type: "t4"}
	}
	w, err := policytest.NewWorld(nodes)
	if err != nil {
		t.Fatal(err)
	}
	at := policytest.Start
	for i := range rapid.IntRange(5, 60).Draw(t, "jobs") {
		job := sched.Spec{ID: sched.JobID(fmt.Sprint("j", i)), GPUs: rapid.IntRange(1, 2).Draw(t, "gpus")}
		switch rapid.IntRange(0, 9).Draw(t, "kind") {
		case 0:
			job.GPUs = 4 * len(nodes) // all there are
		case 1:
			job.MinGPUs, job.MaxGPUs = 1, 8
		}
		if rapid.IntRange(0, 4).Draw(t, "ends") > 0 {
			w.Length[job.ID] = time.Duration(rapid.IntRange(1, 120).Draw(t, "minutes")) * time.Minute
		}
		if rapid.Bool().Draw(t, "estimated") {
			job.Estimate = sched.Duration(time.Duration(rapid.IntRange(1, 600).Draw(t, "estimate")) * time.Minute)
		}
		at = at.Add(time.Duration(rapid.IntRange(0, 900).Draw(t, "seconds")) * time.Second)
		job.Submitted = at
		w.Arrivals = append(w.Arrivals, job)
	}
	return w
}

// TestTenants: a tenant that wants less than its share gets all of it, and the others
// divide what it leaves by their weights.
func TestTenants(t *testing.T) {
	tenants := []sched.Tenant{{ID: "a", Quota: 8, Borrow: true}, {ID: "b", Quota: 4, Borrow: true, Weight: 3}, {ID: "c", Weight: 1}}
	for _, c := range []struct {
		name   string
		wanted map[sched.TenantID]int // jobs of one GPU
		limits []int
	}{
		{"nobody is limited", map[sched.TenantID]int{"a": 4, "b": 4, "c": 4}, nil},
		{"quotas first", map[sched.TenantID]int{"a": 30, "b": 30, "c": 30}, []int{8, 7, 1}},
		{"what one leaves", map[sched.TenantID]int{"a": 2, "b": 30, "c": 0}, []int{2, 14, 0}},
	} {
		w, err := policytest.NewWorld([]sched.Node{{Name: "n0", GPUs: 8, Type: "t4"}, {Name: "n1", GPUs: 8, Type: "t4"}})
		if err != nil {
			t.Fatal(err)
		}
		for i := range tenants {
			if err := w.Apply(sched.Event{Kind: sched.TenantSet, Tenant: &tenants[i]}); err != nil {
				t.Fatal(err)
			}
		}
		for tenant, n := range c.wanted {
			for i := range n {
				if err := w.Submit(sched.Spec{ID: sched.JobID(fmt.Sprint(tenant, i)), GPUs: 1, Tenant: tenant}, 0); err != nil {
					t.Fatal(err)
				}
			}
		}
		config := Default()
		config.Share = false
		p, err := New(config)
		if err != nil {
			t.Fatal(err)
		}
		got := p.(*policy).weigh(w.State.Snapshot(w.Now)).limits
		if fmt.Sprint(got) != fmt.Sprint(c.limits) {
			t.Errorf("%s: limits %v; want %v", c.name, got, c.limits)
		}
	}
}

// TestTurnOfPlans: a job with plans that is due starts with as many GPUs as it uses best, up
// to those it asked for, and one without plans with those.
func TestTurnOfPlans(t *testing.T) {
	for _, c := range []struct {
		asked, want int
		perf        *goodput.Report
	}{{24, 16, planSteps}, {32, 32, planSteps}, {8, 8, planSteps}, {24, 24, nil}} {
		w := planWorld(t, &sched.Spec{ID: "gpt", GPUs: c.asked, MinGPUs: 8, MaxGPUs: 32, Sizes: []int{8, 16, 24, 32}}, c.perf)
		p := unshared(t)
		w.Now = w.Now.Add(p.Wait.D())
		world := p.weigh(w.State.Snapshot(w.Now))
		if len(world.due) != 1 {
			t.Fatalf("%d jobs are due; want 1", len(world.due))
		}
		if got := world.fix()[0].GPUs(); got != c.want {
			t.Errorf("asked for %d, plans %v: its turn is on %d GPUs; want %d", c.asked, c.perf != nil, got, c.want)
		}
	}
}

// TestSpare: a training of a few steps gets many GPUs while nobody waits and few while others do,
// and a long one those that it uses best.
func TestSpare(t *testing.T) {
	spec := &sched.Spec{ID: "gpt", GPUs: 32, MinGPUs: 8, MaxGPUs: 32, Sizes: []int{8, 16, 24, 32}}
	for _, c := range []struct{ steps, others, want int }{{1, 0, 32}, {1, 50, 8}, {100, 50, 16}, {100000, 50, 32}} {
		w := planWorld(t, spec, planSteps)
		for i := range c.others {
			if err := w.Apply(sched.Event{Kind: sched.JobSubmitted, Spec: &sched.Spec{ID: sched.JobID(fmt.Sprint(i)), GPUs: 1, Submitted: w.Now}}); err != nil {
				t.Fatal(err)
			}
		}
		s := w.State.Snapshot(w.Now)
		i := slices.IndexFunc(s.Jobs, func(j *sched.Job) bool { return j.ID == spec.ID })
		s.Jobs[i].Work = float64(c.steps)
		if got := unshared(t).weigh(s).jobs[i].most; got != c.want {
			t.Errorf("%d steps, %d others wait: at most %d GPUs; want %d", c.steps, c.others, got, c.want)
		}
	}
}

// planSteps is the report of a job that takes 80, 32, 43 or 29 seconds of one GPU for a step, on 8 to
// 32 of them.
var planSteps = func() *goodput.Report {
	model := plan.Model{Parameters: 1e10, Layers: 32, Hidden: 4096, Heads: 32, Sequence: 2048, Batch: 96}
	choice := &plan.Choice{Model: model, Params: plan.Prior(model), Node: 8}
	for n, step := range map[int]float64{8: 10, 16: 2, 24: 1.8, 32: 0.9} {
		p := plan.Plan{Data: n, Tensor: 1, Pipeline: 1, Micro: 1, Sharding: plan.Full}
		choice.Plans = append(choice.Plans, p)
		choice.Known = append(choice.Known, plan.Sample{Plan: p, At: choice.Packed(n, 1), Step: step})
	}
	return &goodput.Report{
		Plans: map[string]*plan.Choice{"t4": choice}, Fixed: 96, MostGPUs: 32, UsableGPUs: 32, Restart: 260,
		Limits: goodput.Limits{Initial: 96, Max: 96, LocalMin: 1, LocalMax: 96},
	}
}()

// planWorld returns four nodes of 8 GPUs and a job that waits.
func planWorld(t *testing.T, spec *sched.Spec, perf *goodput.Report) *policytest.World {
	t.Helper()
	var nodes []sched.Node
	for i := range 4 {
		nodes = append(nodes, sched.Node{Name: fmt.Sprint("n", i), GPUs: 8, Type: "t4"})
	}
	w, err := policytest.NewWorld(nodes)
	if err != nil {
		t.Fatal(err)
	}
	spec.Submitted = w.Now
	if err := w.Apply(sched.Event{Kind: sched.JobSubmitted, Spec: spec, Perf: perf, Can: sched.Resizes}); err != nil {
		t.Fatal(err)
	}
	return w
}

// unshared returns the policy without the layer that shares GPUs.
func unshared(t *testing.T) *policy {
	t.Helper()
	config := Default()
	config.Share = false
	p, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	return p.(*policy)
}

// TestApps: an app of several jobs is given its share first, its longest jobs before others,
// unless it would end well before its time. What its jobs that have ended had is part of its
// work: an app that has had more than its share is not behind because it has few jobs left.
// Jobs alone are favoured against such apps only, and only if their share has room for them.
func TestApps(t *testing.T) {
	type app struct {
		id            sched.AppID
		jobs, minutes int
	}
	for _, c := range []struct {
		name   string
		apps   []app
		after  time.Duration
		behind string
	}{
		{"at the start", []app{{"long", 8, 60}, {"short", 8, 30}}, 0, "[long-0 long-1 long-2 long-3 short-0 short-1 short-2]"},
		{"eight of twelve jobs have ended", []app{{"search", 12, 60}, {"other", 1, 1000}}, 61 * time.Minute, "[other-0]"},
		{"jobs alone", []app{{"a", 1, 60}, {"b", 1, 90}, {"c", 1, 90}}, 0, "[]"},
		{"shares too small for a job", []app{
			{"search", 3, 60}, {"a", 1, 60}, {"b", 1, 60}, {"c", 1, 60}, {"d", 1, 60}, {"e", 1, 60}, {"f", 1, 60}, {"g", 1, 60}, {"h", 1, 60},
		}, 0, "[]"},
	} {
		w, err := policytest.NewWorld([]sched.Node{{Name: "n0", GPUs: 8, Type: "t4"}, {Name: "n1", GPUs: 8, Type: "t4"}})
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range c.apps {
			for i := range a.jobs {
				length := time.Duration(a.minutes) * time.Minute
				job := sched.Spec{ID: sched.JobID(fmt.Sprint(a.id, "-", i)), App: a.id, GPUs: 2, Estimate: sched.Duration(length)}
				if err := w.Submit(job, length); err != nil {
					t.Fatal(err)
				}
			}
		}
		config := Default()
		config.Share = false
		p, err := New(config)
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Play(p, policytest.Start.Add(c.after), nil); err != nil {
			t.Fatal(err)
		}
		s := w.State.Snapshot(w.Now)
		behind := []sched.JobID{}
		for i, v := range p.(*policy).weigh(s).jobs {
			if v.ofApp && v.share > 0 {
				behind = append(behind, s.Jobs[i].ID)
			}
		}
		if fmt.Sprint(behind) != c.behind {
			t.Errorf("%s: %v are behind; want %s", c.name, behind, c.behind)
		}
	}
}

// TestNearlyDone: a job that has a second left goes before a long one, although it has to load
// for longer than that: it will have to at any time.
func TestNearlyDone(t *testing.T) {
	w, err := policytest.NewWorld([]sched.Node{{Name: "n0", GPUs: 1, Type: "t4"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, length := range []time.Duration{2 * time.Hour, time.Second} {
		job := sched.Spec{ID: sched.JobID(length.String()), GPUs: 1, Estimate: sched.Duration(length)}
		if err := w.Submit(job, length); err != nil {
			t.Fatal(err)
		}
	}
	p, err := New(Default())
	if err != nil {
		t.Fatal(err)
	}
	s := w.State.Snapshot(w.Now)
	plan := p.Schedule(s)
	for i, j := range s.Jobs {
		if starts := len(plan.Want[i]) > 0; starts != (j.ID == "1s") {
			t.Errorf("the job of %s starts: %t", j.ID, starts)
		}
	}
}

// TestOutlived: a job that has done all it announced, and more, is not about to end for
// ever: it is expected to need as much again.
func TestOutlived(t *testing.T) {
	for _, c := range []struct{ estimate, had, want float64 }{{100, 0, 100}, {100, 99, 100}, {100, 100, 200}, {100, 250, 400}} {
		if got := outlived(c.estimate, c.had); got != c.want {
			t.Errorf("a job estimated at %g that has had %g: %g in all; want %g", c.estimate, c.had, got, c.want)
		}
	}
}

// TestPriceOfSuspending: a job that is suspended rather than stopped is charged what was
// measured for it, or else what its memory takes.
func TestPriceOfSuspending(t *testing.T) {
	j := &sched.Job{Spec: sched.Spec{GPUs: 1, GPUMemory: 16e9}, Status: sched.Status{
		Phase: sched.Running, Suspends: true, Placement: sched.Placement{{Node: 0, GPUs: 1, Milli: sched.WholeGPU}},
	}}
	p := &policy{Config: Default()}
	if got := p.restart(j); !(got > 13 && got < 14) {
		t.Errorf("16 GB take %g s; want some 13.6", got)
	}
	j.Suspension = &sched.Suspension{Out: sched.Duration(3 * time.Second), Back: sched.Duration(time.Second)}
	if got := p.restart(j); got != 4 {
		t.Errorf("%g s; want the 4 s that were measured", got)
	}
	j.Suspends = false
	if got := p.restart(j); got != 30 {
		t.Errorf("a job that is stopped: %g s; want 30", got)
	}
}

// TestCredible: announced work is believed as far as similar jobs make it likely.
func TestCredible(t *testing.T) {
	for _, c := range []struct {
		estimate        time.Duration
		announced, want float64
	}{
		{0, 1e6, 1e6}, // nothing is known of similar jobs
		{time.Hour, 3600, 3600},
		{time.Hour, 1e6, 2 * 4 * 3600},
		{time.Hour, 10, 4 * 3600 / 8},
	} {
		j := &sched.Job{Spec: sched.Spec{GPUs: 4, Estimate: sched.Duration(c.estimate)}}
		if got := credible(j, c.announced); got != c.want {
			t.Errorf("%g s of work announced, similar jobs took %s on 4 GPUs: %g s; want %g", c.announced, c.estimate, got, c.want)
		}
	}
}

// TestDoubtedLengths: where finished jobs were far off what they had announced, or a job
// announces nothing, what similar jobs took bounds what it has left.
func TestDoubtedLengths(t *testing.T) {
	for _, c := range []struct{ off, announced, typical, want float64 }{
		{0, 800, 100, 800}, // jobs keep to what they announce
		{1, 800, 100, 200},
		{1, 10, 100, 50},
		{1, 120, 100, 120},
		{1, 800, 0, 800}, // no similar job has completed
		{0, 0, 100, 100},
		{0, 0, 0, 0},
	} {
		w := &world{s: &sched.Snapshot{Announcements: sched.Announcements{Jobs: 5, Off: c.off}}}
		j := &sched.Job{Status: sched.Status{Perf: &goodput.Report{Work: c.announced, Typical: c.typical}}}
		if got := w.whole(j, 1); got != c.want {
			t.Errorf("off by %g, %g announced, %g typical: %g; want %g", c.off, c.announced, c.typical, got, c.want)
		}
	}
}

// TestBehindWithoutLengths: a job that announces far too much is seen to be behind by what it
// has done, once announced lengths have proved wrong; and has its share until it has caught up.
func TestBehindWithoutLengths(t *testing.T) {
	cluster, err := sched.NewCluster([]sched.Node{{Name: "a", GPUs: 8, Type: "t4"}})
	if err != nil {
		t.Fatal(err)
	}
	st := sched.NewState(cluster)
	for _, id := range []sched.JobID{"x", "other"} {
		spec := sched.Spec{ID: id, GPUs: 4, MinGPUs: 1, MaxGPUs: 8, Work: 1e6, Submitted: policytest.Start}
		if err := st.Apply(sched.Event{Kind: sched.JobSubmitted, At: policytest.Start, Spec: &spec}); err != nil {
			t.Fatal(err)
		}
	}
	s := st.Snapshot(policytest.Start.Add(time.Hour))
	j := s.Jobs[0]
	for _, c := range []struct {
		off, had float64 // had: of the GPU time of its share, a half of the cluster
		runs     bool
		want     bool
	}{
		{0, 0.3, false, false}, // by what it announces it has only begun
		{1, 0.3, false, true},
		{1, 0.65, false, false},
		{1, 0.65, true, true},
		{1, 0.8, true, false},
	} {
		x := *j
		x.GPUSeconds = c.had * 4 * 3600
		if c.runs {
			x.Phase, x.Placement, x.Since = sched.Running, sched.Placement{{GPUs: sched.FirstGPUs(4), Milli: sched.WholeGPU}}, s.Now
		}
		s.Announcements = sched.Announcements{Jobs: 5, Off: c.off}
		w := &world{policy: &policy{Config: Default()}, s: s}
		v := view{app: s.AppOf(&x), most: 8, left: 1e6}
		if w.compare(&x, &v); v.share > 0 != c.want {
			t.Errorf("%+v: behind is %v", c, v.share > 0)
		}
	}
}
