// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"math"
	"time"

	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/fairness"
)

// share is the fair share at one moment, which fairness is measured against.
type share struct {
	*sched.Snapshot
	gpus float64 // of one app, if all active apps had the same

	mem   *memory
	asked bool                     // for the jobs of an app
	jobs  map[sched.AppID][]*entry // of active apps; made when those of a second one are asked for
	rhos  map[sched.AppID]float64
}

// fair returns the fair share of an app now.
func (b *Store) fair() *share {
	s := b.mem.state.Snapshot(b.now())
	return &share{
		Snapshot: s, gpus: float64(s.Cluster.GPUs()) / float64(max(1, s.Apps())),
		mem: b.mem, rhos: map[sched.AppID]float64{},
	}
}

// rho returns the expected finish-time fairness of an app; 0: the app has ended,
// or the length of one of its jobs is unknown.
func (f *share) rho(id sched.AppID) float64 {
	rho, ok := f.rhos[id]
	if !ok {
		rho = f.app(id).Rho()
		f.rhos[id] = rho
	}
	return rho
}

// app returns what is known of an app. Jobs from before it became active again,
// and forgotten jobs, do not count.
func (f *share) app(id sched.AppID) fairness.App {
	a, active := f.App(id)
	if !active {
		return fairness.App{}
	}
	out := fairness.App{
		Elapsed: f.Now.Sub(a.Submitted).Seconds(), Mean: f.Contention(a), Now: float64(f.Apps()), GPUs: f.Cluster.GPUs(),
	}
	if s := f.mem.searches[id]; s != nil {
		out.Most = s.Spec.AtOnce * max(1, s.Spec.Trial.GPUs, s.Spec.Trial.MaxGPUs)
	}
	work, held, most, gang := 0.0, 0, 0, 0 // GPU-seconds left, and GPUs
	for _, x := range f.jobsOf(id) {
		j := x.Job
		if j.Phase.Ended() {
			if facts := x.facts(f.Cluster); facts.Seconds > 0 && !j.Submitted.Before(a.Submitted) {
				out.Jobs = append(out.Jobs, facts)
			}
			continue
		}
		left, gpus := x.remaining(f.Now)
		out.Jobs = append(out.Jobs, x.facts(f.Cluster))
		out.Left = max(out.Left, left)
		work += left * float64(gpus)
		held += j.Placement.GPUs()
		most += gpus
		gang = max(gang, gpus)
	}
	// A waiting job is assumed to start once the GPUs the app holds, or its share if
	// that is more, have room for it.
	out.Left = max(out.Left, work/min(float64(most), max(float64(max(held, gang)), f.gpus)))
	return out
}

// jobsOf returns the jobs of an active app, ended ones first.
func (f *share) jobsOf(id sched.AppID) (out []*entry) {
	if !f.asked { // often for one job, which is not worth a map of all
		f.asked = true
		for _, x := range f.mem.Ended {
			if x.Job.App == id {
				out = append(out, x)
			}
		}
		for _, j := range f.mem.state.Peek().Jobs {
			if j.App == id {
				out = append(out, f.mem.jobs[j.ID])
			}
		}
		return out
	}
	if f.jobs == nil {
		f.jobs = map[sched.AppID][]*entry{}
		for _, x := range f.mem.Ended {
			if _, active := f.App(x.Job.App); active {
				f.jobs[x.Job.App] = append(f.jobs[x.Job.App], x)
			}
		}
		for _, x := range f.mem.inOrder() {
			f.jobs[x.Job.App] = append(f.jobs[x.Job.App], x)
		}
	}
	return f.jobs[id]
}

// facts returns how long a job takes by its work and last rate, or else by its
// estimate. For an ended job it is the time it took.
func (x *entry) facts(c *sched.Cluster) fairness.Job {
	j := x.Job
	out := fairness.Job{GPUs: j.GPUs, Seconds: j.Estimate.D().Seconds(), Curve: fairness.CurveOf(j, c)}
	if j.Elastic() {
		out.Most = j.MaxGPUs
	}
	work := x.whole()
	if j.Phase.Ended() {
		out.Seconds = j.GPUSeconds / float64(j.GPUs)
		if work == 0 || j.Phase != sched.Finished {
			work = j.Done
		}
	}
	if work > 0 && x.Rate > 0 {
		return out.Measured(work/x.Rate, x.RateGPUs)
	}
	return out
}

// whole returns the work of the whole job in its own unit; 0: unknown.
func (x *entry) whole() float64 {
	if x.Job.Work > 0 {
		return x.Job.Work
	}
	return x.Work
}

// remaining returns the expected seconds to the end of the job on the GPUs of its
// last rate, or else by its estimate on those it asked for. 0: unknown.
func (x *entry) remaining(now time.Time) (seconds float64, gpus int) {
	if w := x.whole(); w > 0 && x.Rate > 0 {
		return max(0, w-x.Job.DoneBy(now)) / x.Rate, x.RateGPUs
	}
	d, _ := x.Job.Remaining(now)
	return d.Seconds(), x.Job.GPUs
}

// left returns the expected seconds to the end of the job; 0: unknown.
func (x *entry) left(now time.Time) float64 {
	seconds, _ := x.remaining(now)
	return finite(seconds)
}

// finite returns v, or 0 if v is not finite: the numbers come from jobs, and a
// rate near 0 gives unbounded times.
func finite(v float64) float64 {
	if math.IsInf(v, 0) || math.IsNaN(v) {
		return 0
	}
	return v
}
