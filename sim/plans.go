// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/plan"
	"github.com/fairway-gpu/fairway/sim/profile"
)

// WorkPlans are the execution plans of a job whose length is a number of steps.
//
// With Config.Plans, measured tables say which plans its model has and how fast they are,
// and Start is all that is needed. Without, Model and Truth do, and the plans are those of
// List, and those that Generate makes and that fit in the memory of the cluster's nodes.
type WorkPlans struct {
	plan.Options
	Truth plan.Params `json:"truth,omitzero"`
	// Start is the plan that its user chose, by its name (plan.Plan.String) or, with
	// measured tables, by theirs. A policy without agents runs the job under it. "": the
	// fastest at the requested size.
	Start string `json:"start,omitempty"`
}

// planned is a job that may run under several plans.
type planned struct {
	name  string
	model plan.Model
	plans []plan.Plan
	table *profile.PlanModel // nil: truth holds
	truth plan.Params
	user  plan.Plan // no GPUs: the fastest
	steps float64
	start launch
	node  int // GPUs of the largest node
}

// PlanCount says how many placements of jobs had measured steps.
type PlanCount struct {
	Measured int `json:"measured"` // starts on a placement that was measured under the plan
	Fitted   int `json:"fitted"`   // starts whose speed is that of a model fitted to the tables
	Changed  int `json:"changed"`  // changes of the plan where the GPUs stayed
}

// planTask is the number of GPUs of a model of the tables that stay together, so that they
// can share layers; others have no such bound.
var planTask = map[string]int{"llama7": 4, "llama30": 4}

func newPlanned(c *Config, w *Work) (*planned, error) {
	t := &planned{name: w.Model, steps: w.Steps, start: c.launchOf(w.Model)}
	room := plan.Room{}
	for _, n := range c.Cluster.Nodes {
		if gpus := n.GPUs; gpus > t.node {
			t.node = gpus
			room = plan.Room{GPUs: gpus, GPU: float64(n.GPUMemory), Host: float64(n.Memory) / float64(gpus)}
		}
	}
	if !(w.Steps > 0) {
		return nil, fmt.Errorf("job %s: steps = %g; a job with plans needs a number of steps above 0", w.ID, w.Steps)
	}
	if c.Plans != nil {
		if err := t.fromTable(c.Plans, w); err != nil {
			return nil, err
		}
		t.load(c)
		return t, nil
	}
	t.model, t.truth = w.Plans.Model, w.Plans.Truth
	if err := w.Plans.Validate(); err != nil {
		return nil, fmt.Errorf("job %s: plans: %w", w.ID, err)
	}
	if err := t.truth.Validate(); err != nil {
		return nil, fmt.Errorf("job %s: plans: truth: %w", w.ID, err)
	}
	job := &sched.Job{Spec: w.Spec}
	for n := job.NextSize(0); n > 0 && n <= c.Cluster.GPUs(); n = job.NextSize(n) {
		t.plans = append(t.plans, w.Plans.On(n, room)...)
		if !slices.ContainsFunc(t.plans, func(p plan.Plan) bool { return p.GPUs() == n && job.Task()%p.Tensor == 0 }) {
			return nil, fmt.Errorf("job %s: plans: none fits on every placement of %d GPUs with task_gpus = %d; want sizes that have one, a larger task_gpus for tensor parallelism, or plans that need less memory", w.ID, n, job.Task())
		}
	}
	t.load(c)
	return t, t.choose(w)
}

// load sets what a start costs, if that depends on the model.
func (t *planned) load(c *Config) {
	if c.Load != nil && len(t.plans) > 0 {
		fewest := slices.MinFunc(t.plans, func(a, b plan.Plan) int { return cmp.Compare(a.GPUs(), b.GPUs()) })
		t.start = launch{c.Load(t.model, fewest.GPUs()), true}
	}
}

// fromTable takes model and plans from measured tables.
func (t *planned) fromTable(tables *profile.Plans, w *Work) error {
	m, ok := tables.Model(w.Model)
	if !ok {
		return fmt.Errorf("job %s: model = %q; the plans are of %v", w.ID, w.Model, tables.Names())
	}
	t.table, t.model = m, m.Model
	for _, p := range m.Plans() {
		if p.GPUs()%max(1, planTask[w.Model]) == 0 {
			t.plans = append(t.plans, p)
		}
	}
	if w.Plans.Start != "" {
		var err error
		if t.user, err = profile.RubickPlan(w.Model, w.Plans.Start, w.GPUs); err != nil {
			return fmt.Errorf("job %s: plans: start: %w", w.ID, err)
		}
	}
	return nil
}

// choose finds the plan that the user named.
func (t *planned) choose(w *Work) error {
	if w.Plans.Start == "" {
		return nil
	}
	for _, p := range t.plans {
		if p.String() == w.Plans.Start && p.GPUs() == w.GPUs {
			t.user = p
			return nil
		}
	}
	return fmt.Errorf("job %s: plans: start = %q; want a plan for %d GPUs, one of %v", w.ID, w.Plans.Start, w.GPUs, t.plans)
}

// accepting returns the job of a table with the sizes that its plans have. Without an
// agent nobody changes the plan of its user, so it keeps its size, and the GPUs that share a
// layer stay together. With one it has the sizes at which some plan fits on every placement;
// if it asked for another, it asks for the next smaller one.
func (t *planned) accepting(w *Work, agents bool) (*Work, error) {
	if t.table == nil {
		return w, nil
	}
	out := *w
	if !agents {
		out.TaskGPUs = t.user.Tensor
		return &out, nil
	}
	out.TaskGPUs = planTask[w.Model]
	for _, p := range t.plans {
		if n := p.GPUs(); max(1, out.TaskGPUs)%p.Tensor == 0 && !slices.Contains(out.Sizes, n) {
			out.Sizes = append(out.Sizes, n)
		}
	}
	slices.Sort(out.Sizes)
	smaller := slices.DeleteFunc(slices.Clone(out.Sizes), func(n int) bool { return n > w.GPUs })
	if len(smaller) == 0 {
		return nil, fmt.Errorf("job %s: gpus = %d; the plans of %s were measured on %v", w.ID, w.GPUs, w.Model, out.Sizes)
	}
	out.GPUs = smaller[len(smaller)-1]
	out.MinGPUs, out.MaxGPUs = out.Sizes[0], out.Sizes[len(out.Sizes)-1]
	return &out, nil
}

func (t *planned) total() float64 { return t.steps }

// step returns the seconds of a step, and whether it was measured.
func (t *planned) step(p plan.Plan, counts []int) (float64, bool) {
	if t.table != nil {
		return t.table.Step(p, counts)
	}
	return t.truth.Step(t.model, p, plan.On(counts...)), true
}

func (t *planned) rate(_ float64, s setting) (rate, until float64, err error) {
	if !s.plan.Fits(plan.On(s.counts()...)) {
		return 0, 0, fmt.Errorf("plan %s does not fit on %v GPUs", s.plan, s.counts())
	}
	step, _ := t.step(s.plan, s.counts())
	return 1 / step, math.Inf(1), nil
}

func (t *planned) restart(_ bool, nodes int) time.Duration { return t.start.on(nodes) }

// users returns the plan of a job without an agent on a placement: that of its user, or the
// fastest.
func (t *planned) users(s setting) (plan.Plan, error) {
	if t.user.GPUs() > 0 && t.user.Fits(plan.On(s.counts()...)) {
		return t.user, nil
	}
	return t.fastest(s.counts(), func(p plan.Plan) float64 {
		step, _ := t.step(p, s.counts())
		return step
	})
}

// fastest returns the plan with the shortest step on a placement.
func (t *planned) fastest(counts []int, step func(plan.Plan) float64) (plan.Plan, error) {
	at, found := plan.On(counts...), plan.Plan{}
	for _, p := range t.plans {
		if p.Fits(at) && (found.GPUs() == 0 || step(p) < step(found)) {
			found = p
		}
	}
	if found.GPUs() == 0 {
		return found, fmt.Errorf("no plan of %s fits on %v GPUs", t.name, counts)
	}
	return found, nil
}
