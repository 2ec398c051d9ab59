// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"slices"

	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/goodput"
)

// bootstrap returns what a short trial of a new job on every type of GPU that it
// accepts would measure, as Sia does at submission: the time of a step on one
// GPU. A job without a batch size to split is tried at the size it asked for, and
// its step is a second's worth of work. In a cluster of one type there is nothing
// to compare, and no trial. The trials take no time: they are short against the
// life of a job, and Sia does not count them either.
func (r *run) bootstrap(j *job) ([]goodput.StepTime, error) {
	if len(r.Cluster.Types) < 2 {
		return nil, nil
	}
	var out []goodput.StepTime
	for _, gpuType := range r.Cluster.Types {
		s, ok := r.trial(j, gpuType)
		if !ok {
			continue
		}
		time, err := trialTime(j.truth, s)
		if err != nil {
			return nil, fmt.Errorf("job %s: %w", j.work.ID, err)
		}
		out = append(out, goodput.StepTime{
			Type: string(gpuType), Nodes: len(s.placement), GPUs: s.gpus, Batch: max(1, s.config.Batch(s.gpus)), Time: time,
		})
	}
	return out, nil
}

// trial returns what a job is tried on; ok is false if it cannot run there.
func (r *run) trial(j *job, gpuType sched.GPUType) (s setting, ok bool) {
	job := &sched.Job{Spec: j.work.Spec}
	if !job.Accepts(gpuType) {
		return s, false
	}
	job.GPUTypes = []sched.GPUType{gpuType}
	n := job.GPUs
	if _, trains := j.truth.(trainer); trains {
		n, job.TaskGPUs = 1, 1
	}
	mark := r.empty.Mark()
	defer r.empty.Rollback(mark)
	p, ok := r.empty.Within(job, n, sched.CrossRack)
	if !ok {
		return s, false
	}
	s, err := settingOf(r.Cluster, p).split(j.truth)
	return s, err == nil
}

// trialTime returns the time of a step, or of a unit of work.
func trialTime(t truth, s setting) (float64, error) {
	if t, ok := t.(trainer); ok {
		o, err := t.observe(0, s)
		return o.step + float64(s.config.Accum)*(o.step-o.sync), err
	}
	rate, _, err := t.rate(0, s)
	return 1 / rate, err
}

// trialReport is what a job without an agent can tell: its trials.
func (r *run) trialReport(j *job) (*goodput.Report, error) {
	if !r.CoAdapt {
		return nil, nil
	}
	tried, err := r.bootstrap(j)
	if len(tried) == 0 || err != nil {
		return nil, err
	}
	return &goodput.Report{MostGPUs: max(j.work.GPUs, j.work.MaxGPUs), StepTimes: tried}, nil
}

// withTrials returns the trials of an agent, blurred like all it measures, that
// say more than what it has measured since.
func (a *agent) withTrials(measured []goodput.StepTime) []goodput.StepTime {
	out := measured
	for _, t := range a.trials {
		seen := slices.ContainsFunc(measured, func(m goodput.StepTime) bool {
			return m.Type == t.Type && m.Nodes == t.Nodes && m.GPUs == t.GPUs
		})
		if !seen {
			out = append(slices.Clip(out), t)
		}
	}
	return out
}

// reference returns the type of GPU that a recorded run time is taken to be of:
// the first of the cluster's that the job would take.
func (c *Config) reference(w *Work) sched.GPUType {
	if len(w.GPUTypes) == 0 && len(c.Cluster.Types) > 0 {
		return c.Cluster.Types[0]
	}
	for _, t := range w.GPUTypes {
		if slices.Contains(c.Cluster.Types, t) {
			return t
		}
	}
	return ""
}
