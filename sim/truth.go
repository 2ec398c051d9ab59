// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"cmp"
	"fmt"
	"math"
	"time"

	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/goodput"
	"github.com/fairway-gpu/fairway/sched/place"
	"github.com/fairway-gpu/fairway/sched/plan"
)

// truth is how fast a job really trains, without interference.
type truth interface {
	// total is the work of the job, in the truth's own unit.
	total() float64
	// rate returns the work done per second from that point on, and the point at
	// which the rate changes on its own (+Inf: never).
	rate(done float64, s setting) (rate, until float64, err error)
	// restart is the duration of a start on that many nodes, without progress.
	restart(first bool, nodes int) time.Duration
}

// trainer is a truth that knows how the batch size changes the speed, so that an
// agent can measure and tune it.
type trainer interface {
	truth
	limits() goodput.Limits
	// limitsOn are those on a placement.
	limitsOn(s setting) goodput.Limits
	// batch is the batch size the job was submitted with.
	batch() int
	// observe returns what an agent measures at that point of the training.
	observe(done float64, s setting) (observation, error)
	// gain is the work that an optimiser step at a batch size does at that point.
	gain(done float64, batch int) (float64, error)
	// loss is the loss at that point at a batch size, relative to that of the first
	// step.
	loss(done float64, batch int) (float64, error)
	// left is the number of optimiser steps to the end at the submitted batch
	// size.
	left(done float64) float64
}

// observation is what an agent measures.
type observation struct {
	step, sync    float64 // seconds of an optimiser step, and of the part of it that exchanges gradients
	sqr, variance float64 // gradient statistics
	until         float64 // work at which they change; the agent does not see it
	base          int     // batch size of which an iteration counts as one; 0: the initial one
	slowdown      float64 // the job is this many times slower than its steps say; 0: it is not
}

// rate returns the progress per second of an observation: iterations at the initial
// batch size.
func (o observation) rate(s setting, l goodput.Limits) float64 {
	slower := cmp.Or(o.slowdown, 1)
	return o.gain(s.config.Batch(s.replicas()), l) / (o.step + float64(s.config.Accum)*(o.step-o.sync)) / slower
}

// gain returns the progress of one optimiser step at a batch size.
func (o observation) gain(batch int, l goodput.Limits) float64 {
	scale := float64(batch) / float64(cmp.Or(o.base, l.Initial))
	return (o.variance + o.sqr) / (o.variance/scale + o.sqr)
}

// setting is what a job runs on.
type setting struct {
	placement sched.Placement
	gpus      int
	level     sched.Level
	gpuType   sched.GPUType
	unit      int            // GPUs of one replica; 0: one
	config    goodput.Config // how the batch is split; only a trainer needs it
	plan      plan.Plan      // only of a job with plans
}

// shape is the part of a setting that the throughput model uses.
func (s setting) shape() goodput.Shape {
	return goodput.Shape{Nodes: len(s.placement), GPUs: s.replicas(), CrossRack: s.level == sched.CrossRack}
}

// split sets the batch of a job that does not adapt it.
func (s setting) split(t truth) (setting, error) {
	if p, ok := t.(*planned); ok {
		var err error
		s.plan, err = p.users(s)
		return s, err
	}
	tr, ok := t.(trainer)
	if !ok {
		return s, nil
	}
	s = s.under(t)
	if s.config, ok = splitOn(tr, s); !ok {
		return s, fmt.Errorf("batch size %d cannot be split over %d GPUs", tr.batch(), s.gpus)
	}
	return s, nil
}

// splitOn divides the batch that a job was submitted with. In pipelines it follows from
// their number.
func splitOn(t trainer, s setting) (goodput.Config, bool) {
	if s.gpus%max(1, s.unit) != 0 {
		return goodput.Config{}, false
	}
	l, batch := t.limitsOn(s), t.batch()
	if s.unit > 1 {
		batch = l.LocalMin * s.replicas()
	}
	return goodput.Split(batch, s.replicas(), l)
}

func settingOf(c *sched.Cluster, p sched.Placement) setting {
	return setting{
		placement: p, gpus: p.GPUs(), level: c.Level(p),
		gpuType: c.Nodes[p[0].Node].Type,
	}
}

// truthOf returns the truth about a job.
func (c *Config) truthOf(w *Work) (truth, error) {
	if w.Plans != nil {
		return newPlanned(c, w)
	}
	if c.Profiles != nil && w.RunTime == 0 {
		return newMeasured(c, w)
	}
	if c.Throughputs != nil && w.Steps > 0 && len(w.Regimes) == 0 {
		return newStepped(c, w)
	}
	if w.RunTime > 0 || len(w.Regimes) > 0 {
		return newRecorded(c, w), w.CheckRegimes()
	}
	m, ok := c.Zoo.Model(w.Model)
	if !ok {
		return nil, fmt.Errorf("job %s: model = %q and no run_time; want a run_time or a model of %v", w.ID, w.Model, c.Zoo.Names())
	}
	return newFitted(c, m, w)
}

// alone returns the seconds a job takes alone on the cluster with that many GPUs, as
// well placed as possible and at the batch size it was submitted with. It is +Inf if
// the cluster cannot host it.
func alone(t truth, w *Work, empty *place.Free, gpus int) (float64, error) {
	mark := empty.Mark()
	defer empty.Rollback(mark)
	p, ok := empty.Within(&sched.Job{Spec: w.Spec}, gpus, sched.CrossRack)
	if !ok {
		return math.Inf(1), nil
	}
	s, err := settingOf(empty.Cluster(), p).split(t)
	if err != nil {
		return 0, fmt.Errorf("job %s: %w", w.ID, err)
	}
	seconds := t.restart(true, len(p)).Seconds()
	for _, f := range w.Failures {
		seconds += f.After.D().Seconds() / pace(t, s)
	}
	if w.Outcome == sched.Failed && len(w.Failures) > 0 {
		return seconds, nil
	}
	for done := 0.0; done < t.total(); {
		rate, until, err := t.rate(done, s)
		if err != nil {
			return 0, fmt.Errorf("job %s: %w", w.ID, err)
		}
		until = min(until, t.total())
		if !(rate > 0) || until <= done {
			return 0, fmt.Errorf("job %s: no progress at %g of %g on %s", w.ID, done, t.total(), p.Text(empty.Cluster()))
		}
		seconds += (until - done) / rate
		done = until
	}
	return seconds, nil
}
