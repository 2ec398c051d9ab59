// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"math"
	"time"

	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/goodput"
)

// job is one job of the run: the truth about it, and its current state.
type job struct {
	work  *Work
	truth truth
	state *sched.Job // in sched.State while it is pending or running
	alone float64    // seconds it takes alone on the cluster
	unit  float64    // of Spec.Work, for one of the truth's

	version uint32 // of its next tick
	setting setting
	// done is the work done at settled; it grows by speed each second from then on,
	// but not before held (the end of its restart).
	done     float64
	settled  time.Duration
	held     time.Duration
	left     time.Duration // when it was last stopped
	restored float64       // work done when it last started
	speed    float64       // including interference
	until    float64       // work at which the speed changes on its own
	turn     time.Duration // when that happens

	plain   bool            // it cannot save its work
	agent   *agent          // nil: no measurements
	planner *planner        // nil: it trains in one way
	seen    observation     // what the agent measures in the current phase
	steps   []float64       // what an oracle reports about step times
	tried   *goodput.Report // without an agent: results of trials on GPU types; nil: none
	ranOn   map[sched.GPUType]bool
	reports time.Duration // when the agent next reports

	attempts int           // failed attempts
	ran      time.Duration // run time of the current attempt until settled, on the GPU type of the recording
	spent    float64       // GPU-seconds of the current attempt, without restarts
	jobFaults
	hardware *jobHardware // nil: it does not fail

	waiting   sched.Code    // why it waits for its first start
	waitSince time.Duration // since when it has waited for that reason
	waits     [sched.NumCodes]time.Duration
	result    int // index in Result.Jobs
}

// settle adds the work done until now.
func (j *job) settle(now time.Duration) {
	if j.state.Phase != sched.Running || now <= j.settled {
		return
	}
	j.hardware.restart(max(0, min(now, j.held)-j.settled).Seconds() * j.gpuShare())
	if from := max(j.settled, j.held); now > from {
		j.spent += j.hardware.train((now - from).Seconds() * j.gpuShare())
		j.done = min(j.done+j.speed*(now-from).Seconds(), j.truth.total())
	}
	j.ran += times(now-j.settled, pace(j.truth, j.setting))
	j.settled = now
}

// pace is how fast the run time of an attempt passes: a recorded failure happens at a
// point of the work, which faster GPUs reach sooner.
func pace(t truth, s setting) float64 {
	if r, ok := t.(*recorded); ok {
		return r.typeSpeed(s.gpuType)
	}
	return 1
}

// times multiplies a duration; a factor of 1 is exact.
func times(d time.Duration, by float64) time.Duration {
	if by == 1 {
		return d
	}
	return time.Duration(math.Ceil(float64(d) * by))
}

// gpuShare returns the GPUs that the job holds; half a GPU counts as half.
func (j *job) gpuShare() float64 { return float64(j.setting.placement.Milli()) / sched.WholeGPU }

// fails returns the run time at which the current attempt fails; ok is false if it
// does not.
func (r *run) fails(j *job) (after time.Duration, ok bool) {
	if r.faults != nil {
		f, ok := r.faults.fault(j)
		return f.After.D(), ok
	}
	if j.attempts < len(j.work.Failures) {
		return j.work.Failures[j.attempts].After.D(), true
	}
	return 0, false
}

// nextTick returns when the job next changes on its own: its speed changes, its work
// is done, the attempt fails, or its agent reports. With profiles, phases end in
// whole seconds, as in the reference simulator.
func (r *run) nextTick(j *job) time.Duration {
	j.turn = time.Duration(math.MaxInt64)
	if j.speed > 0 {
		seconds := max(0, min(j.until, j.truth.total())-j.done) / j.speed
		if r.Profiles != nil {
			seconds = math.RoundToEven(seconds)
		}
		if seconds < math.MaxInt64/2e9 {
			j.turn = max(j.settled, j.held) + time.Duration(math.Ceil(seconds*1e9))
		}
	}
	at := j.turn
	if after, ok := r.fails(j); ok {
		at = min(at, j.settled+times(max(0, after-j.ran), 1/pace(j.truth, j.setting)))
	}
	if j.hit > 0 {
		at = min(at, j.hit)
	}
	if w := j.hardware; w != nil && w.detected > 0 {
		at = min(at, w.detected)
	}
	if r.starting(j) {
		at = min(at, j.held)
	}
	if j.agent != nil {
		at = min(at, j.reports)
	}
	return at
}

// starting reports whether a job is still loading, so that its speed has not been
// measured there.
func (r *run) starting(j *job) bool { return r.Estimates != Exact && r.now < j.held }

// wait records the reason for which the job waits from now on.
func (j *job) wait(now time.Duration, why sched.Code) {
	if why == j.waiting {
		return
	}
	j.waits[j.waiting] += now - j.waitSince
	j.waiting, j.waitSince = why, now
}

// cause returns the reason for most of the wait; Ok if the job never waited.
func (j *job) cause() sched.Code {
	var most sched.Code
	for c := range j.waits {
		if c > 0 && j.waits[c] > 0 && (most == sched.Ok || j.waits[c] > j.waits[most]) {
			most = sched.Code(c)
		}
	}
	return most
}
