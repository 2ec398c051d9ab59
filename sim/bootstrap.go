// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"math"
	"slices"

	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/goodput"
)

// bootstrap returns the step time of a new job on every GPU type that it accepts, or
// nil in a cluster of one type.
//
// With exact estimates it is what a short trial on one GPU of each type would
// measure, as Sia does at submission. A job without a batch size to split is tried at
// the size it asked for, and its step is a second's worth of work. Trials take no
// time: they are short compared with the job, and Sia does not count them either.
// With other estimates only the speedups of other models between types are known: the
// times are borrowed from them, except on types that the job has run on.
func (r *run) bootstrap(j *job, fixed bool) ([]goodput.StepTime, error) {
	if m, ok := j.truth.(*measured); ok && m.sia {
		return r.siaTrials(j, fixed)
	}
	if len(r.Cluster.Types) < 2 {
		return nil, nil
	}
	var out []goodput.StepTime
	var own tally // own step times over borrowed ones
	for _, gpuType := range r.Cluster.Types {
		s, ok := r.trial(j, gpuType)
		if !ok {
			continue
		}
		step := goodput.StepTime{Type: string(gpuType), Nodes: len(s.placement), GPUs: s.gpus, Batch: max(1, s.config.Batch(s.replicas()))}
		borrowed, known := r.borrowed(j, gpuType)
		if _, exact := j.truth.(*stepped); exact || r.Estimates == Exact || j.ranOn[gpuType] {
			var err error
			if step.Time, err = trialTime(j.truth, s); err != nil {
				return nil, fmt.Errorf("job %s: %w", j.work.ID, err)
			}
			if known {
				own.add(step.Time / borrowed)
			}
		} else if step.Time, step.Borrowed = borrowed, true; !known {
			continue
		}
		out = append(out, step)
	}
	return own.scale(out), nil
}

// borrowed returns the step time on a type relative to the first type that the job
// accepts: the mean over all other models.
func (r *run) borrowed(j *job, gpuType sched.GPUType) (factor float64, ok bool) {
	var others tally
	if m, ok := j.truth.(*measured); ok && m.types != nil {
		return r.borrowedFromTables(j, gpuType)
	}
	for _, name := range r.Zoo.Names() {
		m, _ := r.Zoo.Model(name)
		here, ok1 := m.StepTimeOn(gpuType)
		there, ok2 := m.StepTimeOn(r.reference(j.work))
		if ok1 && ok2 && name != j.work.Model {
			others.add(here / there)
		}
	}
	return others.mean(), others.n > 0
}

// tally is a geometric mean; without values it is 1.
type tally struct{ logs, n float64 }

func (t *tally) add(x float64) {
	t.logs += math.Log(x)
	t.n++
}

func (t *tally) mean() float64 { return math.Exp(t.logs / max(1, t.n)) }

// scale multiplies the borrowed times by the mean.
func (t *tally) scale(steps []goodput.StepTime) []goodput.StepTime {
	for i := range steps {
		if steps[i].Borrowed {
			steps[i].Time *= t.mean()
		}
	}
	return steps
}

// trial returns the setting of a job's trial; ok is false if it cannot run on the
// type.
func (r *run) trial(j *job, gpuType sched.GPUType) (s setting, ok bool) {
	n := j.work.GPUs
	if _, trains := j.truth.(trainer); trains {
		n = 1
	}
	if m, ok := j.truth.(*measured); ok {
		n = m.on(gpuType).Unit()
	}
	if s, ok = r.placed(j, gpuType, n); !ok {
		return s, false
	}
	s, err := s.split(j.truth)
	return s, err == nil
}

// placed returns the setting of a job alone on that many GPUs of a type; ok is false if
// it cannot run there.
func (r *run) placed(j *job, gpuType sched.GPUType, n int) (s setting, ok bool) {
	job := &sched.Job{Spec: j.work.Spec}
	if !job.Accepts(gpuType) {
		return s, false
	}
	job.GPUTypes = []sched.GPUType{gpuType}
	if n == 1 {
		job.TaskGPUs = 1
	}
	mark := r.empty.Mark()
	defer r.empty.Rollback(mark)
	p, ok := r.empty.Within(job, n, sched.CrossRack)
	if !ok {
		return s, false
	}
	return settingOf(r.Cluster, p), true
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

// trialReport returns the report of a job without an agent: its trials.
func (r *run) trialReport(j *job) (*goodput.Report, error) {
	if !r.CoAdapt {
		return nil, nil
	}
	tried, err := r.bootstrap(j, true)
	if err != nil {
		return nil, err
	}
	out := &goodput.Report{MostGPUs: max(j.work.GPUs, j.work.MaxGPUs), StepTimes: tried}
	if s, ok := j.truth.(*stepped); ok {
		out.Kind, out.Beside = s.kind.String(), s.table.besides(s.kind, r.Cluster.Types)
	} else if len(tried) == 0 {
		return nil, nil
	}
	return out, nil
}

// tryHere adds the measured speed of a job without an agent on the GPU type that it
// now runs on.
func (r *run) tryHere(j *job) (err error) {
	if j.tried == nil || r.Estimates == Exact || r.starting(j) || j.ranOn[j.setting.gpuType] {
		return nil
	}
	if j.ranOn == nil {
		j.ranOn = map[sched.GPUType]bool{}
	}
	j.ranOn[j.setting.gpuType] = true
	j.tried, err = r.trialReport(j)
	return err
}

// withTrials returns the measured step times and the agent's trials, with measurement
// noise, of settings that it has not measured since.
func (a *agent) withTrials(measured []goodput.StepTime) []goodput.StepTime {
	var own tally
	var more []goodput.StepTime
	for _, t := range a.trials {
		seen := slices.IndexFunc(measured, func(m goodput.StepTime) bool {
			return m.Type == t.Type && m.Nodes == t.Nodes && m.GPUs == t.GPUs
		})
		if seen >= 0 {
			own.add(measured[seen].Time / t.Time)
		} else {
			more = append(more, t)
		}
	}
	return append(slices.Clip(measured), own.scale(more)...)
}

// reference returns the GPU type on which a run time is assumed to be recorded: the
// first of the cluster that the job accepts.
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
