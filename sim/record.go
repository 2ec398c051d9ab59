// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"time"

	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/fairness"
)

// recorder records what happens during a run.
type recorder struct {
	jobs       []JobResult
	series     []Point
	gap        time.Duration // points closer than this are merged
	last       time.Duration // time of the last point
	used       int           // thousandths of GPUs held
	running    int
	queued     int
	queuedGPUs int
	lostGPU    float64
	usage      usage
	apps       map[sched.AppID]*appRecord
	appIDs     []sched.AppID // in order of arrival
}

// appRecord is what finish-time fairness needs about an app.
type appRecord struct {
	fairness.App
	arrived     bool
	start       time.Duration
	integral    float64 // of active apps, at start
	jobs, ended int
	rho, paper  float64 // 0: not known, or it has not ended
}

// mostPoints bounds the length of the series.
const mostPoints = 8192

func (rec *recorder) init(r *run) {
	rec.jobs = make([]JobResult, len(r.jobs))
	rec.usage.init(r)
	rec.apps = map[sched.AppID]*appRecord{}
	for i, j := range r.jobs {
		rec.jobs[i] = r.blankResult(i)
		app := rec.jobs[i].App
		a := rec.apps[app]
		if a == nil {
			a = &appRecord{App: fairness.App{GPUs: r.Cluster.GPUs()}}
			rec.apps[app] = a
			rec.appIDs = append(rec.appIDs, app)
		}
		a.jobs++
		a.Jobs = append(a.Jobs, r.factsOf(j))
	}
	r.registerSearch()
}

// factsOf returns the truth about a job alone. A size at which it cannot run or makes
// no progress has no speed.
func (r *run) factsOf(j *job) fairness.Job {
	f := fairness.Job{GPUs: j.work.GPUs, Seconds: j.alone, Curve: func(gpus int) float64 {
		seconds, err := alone(j.truth, j.work, r.empty, gpus)
		if err != nil {
			return 0
		}
		return 1 / seconds
	}}
	if (&sched.Job{Spec: j.work.Spec}).Elastic() {
		f.Most = j.work.MaxGPUs
	}
	return f
}

// blankResult is the result of a job before it arrives.
func (r *run) blankResult(i int) JobResult {
	j := r.jobs[i]
	app := j.work.App
	if app == "" {
		app = sched.AppID(j.work.ID)
	}
	return JobResult{
		ID: j.work.ID, App: app, Tenant: j.work.Tenant, Model: j.work.Model, GPUs: j.work.GPUs,
		Submit: r.arrival(i).Seconds(), Start: -1, End: -1, JCT: -1,
	}
}

func (rec *recorder) arrive(r *run, j *job) {
	rec.usage.advance(r)
	rec.queued++
	rec.queuedGPUs += j.work.GPUs
	rec.jobs[j.result].Plain = j.plain
	a := rec.apps[rec.jobs[j.result].App]
	if !a.arrived {
		a.arrived = true
		a.start, a.integral = r.now, r.state.ActiveApps(r.start.Add(r.now))
	}
}

func (rec *recorder) start(r *run, j *job) {
	res := &rec.jobs[j.result]
	if res.Start < 0 {
		j.wait(r.now, sched.Ok)
		res.Start = r.now.Seconds()
		res.Wait = res.Start - res.Submit
		res.WaitFor = j.cause()
	}
	n := j.setting.gpus
	rec.usage.start(r, j)
	res.Runs = append(res.Runs, Segment{Start: r.now.Seconds(), End: -1, GPUs: n, Nodes: len(j.setting.placement)})
	rec.used += j.setting.placement.Milli()
	rec.running++
	rec.queued--
	rec.queuedGPUs -= j.work.GPUs
	rec.lostGPU += (j.held - r.now).Seconds() * j.gpuShare()
}

func (rec *recorder) leave(r *run, j *job) {
	rec.usage.leave(r, j)
	res := &rec.jobs[j.result]
	res.Runs[len(res.Runs)-1].End = r.now.Seconds()
	rec.used -= j.setting.placement.Milli()
	rec.running--
	rec.queued++
	rec.queuedGPUs += j.work.GPUs
	if j.held > r.now { // it left during its restart
		rec.lostGPU -= (j.held - r.now).Seconds() * j.gpuShare()
	}
}

func (rec *recorder) ended(r *run, j *job) {
	rec.usage.advance(r)
	rec.queued--
	rec.queuedGPUs -= j.work.GPUs
	res := &rec.jobs[j.result]
	res.End = r.now.Seconds()
	res.JCT = res.End - res.Submit
	rec.status(res, j.state)
	a := rec.apps[res.App]
	if a.ended++; a.ended == a.jobs {
		a.Elapsed = (r.now - a.start).Seconds()
		a.Mean = (r.state.ActiveApps(r.start.Add(r.now)) - a.integral) / a.Elapsed
		a.rho, a.paper = a.Rho(), a.PaperRho()
	}
}

// status copies the sums that the core computed.
func (rec *recorder) status(res *JobResult, s *sched.Job) {
	res.Outcome = s.Phase
	res.Queued, res.Ran = s.Waited.D().Seconds(), s.Ran.D().Seconds()
	res.GPUSeconds = s.GPUSeconds
	res.Restarts, res.Preemptions, res.Moves, res.Failures = s.Restarts(), s.Preemptions, s.Moves, s.Failures
}

// sample adds a point to the series.
func (rec *recorder) sample(r *run) {
	p := Point{T: r.now.Seconds(), Used: rec.used / sched.WholeGPU, Running: rec.running, Queued: rec.queued, QueuedGPUs: rec.queuedGPUs}
	if n := len(rec.series); n > 0 && (r.now-rec.last < rec.gap || rec.series[n-1].T == p.T) {
		rec.series[n-1] = Point{rec.series[n-1].T, p.Used, p.Running, p.Queued, p.QueuedGPUs}
		return
	}
	rec.series = append(rec.series, p)
	rec.last = r.now
	if len(rec.series) < mostPoints {
		return
	}
	// Half as many points, twice as far apart.
	keep := rec.series[:0]
	for i := 0; i < len(rec.series); i += 2 {
		keep = append(keep, rec.series[i])
	}
	rec.series = keep
	rec.gap = max(2*rec.gap, r.now/(mostPoints/2))
}
