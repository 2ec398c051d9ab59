// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"math"

	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/goodput"
)

// adjust re-computes the speed of jobs whose neighbours have changed.
func (r *run) adjust() error {
	for _, j := range r.neighbours.disturbed() {
		if err := r.adjustJob(j); err != nil {
			return err
		}
	}
	return nil
}

// adjustJob re-computes the speed of a running job and schedules its next tick.
func (r *run) adjustJob(j *job) error {
	j.settle(r.now)
	rate, until, err := r.rate(j)
	if err != nil {
		return fmt.Errorf("job %s: %w", j.work.ID, err)
	}
	keep, slowdown := r.factor(j)
	j.speed, j.until = rate*keep*r.health(j), until
	j.version++
	r.predictNodeFailure(j)
	if at := r.nextTick(j); at < math.MaxInt64 {
		r.agenda.add(at, j)
	}
	if err := r.tryHere(j); err != nil {
		return err
	}
	if changed, err := r.learnPlan(j); changed || err != nil {
		return err
	}
	perf, err := r.perf(j)
	if err != nil {
		return fmt.Errorf("job %s: %w", j.work.ID, err)
	}
	if r.starting(j) {
		return r.tell(j, 0, 0, perf) // its speed is unknown until it has loaded
	}
	return r.tell(j, j.speed, slowdown, perf)
}

// tell reports the progress of a job, in the unit it was submitted with.
func (r *run) tell(j *job, rate, slowdown float64, perf *goodput.Report) error {
	return r.state.Apply(sched.Event{
		At: r.start.Add(max(r.now, j.held)), Kind: sched.JobReported, Job: j.work.ID,
		Done: j.done * j.unit, Rate: rate * j.unit, Perf: perf, Slowdown: slowdown,
	})
}

// rate returns the speed of a job where it runs, without interference.
func (r *run) rate(j *job) (rate, until float64, err error) {
	if j.agent == nil {
		return j.truth.rate(j.done, j.setting)
	}
	t := j.truth.(trainer)
	if j.seen, err = t.observe(j.done, j.setting); err != nil {
		return 0, 0, err
	}
	return j.seen.rate(j.setting, t.limits()), j.seen.until, nil
}

// perf returns the job's report about its speed; nil: none.
func (r *run) perf(j *job) (*goodput.Report, error) {
	if j.agent != nil {
		return j.agent.report, nil
	}
	if j.planner != nil {
		return j.planner.report, nil
	}
	if t, ok := j.truth.(*recorded); ok && len(t.regimes) > 0 {
		report := t.report(j.done)
		if j.tried != nil {
			report.StepTimes = j.tried.StepTimes
		}
		return report, nil
	}
	if j.tried != nil {
		return j.tried, nil
	}
	return r.oracle(j)
}
