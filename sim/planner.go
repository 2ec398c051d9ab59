// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"

	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/goodput"
	"github.com/fairway-gpu/fairway/sched/plan"
)

// planner is what the agents of all jobs of a model know about its plans: they share what
// they measure. It begins with a short profiling: a few steps of each kind of plan of
// measured tables, else one step under the first plan. The profiling takes no time.
type planner struct {
	truth   *planned
	samples []plan.Sample
	known   map[knownStep]float64 // measured where a job ran
	choice  *plan.Choice
	report  *goodput.Report
}

// knownStep is a plan on a placement.
type knownStep struct {
	plan plan.Plan
	at   plan.Place
}

// plannerKey is what jobs have in common that share a planner.
type plannerKey struct {
	name  string
	model plan.Model
}

// newPlanner returns the planner of a job; nil: it has one plan, or no agent.
func (r *run) newPlanner(j *job) (*planner, error) {
	t, ok := j.truth.(*planned)
	if !ok || !r.CoAdapt || j.plain {
		return nil, nil
	}
	key := plannerKey{t.name, t.model}
	if p := r.planners[key]; p != nil {
		return p, nil
	}
	p := &planner{truth: t, known: map[knownStep]float64{}}
	if t.table != nil {
		p.samples = t.table.Trials()
	} else {
		first := t.plans[0]
		at := (&plan.Choice{Node: t.node}).Packed(first.GPUs(), 1)
		p.samples = []plan.Sample{{Plan: first, At: at, Step: t.truth.Step(t.model, first, at)}}
	}
	if r.planners == nil {
		r.planners = map[plannerKey]*planner{}
	}
	r.planners[key] = p
	return p, p.fit(r)
}

// fit makes a new report from all samples.
func (p *planner) fit(r *run) error {
	q, err := plan.Fit(p.truth.model, p.samples)
	if err != nil {
		return err
	}
	p.choice = &plan.Choice{Model: p.truth.model, Params: q, Plans: p.truth.plans, Node: p.truth.node}
	batch, most := p.truth.model.Batch, p.choice.Largest()
	p.report = &goodput.Report{
		Plans: map[string]*plan.Choice{}, Fixed: batch, MostGPUs: most, UsableGPUs: most,
		Limits:  goodput.Limits{Initial: batch, Max: batch, LocalMin: 1, LocalMax: batch},
		Restart: p.truth.restart(false, 1).Seconds(),
	}
	for _, t := range r.Cluster.Types {
		p.report.Plans[string(t)] = p.choice
	}
	return nil
}

// step returns the expected time of a step: as measured there, else by the model.
func (p *planner) step(x plan.Plan, at plan.Place) float64 {
	if step, ok := p.known[knownStep{x, at}]; ok {
		return step
	}
	return p.choice.Params.Step(p.choice.Model, x, at)
}

// best returns the plan for a placement.
func (p *planner) best(counts []int) (plan.Plan, error) {
	at := plan.On(counts...)
	return p.truth.fastest(counts, func(x plan.Plan) float64 { return p.step(x, at) })
}

// learnPlan takes in what a running job measures. If another plan would then save more on
// the rest of the job than twice what the change costs, a restart, the job changes.
func (r *run) learnPlan(j *job) (changed bool, err error) {
	p := j.planner
	if p == nil || r.now < j.held {
		return false, nil
	}
	at, counts := plan.On(j.setting.counts()...), j.setting.counts()
	key := knownStep{j.setting.plan, at}
	step, _ := p.truth.step(j.setting.plan, counts)
	if old, ok := p.known[key]; ok && old == step {
		return false, nil
	}
	p.known[key] = step
	p.samples = append(p.samples, plan.Sample{Plan: j.setting.plan, At: at, Step: step})
	if err := p.fit(r); err != nil {
		return false, fmt.Errorf("job %s: %w", j.work.ID, err)
	}
	if err := r.spread(p); err != nil {
		return false, err
	}
	next, err := p.best(counts)
	if err != nil {
		return false, fmt.Errorf("job %s: %w", j.work.ID, err)
	}
	cost := j.truth.restart(false, len(counts))
	if saved := (j.truth.total() - j.done) * (step - p.step(next, at)); saved <= 2*cost.Seconds() {
		return false, nil
	}
	j.setting.plan = next
	j.held = r.now + cost
	r.record.lostGPU += cost.Seconds() * j.gpuShare()
	r.planCount.Changed++
	return true, r.adjustJob(j)
}

// spread tells the policy what is new about waiting jobs of a model; running ones report
// with their next change.
func (r *run) spread(p *planner) error {
	for _, j := range r.jobs[:r.arrived] {
		if j.planner != p || j.state == nil || j.state.Phase != sched.Pending {
			continue
		}
		if err := r.apply(sched.Event{Kind: sched.JobReported, Job: j.work.ID, Done: j.state.Done, Perf: p.report}); err != nil {
			return err
		}
	}
	return nil
}

// plan chooses the plan of a job on new GPUs.
func (r *run) plan(j *job, t *planned, s setting) (setting, error) {
	var err error
	if j.planner != nil {
		s.plan, err = j.planner.best(s.counts())
	} else {
		s.plan, err = t.users(s)
	}
	if err != nil {
		return s, err
	}
	if _, measured := t.step(s.plan, s.counts()); measured {
		r.planCount.Measured++
	} else {
		r.planCount.Fitted++
	}
	return s, nil
}
