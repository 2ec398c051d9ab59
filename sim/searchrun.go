// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"math"
	"slices"

	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/tune"
)

// paceOf returns the truth of a trial that is slower by a factor. If trials may stop
// early, it turns at the end of each epoch, so that the trial reports.
func (s *searchApp) paceOf(pace float64) truth {
	t := trialTruth{truth: s.truth, pace: pace, epoch: math.Inf(1)}
	if s.tuner.Rule != tune.None {
		t.epoch = s.truth.total() / float64(s.Problem.Length())
	}
	if tr, ok := s.truth.(trainer); ok {
		return &trialTrainer{tr, t}
	}
	return &t
}

type trialTruth struct {
	truth
	pace  float64
	epoch float64 // work of one; +Inf: it does not report
}

// next returns the work at the end of the current epoch.
func (t *trialTruth) next(done float64) float64 {
	if math.IsInf(t.epoch, 1) {
		return t.epoch
	}
	return (math.Floor(done/t.epoch+1e-9) + 1) * t.epoch
}

func (t *trialTruth) rate(done float64, at setting) (rate, until float64, err error) {
	rate, until, err = t.truth.rate(done, at)
	return rate / t.pace, min(until, t.next(done)), err
}

type trialTrainer struct {
	trainer
	trial trialTruth
}

func (t *trialTrainer) rate(done float64, at setting) (rate, until float64, err error) {
	return t.trial.rate(done, at)
}

func (t *trialTrainer) observe(done float64, at setting) (observation, error) {
	o, err := t.trainer.observe(done, at)
	o.step *= t.trial.pace
	o.sync *= t.trial.pace
	o.until = min(o.until, t.trial.next(done))
	return o, err
}

// readTrial reads the quality of a trial at the end of an epoch, and lets the tuner
// decide.
func (r *run) readTrial(j *job) error {
	s := r.search
	if s == nil || s.tuner.Rule == tune.None {
		return nil
	}
	n, ok := s.number[j]
	if !ok || !s.trials[n].read(s.epochs(j)) {
		return nil
	}
	return r.steer()
}

// epochs returns how many epochs a trial has completed.
func (s *searchApp) epochs(j *job) int {
	return int(math.Floor(j.done/j.truth.total()*float64(s.Problem.Length()) + 1e-9))
}

// read adds the readings up to an epoch; it reports whether there were any.
func (t *trial) read(epochs int) bool {
	before := len(t.curve)
	for e := before + 1; e <= epochs; e++ {
		q := t.Quality(e)
		t.curve = append(t.curve, tune.Reading{Done: float64(e), Value: q})
		t.quality = max(t.quality, q)
	}
	return len(t.curve) > before
}

// trialEnds records the outcome of a trial that ended on its own, and lets the tuner
// decide. The trial is still in the state, so that the app does not end between two
// trials.
func (r *run) trialEnds(j *job, phase sched.Phase) error {
	s := r.search
	if s == nil {
		return nil
	}
	n, ok := s.number[j]
	if !ok || s.trials[n].state != tune.Active {
		return nil
	}
	t := &s.trials[n]
	if t.state = tune.Failed; phase != sched.Failed {
		t.state = tune.Finished
		t.read(s.Problem.Length())
	}
	return r.steer()
}

// steer asks the tuner and carries out its plan.
func (r *run) steer() error {
	s := r.search
	app := tune.App{GPUs: s.AtOnce, AtOnce: s.AtOnce, Trials: s.wanted, Jobs: make([]tune.Job, len(s.trials))}
	for i := range s.trials {
		t := &s.trials[i]
		app.Jobs[i] = tune.Job{
			Number: i, State: t.state, Done: float64(len(t.curve)), Work: float64(s.Problem.Length()),
			Demand: 1, Rung: t.rung, Curve: t.curve,
		}
		if t.state == tune.Active && t.job.state != nil && !t.job.state.Paused {
			app.Jobs[i].Held = 1
		}
	}
	plan := s.tuner.Plan(app)
	if err := r.stage(app); err != nil {
		return err
	}
	for _, u := range plan.Promote {
		s.trials[u.Job].rung = u.Rung
	}
	for range plan.Start {
		if err := r.addTrial(); err != nil {
			return err
		}
	}
	for _, stop := range plan.Stop {
		t := &s.trials[stop.Job]
		t.state, t.why = tune.Stopped, stop.Why
		if err := r.end(t.job, sched.Cancelled); err != nil {
			return err
		}
	}
	for i, share := range plan.Share {
		if t := &s.trials[i]; t.state == tune.Active {
			if err := r.pauseTrial(t.job, share == 0); err != nil {
				return err
			}
		}
	}
	return nil
}

// stage tells the policy what is left of the search.
func (r *run) stage(app tune.App) error {
	s := r.search
	e := sched.Event{Kind: sched.AppStaged, App: s.App}
	for _, p := range s.tuner.Phases(app) {
		e.Stages = append(e.Stages, sched.Stage{Jobs: p.Jobs, Part: p.Iterations / float64(s.Problem.Length())})
	}
	return r.apply(e)
}

// pauseTrial takes a trial off its GPUs until others can be compared with it, or lets
// it go on.
func (r *run) pauseTrial(j *job, pause bool) error {
	if j.state == nil || j.state.Paused == pause {
		return nil
	}
	if j.state.Phase == sched.Running {
		r.leave(j)
	}
	r.dirty = true
	return r.apply(sched.Event{Kind: sched.JobHeld, Job: j.work.ID, Paused: pause})
}

// addTrial submits the next trial.
func (r *run) addTrial() error {
	s := r.search
	next, err := s.suggest(r.start.Add(r.now))
	if err != nil {
		return err
	}
	if _, taken := r.byID[next.work.ID]; taken {
		return fmt.Errorf("trial %s: a job of the workload has that id; ids must differ", next.work.ID)
	}
	// The state numbers jobs by arrival, as r.jobs and the results do: the trial goes
	// before jobs that have not arrived.
	r.jobs = slices.Insert(r.jobs, r.arrived, next)
	for i := r.arrived; i < len(r.jobs); i++ {
		r.jobs[i].result = i
	}
	r.byID[next.work.ID] = next
	r.record.jobs = slices.Insert(r.record.jobs, r.arrived, r.blankResult(r.arrived))
	a := r.record.apps[s.App]
	a.Jobs = append(a.Jobs, r.factsOf(next))
	r.arrived++
	return r.submit(next)
}
