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

// FaultConfig says how failures are dealt with. With it, what happens at the next
// attempt follows from what is decided after the last one, by this model:
//
//   - A recorded failure comes after its recorded run time, unless the attempt is
//     a screening and the reason needs the whole gang to show (MPI, preemption,
//     broken GPUs).
//   - Some reasons pass: those of the infrastructure and CUDA's failures. Such a job
//     works after its recorded number of failures, if it is tried that often.
//   - Out of memory goes away once the job was given enough more. How much it needs
//     is drawn for each job: 1 to 2.25 times what it asked for, log-uniform.
//   - All other reasons stay: a job that never got through in the recording fails
//     for ever, as the last time; one that did fails as often as recorded.
//   - A job that never got through in the recording and would now has come to its
//     end: what its user submitted instead is in the recording already, as another
//     job, and to do its work twice would load the cluster with more than there was.
//   - On a bad node every attempt fails after a while, for reasons of that node. A
//     node becomes bad by itself and is good again after some time. The job goes
//     on from its last checkpoint; after failures of its own it starts anew.
//   - A job that is given up although it would get through, or got through in the
//     recording, is submitted again by its user after a while. For a reason that
//     stays he has corrected the job by then.
//
// Which reasons pass is an assumption, after the categories of the Philly study;
// the recording says only how often its own scheduler tried.
type FaultConfig struct {
	// Adaptive decides about each failure by its reason (diagnose.Decide). Else
	// a job is tried again as often as recorded, whatever the reason, after
	// Config.Retry.
	Adaptive bool
	// Missed is the share of jobs whose reason the classifier does not
	// recognise.
	Missed float64
	// Resubmit is how long a user takes to submit a job again that was given up.
	Resubmit time.Duration
	// Tries bounds the retries of a job that failed because of its nodes, where
	// retries are not adaptive.
	Tries int

	// Screen is how long a new job is screened, under a policy with the layer
	// for that; 0: nobody is. Trust spares jobs like those that ran well.
	Screen time.Duration
	Trust  bool

	// BadNodes is the share of nodes that are bad at any time; BadFor is for how
	// long a node is, in the mean, BadAfter how long an attempt runs on it.
	BadNodes         float64
	BadFor, BadAfter time.Duration
	// Checkpoint is how often jobs save what they have done.
	Checkpoint time.Duration
	// Quarantine takes nodes out of use on which failures correlate.
	Quarantine bool
	Seed       uint64
}

// DefaultFaults returns the numbers of the model with everything switched off.
// Missed is what the classifier of package diagnose does not recognise of samples
// it had not seen (docs/failures.md).
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
		return fmt.Errorf("simulate: faults: quarantine of nodes that come and go; want one of quarantine and autoscale")
	}
	return nil
}

// faults is what a run remembers about failures; nil: they happen as recorded.
type faults struct {
	FaultConfig
	table   *diagnose.Table
	nodes   badNodes
	quarant *diagnose.Quarantine
	good    []diagnose.NodeEvent     // that it has not heard of yet
	out     map[string]time.Duration // nodes in quarantine, until when
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

// jobFaults is what is known about the failures of one job.
type jobFaults struct {
	history  []diagnose.Attempt // since it was last submitted
	grown    float64            // how much more memory it has than it asked for; 0: none
	byNodes  int                // failures that its nodes are to blame for
	attained float64            // GPU-seconds held before the present attempt
	cured    bool               // its user has corrected it
	caught   bool               // a failure of it was seen in the pool
	failing  bool               // it leaves its GPUs because it failed
	fresh    bool               // its last run was a screening: it starts anew

	foreseen int           // starts for which hit was looked up
	hit      time.Duration // when a node it runs on breaks the attempt; 0: never
	hitBy    int           // that node
}

// fault returns the failure that the present attempt comes to; ok is false if it
// comes to none.
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

// rescued reports whether the next attempt of a job that never got through in the
// recording would.
func (f *faults) rescued(j *job, reason string) bool {
	switch {
	case j.work.Outcome != sched.Failed:
		return false
	case kinds[reason].nature == memory:
		return j.grown >= f.memoryNeed(j)
	}
	return kinds[reason].nature == passes && j.attempts >= len(j.work.Failures)
}

// memoryNeed returns how many times the memory it asked for a job needs that runs
// out of it.
func (f *faults) memoryNeed(j *job) float64 {
	const most = 2.25 // half of the jobs do with 1.5 times
	return pow(most, f.draw(needStream, j.result))
}

// finding returns what the classifier says about a failure of a job.
func (f *faults) finding(j *job, reason string) diagnose.Finding {
	if f.draw(missStream, j.result) < f.Missed {
		return f.table.Finding(diagnose.ReasonUnknown)
	}
	return f.table.Finding(kinds[reason].id)
}

// failFor ends an attempt for a reason, and does what is decided about it.
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
	if err := r.suspect(j, a); err != nil {
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
		r.record.lostGPU += j.spent
		j.done, j.ran, j.spent = 0, 0, 0
		if advice.Retry && f.rescued(j, reason) {
			return r.end(j, sched.Finished)
		}
	} else {
		j.byNodes++
	}
	if !advice.Retry {
		if !f.comesBack(j, reason, byNode >= 0) {
			f.sum.GivenUp++
			r.logEnd("fail", j, reason+"; it is not tried again")
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
	kept := sched.Event{Kind: sched.JobCheckpoint, Job: j.work.ID, Done: j.done * j.state.Work / j.truth.total()}
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

// hasMemory reports whether a node could give a task of the job so many times the
// memory it asked for.
func (r *run) hasMemory(j *job, times float64) bool {
	need := int64(float64(j.work.Memory)*times) * int64(max(1, j.work.TaskGPUs))
	return slices.ContainsFunc(r.Cluster.Nodes, func(n sched.Node) bool { return n.Memory == 0 || n.Memory >= need })
}

// decide says what to do after a failure: by its reason, or as recorded.
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

// comesBack reports whether the user of a job that was given up submits it again:
// one that had it right in the end does, and one whose job was not to blame. The
// recording's own scheduler gives up where that of the user would have as well.
func (f *faults) comesBack(j *job, reason string, byNode bool) bool {
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

// growth returns how many times the memory it asked for a retry has.
func growth(a diagnose.Advice) float64 {
	if a.SmallerBatch > 0 {
		return 1 / a.SmallerBatch
	}
	return a.MoreMemory
}
