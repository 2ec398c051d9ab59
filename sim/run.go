// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"time"

	"github.com/fairway-gpu/fairway/policy/interfere"
	"github.com/fairway-gpu/fairway/predict/experience"
	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/goodput"
	"github.com/fairway-gpu/fairway/sched/place"
)

// Run replays the workload.
func Run(c Config, w *Workload) (*Result, Timing, error) {
	if err := c.check(); err != nil {
		return nil, Timing{}, err
	}
	if c.Suspends {
		var err error
		if c.Cluster, err = suspending(c.Cluster); err != nil {
			return nil, Timing{}, err
		}
	}
	r, err := newRun(c, w)
	if err != nil {
		return nil, Timing{}, err
	}
	if err := r.loop(); err != nil {
		return nil, Timing{}, err
	}
	res := r.finish(w)
	r.reportCloud(res)
	r.reportSearch(res)
	r.reportFaults(res)
	r.reportHardware(res)
	res.Plans = r.planCount
	res.Ledger = r.ledger
	return res, r.timing(), nil
}

// run is a simulation in progress.
type run struct {
	Config
	start time.Time
	state *sched.State
	jobs  []*job // by submission
	byID  map[sched.JobID]*job

	now        time.Duration
	arrived    int // jobs[:arrived] have been submitted
	ended      int
	agenda     agenda
	neighbours neighbours

	dirty      bool          // there was an event since the last decision
	wake       time.Duration // when the policy wants to be called again; 0: not by time
	decisions  int
	lastChange int       // number of decisions when a job last arrived or ended
	spent      []float64 // seconds of each decision, if there is a stopwatch

	logged map[sched.JobID]sched.Code // the reason last logged for each waiting job
	record recorder
	ledger *Ledger // nil: no layer considered a trade

	sharing   map[sched.GPUType]*interfere.Model // a cache of sharingOn
	pairs     map[sched.GPUType]*pairTable       // a cache of pairsOn
	slowdowns map[uint64]float64                 // a cache of trueSlowdown, by the seed of a group

	empty  *place.Free // the empty cluster, for trial placements
	cloud  *cloud      // nil: the number of nodes is fixed
	faults *faults     // nil: failures happen as recorded
	search *searchApp  // nil: no search

	hardware *hardware // nil: it does not fail

	times experience.RunTimes // of jobs that have ended

	planners  map[plannerKey]*planner
	planCount *PlanCount // nil: no job has plans
}

func newRun(c Config, w *Workload) (*run, error) {
	r := &run{
		Config: c, start: w.Start, state: sched.NewState(c.Cluster),
		byID:   make(map[sched.JobID]*job, len(w.Work)),
		logged: map[sched.JobID]sched.Code{},
	}
	if r.Sharing == nil {
		r.Sharing = published()
	}
	r.neighbours.onNode = make([][]*job, len(c.Cluster.Nodes))
	for _, open := range []func() error{r.openCloud, r.openFaults, r.openHardware} {
		if err := open(); err != nil {
			return nil, err
		}
	}
	for i := range w.Tenants {
		if err := r.apply(sched.Event{Kind: sched.TenantSet, Tenant: &w.Tenants[i]}); err != nil {
			return nil, err
		}
	}
	empty := place.NewFree(c.Cluster)
	r.jobs = make([]*job, len(w.Work))
	for i := range w.Work {
		work := &w.Work[i]
		if at := work.Submitted; at.Before(w.Start) || (i > 0 && at.Before(w.Work[i-1].Submitted)) {
			return nil, fmt.Errorf("job %s: submitted = %s; jobs must come in order of submission, none before the start %s", work.ID, at, w.Start)
		}
		if err := work.Validate(); err != nil {
			return nil, err
		}
		work, err := c.confine(work)
		if err != nil {
			return nil, err
		}
		t, err := c.truthOf(work)
		if err != nil {
			return nil, err
		}
		if s, ok := t.(*stepped); ok {
			work = s.accepting(c.Cluster, work)
		}
		if p, ok := t.(*planned); ok {
			if work, err = p.accepting(work, c.CoAdapt); err != nil {
				return nil, err
			}
			r.planCount = &PlanCount{}
		}
		j := &job{work: work, truth: t, result: i}
		if j.alone, err = alone(t, work, empty, work.GPUs); err != nil {
			return nil, err
		}
		r.jobs[i] = j
		r.byID[work.ID] = j
	}
	r.empty = empty
	if err := r.openSearch(empty); err != nil {
		return nil, err
	}
	if len(r.byID) != len(r.jobs) {
		return nil, fmt.Errorf("workload %s: %d jobs share %d ids; ids must differ", w.Name, len(r.jobs), len(r.byID))
	}
	r.record.init(r)
	return r, nil
}

// loop processes events until there are no more.
func (r *run) loop() error {
	for steps := 0; ; steps++ {
		if steps&0xfff == 0 {
			if r.Stop != nil && r.Stop() {
				return fmt.Errorf("simulate: stopped after %s of simulated time, %d of %d jobs done", r.now, r.ended, len(r.jobs))
			}
			r.report()
		}
		next, ok := r.nextEvent()
		due := r.due()
		switch {
		case r.dirty && (!ok || next > due):
			if r.over(due) {
				return nil
			}
			r.now = due
			if err := r.releaseNodes(); err != nil {
				return err
			}
			if err := r.decide(); err != nil {
				return err
			}
		case !ok || r.over(next):
			r.report()
			return nil
		default:
			r.now = next
			if err := r.handleDue(); err != nil {
				return err
			}
		}
	}
}

func (r *run) over(at time.Duration) bool {
	if r.Until > 0 && at > r.Until {
		r.now = r.Until
		return true
	}
	return false
}

func (r *run) report() {
	if r.Progress != nil {
		r.Progress(Progress{Now: r.now, Ended: r.ended, Jobs: len(r.jobs), Decisions: r.decisions})
	}
}

// due is the time of the decision that follows the current events.
func (r *run) due() time.Duration {
	if r.Interval == 0 {
		return r.now
	}
	rounds := max(1, (r.now+r.Interval-1)/r.Interval)
	return rounds * r.Interval
}

// nextEvent returns the time of the next arrival, tick or wake-up.
func (r *run) nextEvent() (time.Duration, bool) {
	at, ok := r.agenda.next()
	if r.arrived < len(r.jobs) {
		if a := r.arrival(r.arrived); !ok || a < at {
			at, ok = a, true
		}
	}
	if r.wake > 0 && (!ok || r.wake < at) {
		at, ok = r.wake, true
	}
	if c, has := r.nextInCloud(ok); has && (!ok || c < at) {
		at, ok = c, true
	}
	if f, has := r.nextRelease(); has && (!ok || f < at) {
		at, ok = f, true
	}
	if f, has := r.nextFailure(ok); has && (!ok || f < at) {
		at, ok = f, true
	}
	return max(at, r.now), ok
}

func (r *run) arrival(i int) time.Duration { return r.jobs[i].work.Submitted.Sub(r.start) }

// handleDue processes all events that are due now.
func (r *run) handleDue() error {
	if r.wake > 0 && r.wake <= r.now {
		r.wake, r.dirty = 0, true
	}
	if err := r.scale(); err != nil {
		return err
	}
	if err := r.release(); err != nil {
		return err
	}
	if err := r.failHardware(); err != nil {
		return err
	}
	for r.arrived < len(r.jobs) && r.arrival(r.arrived) <= r.now {
		j := r.jobs[r.arrived]
		r.arrived++
		if err := r.submit(j); err != nil {
			return err
		}
	}
	for {
		at, ok := r.agenda.next()
		if !ok || at > r.now {
			break
		}
		if err := r.tick(r.agenda.pop().job); err != nil {
			return err
		}
	}
	return r.adjust()
}

func (r *run) submit(j *job) error {
	spec := j.work.Spec
	if spec.Work == 0 {
		spec.Work = j.truth.total()
	}
	j.unit = spec.Work / j.truth.total()
	spec.Work = r.declare(j, spec.Work)
	spec.Estimate = r.estimate(j)
	if m, ok := r.Zoo.Model(spec.Model); ok {
		spec.Consolidate = spec.Consolidate || m.Consolidate
		if spec.GPUUtil == 0 {
			spec.GPUUtil = m.GPUUtil
		}
	}
	spec.Screen = r.screenFor(j)
	j.plain = r.isPlain(j)
	j.hardware = r.newJobHardware(j)
	spec.Protected = j.plain && !r.Unprotected
	if err := r.apply(sched.Event{Kind: sched.JobSubmitted, Spec: &spec}); err != nil {
		return err
	}
	j.state, _ = r.state.Job(spec.ID)
	j.waitSince = r.now
	var err error
	if j.agent, err = r.newAgent(j); err != nil {
		return fmt.Errorf("job %s: %w", spec.ID, err)
	}
	if j.planner, err = r.newPlanner(j); err != nil {
		return fmt.Errorf("job %s: %w", spec.ID, err)
	}
	if j.agent == nil && j.planner == nil && !j.plain {
		if j.tried, err = r.trialReport(j); err != nil {
			return err
		}
	}
	r.dirty, r.lastChange = true, r.decisions
	r.record.arrive(r, j)
	perf, err := r.perf(j)
	if perf == nil || err != nil {
		return err
	}
	return r.apply(sched.Event{Kind: sched.JobReported, Job: spec.ID, Perf: perf})
}

// tick processes the event that was scheduled for a job.
func (r *run) tick(j *job) error {
	j.version++
	if j.state.Phase == sched.Pending { // the end of a back-off
		r.dirty = true
		return nil
	}
	j.settle(r.now)
	if w := j.hardware; w != nil && w.detected > 0 && r.now >= w.detected {
		return r.recover(j)
	}
	if after, ok := r.fails(j); ok && j.ran >= after {
		return r.fail(j)
	}
	if j.hit > 0 && r.now >= j.hit {
		return r.failOnNode(j)
	}
	turned := r.now >= j.turn
	if turned {
		// Set it exactly: the boundary selects the next speed.
		if j.done = min(j.until, j.truth.total()); j.done >= j.truth.total() {
			return r.end(j, j.outcome())
		}
		if err := r.readTrial(j); err != nil || j.state.Phase != sched.Running {
			return err
		}
	}
	if err := r.consult(j, turned); err != nil {
		return err
	}
	return r.adjustJob(j)
}

// consult calls the agent at the end of a phase and when its report is due.
func (r *run) consult(j *job, turned bool) error {
	if j.agent == nil || (!turned && r.now < j.reports) {
		return nil
	}
	j.reports = r.now.Truncate(r.Agent) + r.Agent
	if w := j.hardware; r.now <= j.held || w != nil && w.detected > 0 {
		return nil // it is still starting, or stands still
	}
	if err := j.agent.learn(j.setting, j.seen, j.done/j.truth.total(), j.truth.total()); err != nil {
		return fmt.Errorf("job %s: %w", j.work.ID, err)
	}
	if c, ok := j.agent.choose(j.setting); ok {
		j.setting.config = c
	}
	if r.Watch != nil {
		batch := j.setting.config.Batch(j.setting.replicas())
		r.Watch(Watched{
			T: r.now.Seconds(), Job: j.work.ID, GPUs: j.setting.gpus, Batch: batch,
			Efficiency: goodput.Efficiency(j.agent.noise, j.agent.limits.Initial, batch),
			Progress:   j.done / j.truth.total(),
		})
	}
	return nil
}

func (j *job) outcome() sched.Phase {
	if j.work.Outcome == sched.Cancelled {
		return sched.Cancelled
	}
	return sched.Finished
}

// fail ends an attempt. Its work is lost; the job retries unless this was its last
// attempt.
func (r *run) fail(j *job) error {
	if r.faults != nil {
		failure, _ := r.faults.fault(j)
		return r.failFor(j, failure.Reason, -1)
	}
	reason := j.work.Failures[j.attempts].Reason
	j.attempts++
	r.restartFromZero(j)
	if j.attempts == len(j.work.Failures) && j.work.Outcome == sched.Failed {
		r.logEnd("fail", j, reason+"; not retried")
		return r.end(j, sched.Failed)
	}
	r.logEnd("fail", j, reason)
	r.leave(j)
	until := r.now + r.Retry
	if err := r.apply(sched.Event{Kind: sched.JobFailed, Job: j.work.ID, Until: r.start.Add(until), Text: reason}); err != nil {
		return err
	}
	if r.Retry > 0 {
		r.agenda.add(until, j)
	}
	r.dirty = true
	return nil
}

func (r *run) end(j *job, phase sched.Phase) error {
	if phase != sched.Failed {
		r.recordEnd(j)
	}
	if j.state.Phase == sched.Running {
		r.leave(j)
	}
	if j.agent != nil && r.Experience != nil && phase == sched.Finished {
		if err := r.Experience.Learn(j.key(), j.agent.outcome(j.truth.total(), j.truth.restart(false, len(j.setting.placement)).Seconds())); err != nil {
			return fmt.Errorf("job %s: %w", j.work.ID, err)
		}
	}
	if err := r.trialEnds(j, phase); err != nil {
		return err
	}
	if err := r.apply(sched.Event{Kind: sched.JobEnded, Job: j.work.ID, Phase: phase}); err != nil {
		return err
	}
	r.ended++
	r.dirty, r.lastChange = true, r.decisions
	r.record.ended(r, j)
	if phase != sched.Failed {
		r.learnRunTime(j)
		r.logEnd("end", j, phase.String())
	}
	return nil
}

// leave takes a job off its GPUs.
func (r *run) leave(j *job) {
	j.settle(r.now)
	r.recordSuccess(j)
	r.leavePool(j)
	r.leaveHardware(j)
	j.version++
	j.speed = 0
	r.neighbours.remove(j)
	r.record.leave(r, j)
}

func (r *run) apply(e sched.Event) error {
	e.At = r.start.Add(r.now)
	return r.state.Apply(e)
}
