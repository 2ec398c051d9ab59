// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/goodput"
	"github.com/fairway-gpu/fairway/sched/place"
)

// oracle returns a report of the truth, for policies that are compared as if their
// predictions were perfect: the step time on any number of GPUs, packed on as few
// nodes as possible, and the remaining steps, at the batch size the job was submitted
// with. Of a job that saves now and then, only what it has saved counts as done: what a
// stop takes back would otherwise be counted again and again, and a policy could resize
// two jobs back and forth for ever.
func (r *run) oracle(j *job) (*goodput.Report, error) {
	t, ok := j.truth.(trainer)
	if !ok || !r.Oracle {
		return nil, nil
	}
	saved, err := r.saved(j)
	if err != nil {
		return nil, err
	}
	l := t.limits()
	rep := &goodput.Report{Limits: l, Fixed: t.batch(), MostGPUs: max(1, t.batch()/max(1, l.LocalMin)), Left: t.left(saved)}
	if most := r.usable(j); most > 0 {
		rep.MostGPUs = min(rep.MostGPUs, most)
	}
	if j.steps == nil {
		if j.steps, err = r.stepTimes(j, t, min(rep.MostGPUs, r.Cluster.GPUs())); err != nil {
			return nil, err
		}
	}
	rep.Steps = j.steps
	return rep, nil
}

// stepTimes measures the truth on an empty cluster.
func (r *run) stepTimes(j *job, t trainer, most int) ([]float64, error) {
	empty := place.NewFree(r.Cluster)
	steps := make([]float64, 0, most)
	for n := 1; n <= most; n++ {
		mark := empty.Mark()
		p, ok := place.MostFree(empty, &sched.Job{Spec: j.work.Spec}, n)
		empty.Rollback(mark)
		if !ok {
			break
		}
		s := settingOf(r.Cluster, p).under(t)
		if s.config, ok = splitOn(t, s); !ok {
			break
		}
		if n == 1 { // the reference assumes that one GPU accumulates, whatever the batch size
			s.config = accumulated(s.config)
		}
		o, err := t.observe(j.done, s)
		if err != nil {
			return nil, err
		}
		steps = append(steps, o.step+float64(s.config.Accum)*(o.step-o.sync))
	}
	return steps, nil
}

// accumulated splits a batch into two gradients if it is in one.
func accumulated(c goodput.Config) goodput.Config {
	if c.Accum == 0 {
		return goodput.Config{Local: (c.Local + 1) / 2, Accum: 1}
	}
	return c
}
