// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"time"

	"github.com/fairway-gpu/fairway/sched"
)

// recorder takes down what happens during a run.
type recorder struct {
	jobs       []JobResult
	series     []Point
	gap        time.Duration // points nearer than this are merged
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

// appRecord is what finish-time fairness needs to know of an app.
type appRecord struct {
	arrived     bool
	start, end  time.Duration
	contention  float64 // integral of active apps at start; from the end on, the mean
	jobs, ended int
	gpus        int     // demand of all its jobs together
	gpuSeconds  float64 // work of all its jobs, alone
	longest     float64 // GPU-seconds of its longest job
	longestGPUs int
	slowest     float64 // seconds, alone, of its slowest job
	rho         float64
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
			a = &appRecord{}
			rec.apps[app] = a
			rec.appIDs = append(rec.appIDs, app)
		}
		a.jobs++
		a.gpus += j.work.GPUs
		a.count(j)
	}
	r.registerSearch()
}

// count adds the work of a job to that of its app.
func (a *appRecord) count(j *job) {
	work := j.alone * float64(j.work.GPUs)
	a.gpuSeconds += work
	if work > a.longest {
		a.longest, a.longestGPUs = work, j.work.GPUs
	}
	a.slowest = max(a.slowest, j.alone)
}

// blankResult is the result of a job before it comes.
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
	a := rec.apps[rec.jobs[j.result].App]
	if !a.arrived {
		a.arrived = true
		a.start, a.contention = r.now, r.state.ActiveApps(r.start.Add(r.now))
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
	if j.held > r.now { // it never got to the end of its restart
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
		a.end = r.now
		life := (a.end - a.start).Seconds()
		if life > 0 {
			a.contention = (r.state.ActiveApps(r.start.Add(r.now)) - a.contention) / life
		}
		a.rho = a.finishTimeFairness(life, float64(r.Cluster.GPUs()))
	}
}

// status copies the sums that the core kept.
func (rec *recorder) status(res *JobResult, s *sched.Job) {
	res.Outcome = s.Phase
	res.Queued, res.Ran = s.Waited.D().Seconds(), s.Ran.D().Seconds()
	res.GPUSeconds = s.GPUSeconds
	res.Restarts, res.Preemptions, res.Moves, res.Failures = s.Restarts(), s.Preemptions, s.Moves, s.Failures
}

// finishTimeFairness is T_shared / T_independent: the app's life, by the time
// it would take alone on its share of the cluster, C/N GPUs, with N the mean
// number of apps during its life. A job does not go faster on more GPUs than it
// asked for; on a share below that it takes proportionally longer. An app of
// many jobs is bound by its work as a whole and by its slowest job.
func (a *appRecord) finishTimeFairness(life, gpus float64) float64 {
	share := gpus / max(1, a.contention)
	alone := max(a.gpuSeconds/min(float64(a.gpus), share), a.slowest)
	if a.longestGPUs > 0 {
		alone = max(alone, a.longest/min(float64(a.longestGPUs), share))
	}
	if !(alone > 0) || alone > 1e300 {
		return 0
	}
	return life / alone
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
