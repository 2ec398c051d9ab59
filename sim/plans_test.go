// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package sim_test

import (
	"math"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/fairway-gpu/fairway/policy"
	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/plan"
	"github.com/fairway-gpu/fairway/sim"
	"github.com/fairway-gpu/fairway/sim/profile"
)

// measuredPlans are steps of gpt2: tensor parallelism is slow, zero is the fastest.
const measuredPlans = `exec_plan,placement,iter_time
ga,1,4
ga,2,2.2
ga,4,1.2
ga,8,0.9
ga,44,1.4
zero-dp,2,2
zero-dp,4,1
zero-dp,8,0.5
zero-dp,44,0.8
151,5,1.1
`

func planning(t *testing.T, cluster, spec string) sim.Config {
	t.Helper()
	c := config(t, cluster, spec)
	about := policy.Builtin().About(spec)
	c.CoAdapt, c.Agent, c.Restart = about.Agents, time.Minute, 10*time.Second
	var err error
	if c.Plans, err = profile.ReadPlans(fstest.MapFS{"gpt2/placements.csv": {Data: []byte(measuredPlans)}}); err != nil {
		t.Fatal(err)
	}
	return c
}

func gpt2(id string, gpus int, steps float64, chosen string) sim.Work {
	return sim.Work{
		Spec: sched.Spec{ID: sched.JobID(id), GPUs: gpus, Model: "gpt2", Submitted: start}, Steps: steps,
		Plans: &sim.WorkPlans{Start: chosen},
	}
}

// Without an agent a job trains under its user's plan; GPUs that share a layer are on one
// node.
func TestUsersPlan(t *testing.T) {
	res := run(t, planning(t, "2x8", "fifo"), gpt2("a", 4, 1000, "ga"), gpt2("b", 5, 1000, "151"), gpt2("c", 5, 1000, "151"))
	for i, want := range []float64{10 + 1200, 10 + 1100, 10 + 1100} {
		within(t, string(res.Jobs[i].ID), res.Jobs[i].Ran, want)
	}
	if res.Jobs[1].Runs[0].Nodes != 1 || res.Jobs[2].Runs[0].Nodes != 1 {
		t.Errorf("five GPUs that share layers are on %d and %d nodes; want 1", res.Jobs[1].Runs[0].Nodes, res.Jobs[2].Runs[0].Nodes)
	}
	if *res.Plans != (sim.PlanCount{Measured: 3}) {
		t.Errorf("counts %+v; want three measured starts", *res.Plans)
	}
}

// With an agent a job alone gets the GPUs and the plan that are fastest, whatever its user
// chose.
func TestPoliciesChoosePlans(t *testing.T) {
	for _, spec := range []string{"fairway", "pollux", "sia"} {
		t.Run(spec, func(t *testing.T) {
			res := run(t, planning(t, "1x8", spec), gpt2("a", 8, 2000, "ga"))
			if got := res.Jobs[0].JCT; got > 10+2000*0.5+130 {
				t.Errorf("a takes %.0f s; want that of zero-dp, 1010 s and a round or two, not the 1810 s of its user's plan", got)
			}
		})
	}
}

// A job that asks for a size at which no plan fits on every placement asks for the next
// smaller one.
func TestPlannedSizes(t *testing.T) {
	res := run(t, planning(t, "2x4", "fairway"), gpt2("a", 5, 100, "151"), gpt2("b", 8, 100, "zero-dp"))
	if res.Finished != 2 {
		t.Fatalf("%d jobs finished; want 2", res.Finished)
	}
	for _, j := range res.Jobs {
		for _, s := range j.Runs {
			if s.GPUs == 5 {
				t.Errorf("%s runs on 5 GPUs; want 1, 2, 4 or 8", j.ID)
			}
		}
	}
}

// Placements that were not measured follow from the model, and are counted.
func TestInterpolatedPlan(t *testing.T) {
	c := planning(t, "4x2", "fifo")
	m, _ := c.Plans.Model("gpt2")
	res := run(t, c, gpt2("a", 8, 100, "ga"))
	want := m.Params.Step(m.Model, plan.Plan{Data: 8, Tensor: 1, Pipeline: 1, Micro: 1}, plan.On(2, 2, 2, 2))
	within(t, "a", res.Jobs[0].Ran, 10+100*want)
	if *res.Plans != (sim.PlanCount{Fitted: 1}) {
		t.Errorf("counts %+v; want one that is fitted", *res.Plans)
	}
}

// llama is a model whose plans are generated.
func llama(id string, gpus, most int) sim.Work {
	w := sim.Work{
		Spec:  sched.Spec{ID: sched.JobID(id), GPUs: gpus, TaskGPUs: 4, Model: "llama", Submitted: start},
		Steps: 500,
		Plans: &sim.WorkPlans{
			Options: plan.Options{
				Model:    plan.Model{Parameters: 6.7e9, Layers: 32, Hidden: 4096, Heads: 32, Sequence: 2048, Batch: 32},
				Generate: []string{"tp<=4", "fsdp", "accumulate", "zero-offload"},
			},
			Truth: plan.Params{Compute: 8, Fixed: 0.1, Network: 1.5, Update: 0.6, Tensor: 0.8, Host: 7, Kernel: 1.2},
		},
	}
	if most > 0 {
		w.MinGPUs, w.MaxGPUs, w.Sizes = 4, most, []int{4, 8, 16}
	}
	return w
}

// A generated job learns from its first steps, and ends as fast as the best of its plans
// allows.
func TestGeneratedPlans(t *testing.T) {
	for _, spec := range []string{"fairway", "pollux", "sia"} {
		t.Run(spec, func(t *testing.T) {
			c := planning(t, "2x8", spec)
			c.Plans = nil
			for i := range c.Cluster.Nodes {
				c.Cluster.Nodes[i].GPUMemory = 80e9
			}
			w := llama("a", 4, 16)
			best := math.Inf(1)
			space, _ := plan.ParseSpace(w.Plans.Generate)
			for n, at := range map[int]plan.Place{4: plan.On(4), 8: plan.On(8), 16: plan.On(8, 8)} {
				for _, p := range plan.Generate(w.Plans.Model, space, n, plan.Room{GPUs: 8, GPU: 80e9}) {
					best = min(best, w.Plans.Truth.Step(w.Plans.Model, p, at))
				}
			}
			res := run(t, c, w)
			if got, want := res.Jobs[0].JCT, 500*best; got < want || got > 1.6*want+300 {
				t.Errorf("a takes %.0f s; want at least %.0f, and not much more", got, want)
			}
		})
	}
}

// The same inputs give the same result.
func TestPlansAreDeterministic(t *testing.T) {
	work := []sim.Work{gpt2("a", 8, 3000, "ga"), gpt2("b", 4, 900, "zero-dp"), gpt2("c", 1, 200, "ga")}
	first := run(t, planning(t, "2x8", "fairway"), work...)
	for range 3 {
		if again := run(t, planning(t, "2x8", "fairway"), work...); again.AvgJCT != first.AvgJCT || *again.Plans != *first.Plans {
			t.Fatalf("average JCT %g and %+v, then %g and %+v", first.AvgJCT, *first.Plans, again.AvgJCT, *again.Plans)
		}
	}
}

func TestPlanErrors(t *testing.T) {
	for want, change := range map[string]func(*sim.Config, *sim.Work){
		"the plans are of [gpt2]":      func(_ *sim.Config, w *sim.Work) { w.Model = "bert" },
		"steps = 0":                    func(_ *sim.Config, w *sim.Work) { w.Steps = 0 },
		`plans: start: plan "fast"`:    func(_ *sim.Config, w *sim.Work) { w.Plans.Start = "fast" },
		"plans: model: parameters = 0": func(c *sim.Config, _ *sim.Work) { c.Plans = nil },
		"plans: truth: compute = 0":    func(c *sim.Config, w *sim.Work) { c.Plans = nil; *w = llama("a", 4, 0); w.Plans.Truth.Compute = 0 },
		`plans: generator "magic"`: func(c *sim.Config, w *sim.Work) {
			c.Plans = nil
			*w = llama("a", 4, 0)
			w.Plans.Generate = []string{"magic"}
		},
		"plans: list[0]: data = 0": func(c *sim.Config, w *sim.Work) {
			c.Plans = nil
			*w = llama("a", 4, 0)
			w.Plans.List = make([]plan.Plan, 1)
		},
		`plans: start = "dp9"; want a plan for 4`: func(c *sim.Config, w *sim.Work) { c.Plans = nil; *w = llama("a", 4, 0); w.Plans.Start = "dp9" },
		"on every placement of 4 GPUs with task_gpus = ": func(c *sim.Config, w *sim.Work) {
			c.Plans = nil
			*w = llama("a", 4, 0)
			w.Plans.Generate, w.Plans.List = nil, []plan.Plan{{Data: 8, Tensor: 1, Pipeline: 1, Micro: 1}}
		},
	} {
		c, w := planning(t, "1x8", "fifo"), gpt2("a", 4, 10, "ga")
		change(&c, &w)
		_, _, err := sim.Run(c, &sim.Workload{Start: start, Work: []sim.Work{w}})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v; want one with %q", err, want)
		}
	}
}
