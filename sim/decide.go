// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"time"

	"github.com/fairway-gpu/fairway/sched"
)

// patience is the number of decisions without an arrival or an end after which a run
// fails: more than two months at one per minute.
const patience = 100_000

// decide calls the policy and carries out its plan.
func (r *run) decide() error {
	r.dirty = false
	if h := r.hardware; h != nil {
		r.state.Expect(h.outages(r.now, len(r.Cluster.Nodes)))
	}
	s := r.state.Snapshot(r.start.Add(r.now))
	before := r.elapsed()
	actions, plan, err := sched.Decide(r.Policy, s)
	if err != nil {
		return err
	}
	if r.Elapsed != nil {
		r.spent = append(r.spent, (r.elapsed() - before).Seconds())
	}
	r.decisions++
	if r.decisions-r.lastChange > patience {
		return fmt.Errorf("no job arrived or ended in %d decisions, until %s of simulated time: the policy stops jobs faster than they restart", patience, r.now)
	}
	r.wake = 0
	if !plan.Wake.IsZero() {
		r.wake = max(r.now+1, plan.Wake.Sub(r.start))
	}
	r.logDecision(s, actions, plan)
	r.recordTrades(plan.Ledger)
	if err := r.remember(s, plan); err != nil {
		return err
	}
	for _, a := range actions {
		if err := r.carryOut(a); err != nil {
			return err
		}
	}
	if err := r.adjust(); err != nil {
		return err
	}
	r.record.sample(r)
	return nil
}

func (r *run) elapsed() time.Duration {
	if r.Elapsed == nil {
		return 0
	}
	return r.Elapsed()
}

// jobOf returns the simulator's record of a job: jobs are submitted in the order of
// r.jobs, and Seq counts submissions.
func (r *run) jobOf(j *sched.Job) *job { return r.jobs[j.Seq] }

// remember stores the policy's notes, and why jobs wait for their first start.
func (r *run) remember(s *sched.Snapshot, plan sched.Plan) error {
	for i, sj := range s.Jobs {
		if plan.Notes != nil && plan.Notes[i] != sj.Note {
			if err := r.apply(sched.Event{Kind: sched.JobNoted, Job: sj.ID, Note: plan.Notes[i]}); err != nil {
				return err
			}
		}
		if sj.FirstStart.IsZero() {
			r.jobOf(sj).wait(r.now, plan.Why[i].Code)
		}
	}
	return nil
}

func (r *run) carryOut(a sched.Action) error {
	j := r.jobOf(a.Job)
	if a.Verb == sched.Stop {
		if !a.Suspend {
			if err := r.dropUnsaved(j); err != nil {
				return fmt.Errorf("job %s: %w", a.Job.ID, err)
			}
		}
		j.left = r.now
		r.leave(j)
		return r.apply(sched.Event{Kind: sched.JobStopped, Job: a.Job.ID, Moving: a.Moving, Suspend: a.Suspend})
	}
	first := j.firstStart()
	cost := j.truth.restart(first, len(a.To))
	switch {
	case first:
	case j.hardware != nil && j.hardware.recovery > 0:
		cost, j.hardware.recovery = j.hardware.recovery, 0
	case r.sameShape(j, a.To):
		cost = max(0, j.held-r.now)
	case a.Job.Suspended.Equal(a.To):
		cost = resumeCost
		if j.plain { // by the driver of the GPU, which moves all of its memory
			out, back := a.Job.SuspendCost()
			cost = max(cost, out+back)
		}
	case j.plain:
		r.restartFromZero(j)
	}
	r.waited(j)
	if err := r.apply(sched.Event{Kind: sched.JobStarted, Job: a.Job.ID, Placement: a.To, Screening: a.Screening}); err != nil {
		return err
	}
	var err error
	if j.setting, err = r.prepare(j, a.To); err != nil {
		return fmt.Errorf("job %s: %w", a.Job.ID, err)
	}
	j.settled, j.held, j.restored = r.now, r.now+cost, j.done
	if j.agent != nil && cost > 0 {
		j.agent.restart = cost.Seconds()
	}
	r.neighbours.add(j)
	r.record.start(r, j)
	return r.adjustJob(j)
}

// prepare returns the setting of a job on new GPUs; its agent, if there is one,
// chooses the batch size.
func (r *run) prepare(j *job, p sched.Placement) (setting, error) {
	s := settingOf(r.Cluster, p).under(j.truth)
	if t, ok := j.truth.(*planned); ok {
		return r.plan(j, t, s)
	}
	if j.agent == nil {
		return s.split(j.truth)
	}
	var ok bool
	if s.config, ok = j.agent.choose(s); !ok {
		return s, fmt.Errorf("its batch cannot be split over %d GPUs", s.gpus)
	}
	j.reports = r.now.Truncate(r.Agent) + r.Agent
	return s, nil
}
