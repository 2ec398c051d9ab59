// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package sim_test

import (
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sim"
	"github.com/fairway-gpu/fairway/sim/profile"
)

// typedTables are tables of two models in the layout of the Sia artifact: steps of
// bert take 0.5 s on slow GPUs and 0.25 s on fast ones; gpt_pmp runs in pipelines of
// two fast GPUs.
func typedTables(t *testing.T) *profile.Tables {
	t.Helper()
	const runs = "progress,iteration,metric,grad_sqr,grad_var\n100,100,0,1,1\n200,200,0,1,1\n"
	tables, err := profile.Read(fstest.MapFS{
		"bert/placements-slow.csv":    {Data: []byte("local_bsz,step_time,sync_time,placement\n8,0.5,0,1\n8,0.5,0,2\n8,0.5,0,11\n")},
		"bert/placements-fast.csv":    {Data: []byte("local_bsz,step_time,sync_time,placement\n8,0.25,0,1\n16,0.5,0,1\n8,0.25,0,2\n8,0.25,0,4\n")},
		"bert/validation-8.csv":       {Data: []byte(runs)},
		"bert/validation-64.csv":      {Data: []byte(runs)},
		"gpt_pmp/placements-fast.csv": {Data: []byte("local_bsz,step_time,sync_time,placement\n1,0.1,0.3,2\n1,0.1,0.3,4\n")},
		"gpt_pmp/validation-48.csv":   {Data: []byte(runs)},
		"gpt_pmp/validation-96.csv":   {Data: []byte(runs)},
	})
	if err != nil {
		t.Fatal(err)
	}
	return tables
}

// Tables of several types: each job runs at the speed of its GPUs, slower by the
// model's factor, after the model's own start.
func TestTablesOfTypes(t *testing.T) {
	c := config(t, "1x1:slow+1x4:fast", "fifo")
	c.Interval, c.Profiles, c.Optimistic = time.Minute, typedTables(t), true
	one := sim.Work{Spec: sched.Spec{ID: "one", GPUs: 1, Model: "bert", Submitted: start, GPUTypes: []sched.GPUType{"slow"}}, BatchSize: 8}
	other := sim.Work{Spec: sched.Spec{ID: "other", GPUs: 1, Model: "bert", Submitted: start, GPUTypes: []sched.GPUType{"fast"}}, BatchSize: 8}
	pipe := sim.Work{Spec: sched.Spec{ID: "pipe", GPUs: 2, Model: "gpt_pmp", Submitted: start}}
	res := run(t, c, one, other, pipe)
	within(t, "on the slow type", res.Jobs[0].End, 60+120+200*0.5*1.2)
	within(t, "on the fast type", res.Jobs[1].End, 60+120+200*0.25*1.2)
	// A pipeline of two: 3 x (48+1) x 0.1 s and the exchange, in whole seconds.
	within(t, "in a pipeline", res.Jobs[2].End, 60+30+2*1500)
}

func TestTablesOfTypesErrors(t *testing.T) {
	for _, tc := range []struct {
		name, cluster string
		work          sim.Work
		want          []string
	}{
		{"unknown type", "1x4:fast+1x4:a100", sim.Work{Spec: sched.Spec{GPUs: 1, Model: "bert"}}, []string{`"a100"`, "[fast slow]"}},
		{"no table on the type", "1x4:slow", sim.Work{Spec: sched.Spec{GPUs: 2, Model: "gpt_pmp"}}, []string{"gpt_pmp", "fast in units of 2"}},
		{"part of a pipeline", "1x4:fast", sim.Work{Spec: sched.Spec{GPUs: 3, Model: "gpt_pmp"}}, []string{"3 GPUs", "fast in units of 2"}},
		{"unknown model", "1x4:fast", sim.Work{Spec: sched.Spec{GPUs: 1, Model: "vgg16"}}, []string{"vgg16", "[bert gpt_pmp]"}},
	} {
		c := config(t, tc.cluster, "fifo")
		c.Profiles = typedTables(t)
		tc.work.ID, tc.work.Submitted = "job", start
		_, _, err := sim.Run(c, &sim.Workload{Name: "w", Start: start, Work: []sim.Work{tc.work}})
		for _, want := range tc.want {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: error %v does not say %q", tc.name, err, want)
			}
		}
	}
}

// Under sia a job that runs in pipelines grows by whole pipelines.
func TestSiaGrowsByPipelines(t *testing.T) {
	c := config(t, "1x1:slow+1x4:fast", "sia")
	c.Interval, c.Agent, c.CoAdapt, c.Estimates = time.Minute, time.Minute, true, sim.Exact
	c.Profiles, c.Optimistic = typedTables(t), true
	sizes := map[int]bool{}
	c.Watch = func(w sim.Watched) { sizes[w.GPUs] = true }
	run(t, c, sim.Work{Spec: sched.Spec{ID: "pipe", GPUs: 2, MinGPUs: 1, MaxGPUs: 4, Model: "gpt_pmp", Submitted: start, Batch: sched.Batch{Adapt: true}}})
	if len(sizes) != 2 || !sizes[2] || !sizes[4] {
		t.Errorf("the job has run on %v GPUs; want 2, then 4", sizes)
	}
}

// shuffle is a policy that moves its only job to another GPU at every decision.
type shuffle struct{ to []sched.Placement }

func (p *shuffle) Schedule(s *sched.Snapshot) sched.Plan {
	plan := sched.NewPlan(s)
	if len(s.Jobs) == 1 {
		plan.Want[0] = p.to[int(s.Now.Sub(start)/time.Minute)%len(p.to)]
		plan.WakeBy(s.Now, s.Now.Add(time.Minute))
	}
	return plan
}

// With tables of several types, a move to the same shape takes no time, as in the Sia
// artifact's simulator; a move to another shape does.
func TestMovesOfTheSameShapeAreFree(t *testing.T) {
	c := config(t, "2x1:slow", "fifo")
	c.Interval, c.Profiles, c.Optimistic = time.Minute, typedTables(t), true
	c.Policy = &shuffle{[]sched.Placement{{{Node: 0, GPUs: 1, Milli: sched.WholeGPU}}, {{Node: 1, GPUs: 1, Milli: sched.WholeGPU}}}}
	res := run(t, c, sim.Work{Spec: sched.Spec{ID: "one", GPUs: 1, Model: "bert", Submitted: start}, BatchSize: 8})
	within(t, "with moves", res.Jobs[0].End, 60+120+200*0.5*1.2)
	if res.Jobs[0].Restarts < 2 {
		t.Errorf("%d moves; want one each minute", res.Jobs[0].Restarts)
	}
}
