// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/goodput"
	"github.com/fairway-gpu/fairway/sched/plan"
)

// A job with execution plans has them in its report (goodput.Report.Plans) from its
// submission on, with what is known of their speed, so that policies choose its GPUs by
// them. Each attempt runs under the fastest plan for its GPUs.

// keepPlanned leaves a new job only the sizes that it has a plan for, and refuses one that
// has none.
func (m *memory) keepPlanned(s *api.Submission) error {
	if s.Plans == nil {
		return nil
	}
	if m.state.Cluster().GPUs() == 0 { // as for a moment after a start of the operator
		return api.Errorf(api.Unavailable, "no node with GPUs is known, so nobody can say which of them fit").On("plans").Try("try again when there is one")
	}
	var sizes []int
	for _, n := range sizesOf(&s.Spec, m.state.Cluster().GPUs()) {
		if len(m.planned(&s.Task, &sched.Spec{GPUs: n}).Plans) > 0 {
			sizes = append(sizes, n)
		}
	}
	if len(sizes) == 0 {
		return api.Errorf(api.Invalid, "none fits on the GPUs that the job asks for%s", m.tooLarge(s)).On("plans").
			Try("list a plan for one of its sizes (fsdp4 is for 4 GPUs), ask for other sizes, or generate plans that need less memory (zero-offload, accumulate, recompute)")
	}
	if s.MaxGPUs > s.MinGPUs {
		s.MinGPUs, s.MaxGPUs, s.Sizes = sizes[0], sizes[len(sizes)-1], sizes
		if i, found := slices.BinarySearch(sizes, s.GPUs); !found {
			s.GPUs = sizes[max(0, i-1)]
		}
	}
	return nil
}

// sizesOf returns the sizes that a job may have, up to the most that there are GPUs for.
func sizesOf(s *sched.Spec, most int) []int {
	if s.MaxGPUs <= s.MinGPUs {
		return []int{s.GPUs}
	}
	j := &sched.Job{Spec: *s}
	j.Protected = false // whether it has shown that it can be resized does not matter here
	var out []int
	for n := j.NextSize(0); n > 0 && n <= most; n = j.NextSize(n) {
		out = append(out, n)
	}
	return out
}

// tooLarge says how much memory the plan needs that needs the least, if that is the reason
// why none fits.
func (m *memory) tooLarge(s *api.Submission) string {
	least, name, have := 0.0, "", 0.0
	for _, n := range m.state.Cluster().Nodes {
		have = max(have, float64(n.GPUMemory))
		for _, gpus := range sizesOf(&s.Spec, m.state.Cluster().GPUs()) {
			for _, p := range s.Plans.On(gpus, plan.Room{GPUs: n.GPUs}) {
				if need, _ := s.Plans.Model.Memory(p); name == "" || need < least {
					least, name = need, p.String()
				}
			}
		}
	}
	if name == "" || have == 0 {
		return ""
	}
	return fmt.Sprintf(": %s needs about %.3g GB on each GPU or much of the host's memory, and the GPUs have %.3g GB", name, least/1e9, have/1e9)
}

// planned returns what is known of the plans of a job before it has run, by GPU type; nil:
// it has one way to train.
func (m *memory) planned(task *api.Task, spec *sched.Spec) *goodput.Report {
	if task.Plans == nil {
		return nil
	}
	model := task.Plans.Model
	r := &goodput.Report{Plans: map[string]*plan.Choice{}, Fixed: model.Batch}
	for _, n := range m.state.Cluster().Nodes {
		t := string(n.Type)
		if n.State == sched.Down || n.GPUs == 0 || r.Plans[t] != nil && r.Plans[t].Node >= n.GPUs {
			continue
		}
		c := &plan.Choice{Model: model, Params: plan.Prior(model), Node: n.GPUs}
		room := plan.Room{GPUs: n.GPUs, GPU: float64(n.GPUMemory), Host: float64(n.Memory) / float64(n.GPUs)}
		for _, gpus := range sizesOf(spec, m.state.Cluster().GPUs()) {
			c.Plans = append(c.Plans, task.Plans.On(gpus, room)...)
		}
		if len(c.Plans) > 0 {
			r.Plans[t] = c
			r.UsableGPUs = max(r.UsableGPUs, c.Largest())
		}
	}
	r.MostGPUs = r.UsableGPUs
	return r
}

// choices returns the plans of a job, by GPU type.
func (x *entry) choices() map[string]*plan.Choice {
	if x.Task.Plans == nil || x.Job.Perf == nil {
		return nil
	}
	return x.Job.Perf.Plans
}

// choice returns the plans of a job on the GPUs of a placement, and what they see of it;
// nil: it has none there.
func (m *memory) choice(x *entry, p sched.Placement) (*plan.Choice, plan.Place) {
	var counts []int
	for _, s := range p {
		counts = append(counts, s.GPUs.Len())
	}
	return x.choices()[m.gpuType(p)], plan.On(counts...)
}

// planFor returns the plan for a placement; nil: the job has none there.
func (m *memory) planFor(x *entry, p sched.Placement) *plan.Plan {
	c, at := m.choice(x, p)
	if c == nil {
		return nil
	}
	best, _, ok := c.Best(at)
	if !ok {
		return nil
	}
	return &best
}

// fitPlans is fit for a job with plans: its steps say how fast all of its plans are.
func (t *tx) fitPlans(x *entry, now *api.Training) (*goodput.Report, error) {
	perf := &goodput.Report{
		Limits: now.Limits, Fixed: cmp.Or(now.Fixed, x.Task.Plans.Model.Batch), Noise: now.Noise, Stop: now.Stop,
		Plans: maps.Clone(x.choices()), Restart: x.awayForMove(),
	}
	c, at := t.mem.choice(x, x.Job.Placement)
	if step := meanStep(now.Samples, at.GPUs); c != nil && x.Plan != nil && step > 0 {
		sample := plan.Sample{Plan: *x.Plan, At: at, Step: step}
		if now.Parts != nil {
			sample.Parts = *now.Parts
		}
		next, err := c.Measured(sample)
		if err != nil {
			return nil, api.Errorf(api.Invalid, "%w", err).On("training.samples")
		}
		perf.Plans[t.mem.gpuType(x.Job.Placement)] = next
	}
	for _, c := range perf.Plans {
		perf.UsableGPUs = max(perf.UsableGPUs, c.Largest())
	}
	perf.MostGPUs = perf.UsableGPUs
	if err := perf.Validate(); err != nil {
		return nil, api.Errorf(api.Invalid, "%w", err).On("training")
	}
	return perf, nil
}

// meanStep returns the mean time of the steps of a report on so many GPUs; 0: it has none.
func meanStep(samples []goodput.Sample, gpus int) float64 {
	sum, count := 0.0, 0.0
	for _, s := range samples {
		if s.GPUs == gpus {
			sum, count = sum+s.Step*s.Count, count+s.Count
		}
	}
	if !(count > 0) {
		return 0
	}
	return sum / count
}

const (
	// A change of plan must save more than so many times what it costs.
	replanGain = 2
	// A job that was stopped before trains so many times as long as that took, before it
	// is stopped for another plan.
	replanPause = 10
	// replanCost is what a change costs a job that has not been moved yet, in seconds.
	replanCost = 30
)

// replan starts a running job anew on the GPUs that it has, if its measured steps say that
// another plan would be faster by more than the change costs.
func (t *tx) replan(x *entry) error {
	j := x.Job
	c, at := t.mem.choice(x, j.Placement)
	if c == nil || x.Plan == nil || j.Pinned() || j.SaveFailed || j.Screening || len(x.Open) != 1 || !t.takesWork(j.Placement) {
		return nil
	}
	now, measured := c.Step(*x.Plan, at)
	best, step, ok := c.Best(at)
	cost := cmp.Or(x.awayForMove(), replanCost)
	if !measured || !ok || best == *x.Plan || j.Starts > 1 && t.now.Sub(j.Since).Seconds() < replanPause*cost {
		return nil
	}
	left := max(0, x.whole()-j.DoneBy(t.now)) / float64(max(1, j.Perf.Fixed))
	if saved := left * (now - step); !(saved > replanGain*cost) {
		return nil
	}
	why := fmt.Sprintf("changes its plan from %s, %s, to %s, %s expected", x.Plan, stepText(now), best, stepText(step))
	to := j.Placement
	if err := t.add(api.Record{Actor: "scheduler", Text: why, Event: &sched.Event{Kind: sched.JobStopped, Job: j.ID, Moving: true, Text: why}}); err != nil {
		return err
	}
	text := "starts on " + to.Text(t.mem.state.Cluster()) + ", plan " + best.String()
	t.decides = true
	return t.add(api.Record{Actor: "scheduler", Text: text, Plan: &best, Event: &sched.Event{Kind: sched.JobStarted, Job: j.ID, Placement: to, Text: text}})
}
