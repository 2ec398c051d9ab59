// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"slices"
	"time"

	"github.com/fairway-gpu/fairway/diagnose"
	"github.com/fairway-gpu/fairway/sched"
)

// FaultConfig says how failures are handled. With it, the next attempt depends on the
// reaction to the last one, by this model:
//
//   - A recorded failure happens after its recorded run time, unless the attempt is a
//     screening and the failure appears only in the whole gang (MPI, preemption,
//     broken GPUs).
//   - Some failures are transient: those of the infrastructure and of CUDA. Such a
//     job succeeds after its recorded number of failures, if it is retried that
//     often.
//   - Out of memory ends once the job has enough memory. How much it needs is drawn
//     for each job: 1 to 2.25 times what it asked for, log-uniform.
//   - All other failures are permanent: a job that failed in the recording keeps
//     failing in the same way; one that succeeded fails as often as recorded.
//   - A job that failed in the recording and would now succeed ends at that point:
//     what its user submitted instead is already in the recording, as another job,
//     and doing the work twice would add load.
//   - On a bad node every attempt fails after a while, because of the node. A node
//     becomes bad on its own and recovers after some time. The job resumes from its
//     last checkpoint; after failures of its own it starts from scratch.
//   - A job that is given up although it would succeed, or succeeded in the
//     recording, is submitted again by its user after a while. By then the user has
//     fixed a permanent failure.
//
// Which failures are transient is an assumption, after the categories of the Philly
// study; the recording says only how often its own scheduler retried.
type FaultConfig struct {
	// Adaptive decides about each failure by its reason (diagnose.Decide). Otherwise
	// a job is retried as often as recorded, whatever the reason, after Config.Retry.
	Adaptive bool
	// Missed is the share of jobs whose failure the classifier does not recognise.
	Missed float64
	// Resubmit is how long a user takes to submit a given-up job again.
	Resubmit time.Duration
	// Tries bounds the retries of a job that failed because of its nodes, if Adaptive
	// is off.
	Tries int

	// Screen is how long a new job is screened, under a policy with that layer; 0:
	// not at all. Trust skips jobs like those that ran well.
	Screen time.Duration
	Trust  bool

	// BadNodes is the share of nodes that are bad at any time; BadFor is the mean
	// time that a node stays bad, BadAfter how long an attempt runs on it.
	BadNodes         float64
	BadFor, BadAfter time.Duration
	// Checkpoint is the time between checkpoints.
	Checkpoint time.Duration
	// Quarantine takes nodes with correlated failures out of use.
	Quarantine bool
	Seed       uint64
}

// DefaultFaults returns the constants of the model with every mechanism off. Missed
// is the share of unseen samples that the classifier of package diagnose does not
// recognise (docs/failures.md).
func DefaultFaults() FaultConfig {
	return FaultConfig{
		Missed: 0.12, Resubmit: time.Hour, Tries: 20, Trust: true,
		BadFor: 12 * time.Hour, BadAfter: 10 * time.Minute, Checkpoint: time.Hour,
	}
}

func (f *FaultConfig) check(c *Config) error {
	switch {
	case f == nil:
		return nil
	case !(f.Missed >= 0 && f.Missed <= 1):
		return fmt.Errorf("simulate: faults: missed = %g; want 0 to 1", f.Missed)
	case !(f.BadNodes >= 0 && f.BadNodes <= 0.5):
		return fmt.Errorf("simulate: faults: bad nodes = %g; want 0 to 0.5", f.BadNodes)
	case f.Resubmit < 0 || f.Screen < 0 || f.Tries < 0:
		return fmt.Errorf("simulate: faults: resubmit = %s, screen = %s, tries = %d; want 0 or more", f.Resubmit, f.Screen, f.Tries)
	case f.BadNodes > 0 && (f.BadFor <= 0 || f.BadAfter <= 0 || f.Checkpoint <= 0):
		return fmt.Errorf("simulate: faults: bad for %s, after %s, checkpoint = %s; want more than 0", f.BadFor, f.BadAfter, f.Checkpoint)
	case f.Quarantine && c.Autoscale != nil:
		return fmt.Errorf("simulate: faults: quarantine and autoscale are both set; want at most one")
	}
	return nil
}

// faults is the state of a run's failures; nil: they happen as recorded.
type faults struct {
	FaultConfig
	table   *diagnose.Table
	nodes   badNodes
	quarant *diagnose.Quarantine
	good    []diagnose.NodeEvent     // not yet passed to the quarantine
	out     map[string]time.Duration // nodes in quarantine, and until when
	known   map[likeness][]diagnose.Outcome
	sum     FaultSummary
	reasons map[string]*FaultCount
	sizes   [4]FaultCount
}

func (r *run) openFaults() error {
	if r.Faults == nil {
		return nil
	}
	f := &faults{
		FaultConfig: *r.Faults, out: map[string]time.Duration{},
		known: map[likeness][]diagnose.Outcome{}, reasons: map[string]*FaultCount{},
	}
	var err error
	if f.table, err = diagnose.Builtin(); err != nil {
		return err
	}
	f.nodes = newBadNodes(f.FaultConfig, len(r.Cluster.Nodes))
	if f.Quarantine {
		if f.quarant, err = diagnose.NewQuarantine(diagnose.DefaultQuarantine()); err != nil {
			return err
		}
		e := diagnose.NodeEvent{At: r.start, Kind: diagnose.NodeAdded}
		for _, n := range r.Cluster.Nodes {
			e.Nodes = append(e.Nodes, n.Name)
		}
		f.quarant.Apply(e)
	}
	r.faults = f
	return nil
}

// jobFaults is the state of one job's failures.
type jobFaults struct {
	history  []diagnose.Attempt // since its last submission
	grown    float64            // its memory relative to what it asked for; 0: unchanged
	byNodes  int                // failures caused by its nodes
	attained float64            // GPU-seconds held before the current attempt
	cured    bool               // its user has fixed it
	caught   bool               // it failed in the pool
	failing  bool               // it leaves its GPUs because it failed
	fresh    bool               // its last run was a screening: it starts from scratch

	foreseen int           // starts for which hit was computed
	hit      time.Duration // when a bad node breaks the attempt; 0: never
	hitBy    int           // that node
}

// fault returns the failure of the current attempt; ok is false if there is none.
func (f *faults) fault(j *job) (Failure, bool) {
	n := len(j.work.Failures)
	if n == 0 || j.cured {
		return Failure{}, false
	}
	next := j.work.Failures[min(j.attempts, n-1)]
	k := kinds[next.Reason]
	switch {
	case j.state.Screening && k.gang:
		return Failure{}, false
	case k.nature == memory && j.grown >= f.memoryNeed(j):
		return Failure{}, false
	case j.attempts >= n && j.work.Outcome != sched.Failed:
		return Failure{}, false
	}
	return next, true
}

// rescued reports whether the next attempt of a job that failed in the recording
// would succeed.
func (f *faults) rescued(j *job, reason string) bool {
	switch {
	case j.work.Outcome != sched.Failed:
		return false
	case kinds[reason].nature == memory:
		return j.grown >= f.memoryNeed(j)
	}
	return kinds[reason].nature == passes && j.attempts >= len(j.work.Failures)
}

// memoryNeed returns the memory that a job needs which runs out of it, relative to
// what it asked for.
func (f *faults) memoryNeed(j *job) float64 {
	const most = 2.25 // 1.5 times is enough for half of the jobs
	return pow(most, f.draw(needStream, j.result))
}

// finding returns the classifier's finding about a failure.
func (f *faults) finding(j *job, reason string) diagnose.Finding {
	if f.draw(missStream, j.result) < f.Missed {
		return f.table.Finding(diagnose.ReasonUnknown)
	}
	return f.table.Finding(kinds[reason].id)
}

// failFor ends an attempt for a reason, and carries out the reaction.
func (r *run) failFor(j *job, reason string, byNode int) error {
	f := r.faults
	ran := j.ran
	if byNode >= 0 {
		f.restore(r, j, reason)
	} else {
		f.book(r, j, reason, j.state.AttainedBy(r.start.Add(r.now))-j.attained)
	}
	a := diagnose.Attempt{Finding: f.finding(j, reason), Nodes: r.blamed(j, reason, byNode), Ran: ran, Progress: ran.Seconds()}
	f.learn(r, j, diagnose.Outcome{Ran: ran})
	if err := r.reportFailure(j, a); err != nil {
		return err
	}
	j.failing = true
	defer func() { j.failing = false }()
	advice := f.decide(r, j, a, byNode >= 0)
	if advice.MoreMemory > 0 && !r.hasMemory(j, advice.MoreMemory) {
		advice.MoreMemory = 0
	}
	j.history = append(j.history, a)
	j.grown = max(j.grown, growth(advice))
	if byNode < 0 {
		j.attempts++
		r.restartFromZero(j)
		if advice.Retry && f.rescued(j, reason) {
			return r.end(j, sched.Finished)
		}
	} else {
		j.byNodes++
	}
	if !advice.Retry {
		if !f.resubmits(j, reason, byNode >= 0) {
			f.sum.GivenUp++
			r.logEnd("fail", j, reason+"; not retried")
			return r.end(j, sched.Failed)
		}
		f.sum.Resubmitted++
		advice = diagnose.Advice{After: sched.Duration(f.Resubmit)}
		j.history, j.byNodes = nil, 0
	}
	r.logEnd("fail", j, reason)
	r.leave(j)
	if byNode < 0 {
		j.attained = j.state.AttainedBy(r.start.Add(r.now))
	}
	return r.retryAfter(j, advice, reason)
}

// retryAfter puts a job that failed back into the queue.
func (r *run) retryAfter(j *job, advice diagnose.Advice, reason string) error {
	until := r.now + advice.After.D()
	e := sched.Event{Kind: sched.JobFailed, Job: j.work.ID, Until: r.start.Add(until), Avoid: advice.AvoidNodes, Text: reason}
	if advice.MoreMemory > 0 {
		e.Memory = int64(float64(j.work.Memory) * advice.MoreMemory)
	}
	kept := sched.Event{Kind: sched.JobCheckpoint, Job: j.work.ID, Done: j.done * j.unit}
	if err := r.apply(kept); err != nil {
		return err
	}
	if err := r.apply(e); err != nil {
		return err
	}
	if until > r.now {
		r.agenda.add(until, j)
	}
	r.dirty = true
	return nil
}

// hasMemory reports whether a node could give a task of the job that many times the
// memory it asked for.
func (r *run) hasMemory(j *job, times float64) bool {
	need := int64(float64(j.work.Memory)*times) * int64(max(1, j.work.TaskGPUs))
	return slices.ContainsFunc(r.Cluster.Nodes, func(n sched.Node) bool { return n.Memory == 0 || n.Memory >= need })
}

// decide returns the reaction to a failure: by its reason, or as recorded.
func (f *faults) decide(r *run, j *job, a diagnose.Attempt, byNode bool) diagnose.Advice {
	if f.Adaptive {
		return diagnose.Decide(j.history, a)
	}
	again := diagnose.Advice{Retry: true, After: sched.Duration(r.Retry)}
	switch {
	case byNode:
		again.Retry = j.byNodes < f.Tries
	case j.attempts+1 >= len(j.work.Failures):
		again.Retry = j.work.Outcome != sched.Failed
	}
	return again
}

// resubmits reports whether the user of a given-up job submits it again: if it
// succeeded in the end, or if the job was not to blame. A job that also failed in the
// recording stays failed.
func (f *faults) resubmits(j *job, reason string, byNode bool) bool {
	if byNode {
		return true
	}
	if j.work.Outcome == sched.Failed {
		return false
	}
	if kinds[reason].nature != passes {
		j.cured = true
	}
	return true
}

// growth returns the memory of a retry relative to what the job asked for.
func growth(a diagnose.Advice) float64 {
	if a.SmallerBatch > 0 {
		return 1 / a.SmallerBatch
	}
	return a.MoreMemory
}
