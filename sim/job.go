// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"math"
	"time"

	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/goodput"
)

// job is one job of the run: the truth about it, and where it stands.
type job struct {
	work  *Work
	truth truth
	state *sched.Job // in sched.State while it is pending or running
	alone float64    // seconds it takes with the cluster to itself

	version uint32 // of its next tick
	setting setting
	// done is the work done at settled; it grows by speed each second from
	// then on, but not before held (the end of its restart).
	done    float64
	settled time.Duration
	held    time.Duration
	speed   float64       // with the disturbance by others counted in
	until   float64       // work at which the speed changes by itself
	turn    time.Duration // when that will be

	agent   *agent          // nil: nobody measures
	seen    observation     // what the agent measures in the present phase
	steps   []float64       // what an oracle says about step times
	tried   *goodput.Report // without an agent: what trials on GPU types have shown; nil: there were none
	ranOn   map[sched.GPUType]bool
	reports time.Duration // when the agent next looks at its measurements

	attempts int           // that have failed
	ran      time.Duration // of the present attempt, until settled, at the pace of the recorded type of GPU
	spent    float64       // GPU-seconds of the present attempt, restarts not counted
	jobFaults

	waiting   sched.Code    // why it waits for its first start
	waitSince time.Duration // since when it has waited for that
	waits     [sched.NumCodes]time.Duration
	result    int // index in Result.Jobs
}

// settle books the work done until now.
func (j *job) settle(now time.Duration) {
	if j.state.Phase != sched.Running || now <= j.settled {
		return
	}
	if from := max(j.settled, j.held); now > from {
		j.spent += (now - from).Seconds() * j.gpuShare()
		j.done = min(j.done+j.speed*(now-from).Seconds(), j.truth.total())
	}
	j.ran += times(now-j.settled, pace(j.truth, j.setting))
	j.settled = now
}

// pace is how fast the run time of an attempt passes: a failure that was recorded
// comes at a point of the work, which is reached sooner on faster GPUs.
func pace(t truth, s setting) float64 {
	if r, ok := t.(*recorded); ok {
		return r.typeSpeed(s.gpuType)
	}
	return 1
}

// times multiplies a time; by 1, exactly.
func times(d time.Duration, by float64) time.Duration {
	if by == 1 {
		return d
	}
	return time.Duration(math.Ceil(float64(d) * by))
}

// gpuShare returns the GPUs it holds; half a GPU counts half.
func (j *job) gpuShare() float64 { return float64(j.setting.placement.Milli()) / sched.WholeGPU }

// fails returns the run time at which the present attempt of a job fails; ok is
// false if it does not.
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

// nextTick returns when something happens to the job by itself: its speed
// changes, its work is done, the attempt fails, or its agent reports. With
// profiles, phases end in whole seconds, as the reference simulator counts.
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
	if r.starting(j) {
		at = min(at, j.held)
	}
	if j.agent != nil {
		at = min(at, j.reports)
	}
	return at
}

// starting reports whether a job is still loading, so that nobody has measured its
// speed where it is.
func (r *run) starting(j *job) bool { return r.Estimates != Exact && r.now < j.held }

// wait books the reason for which the job waits from now on.
func (j *job) wait(now time.Duration, why sched.Code) {
	if why == j.waiting {
		return
	}
	j.waits[j.waiting] += now - j.waitSince
	j.waiting, j.waitSince = why, now
}

// cause returns the reason that made up most of the wait; Ok if it never had
// to wait for one.
func (j *job) cause() sched.Code {
	var most sched.Code
	for c := range j.waits {
		if c > 0 && j.waits[c] > 0 && (most == sched.Ok || j.waits[c] > j.waits[most]) {
			most = sched.Code(c)
		}
	}
	return most
}
