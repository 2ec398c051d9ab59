// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package shockwave

import (
	"math"
	"time"

	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/goodput"
	"github.com/fairway-gpu/fairway/sched/place"
)

// job is what a plan knows about a job. Times are in rounds.
type job struct {
	index    int     // in Snapshot.Jobs
	gpus     int     // that it needs in each round
	progress float64 // part of the training that is done
	left     float64 // remaining run time
	must     int     // rounds after which it can still end in fair time
	weight   float64 // of its progress, where not all jobs can have these rounds
	running  bool

	// Filled in by problem.prepare.
	most int     // rounds of the window that it can use
	past float64 // rounds that its progress so far corresponds to
}

// heaviest bounds weights, so that sums of them stay finite.
const heaviest = 1e12

// forecast returns the jobs to plan for, in order of submission. Jobs that may not
// start now have nothing left.
func (p *policy) forecast(s *sched.Snapshot) []job {
	contention := max(1, float64(len(s.Jobs))/float64(max(1, s.Cluster.GPUs())))
	jobs := make([]job, 0, len(s.Jobs))
	for _, i := range place.OrderBy(s, func(*sched.Job) (a, b float64) { return 0, 0 }) {
		j := s.Jobs[i]
		x := job{index: i, gpus: gpus(j), weight: 1, running: j.Phase == sched.Running}
		done, left := p.expect(j, s.Now)
		if total := done + left; total > 0 {
			x.progress = done / total
		}
		if w := regimeWork(j); w > 0 {
			x.progress = min(1, j.DoneBy(s.Now)/w)
		}
		if x.left = left; (!x.running && !j.Ready(s.Now)) || p.free.Ever(j, x.gpus, sched.CrossRack) < x.gpus {
			x.left = 0 // nothing to plan
		}
		p.judge(&x, fate{age: p.rounds(j.Age(s.Now)), total: done + left, now: contention, mean: contention * trend(s, j)})
		jobs = append(jobs, x)
	}
	return jobs
}

// rounds converts a time.
func (p *policy) rounds(d time.Duration) float64 { return d.Seconds() / p.Round.D().Seconds() }

// expect returns the run time of a job so far and its expected rest, in rounds. A job
// without an estimate is assumed to be halfway, and a new one to need a window.
func (p *policy) expect(j *sched.Job, now time.Time) (done, left float64) {
	if w := regimeWork(j); w > 0 {
		done, left = posterior(j.Perf.Regimes, w, j.DoneBy(now))
		round := p.Round.D().Seconds()
		return done / round, left / round
	}
	if rest, ok := j.Remaining(now); ok {
		left = p.rounds(rest)
		return p.rounds(j.Estimate.D()) - left, left
	}
	if done = p.rounds(j.RanBy(now)); done > 0 {
		return done, done
	}
	return 0, float64(p.Window)
}

// regimeWork returns the work of a job that reports regimes; 0: it does not.
func regimeWork(j *sched.Job) float64 {
	if j.Perf == nil || len(j.Perf.Regimes) == 0 {
		return 0
	}
	return j.Work
}

// posterior returns the run time, in seconds, of the work done and the expected run
// time of the rest. The shares of the work in each regime have a Dirichlet
// distribution: at first all are as likely, with as much weight as the whole work, and
// work that was done in a regime adds to its weight.
func posterior(regimes []goodput.Regime, work, done float64) (spent, left float64) {
	counted := 0.0
	for _, g := range regimes {
		counted += g.Done
	}
	share, sum := 0.0, 0.0
	for _, g := range regimes {
		if g.Current {
			g.Done += max(0, done-counted) // since the report
		}
		spent += g.Done * g.Time
		rest := max(0, work*(work/float64(len(regimes))+g.Done)/(work+done)-g.Done)
		share += rest
		sum += rest * g.Time
	}
	if share > 0 {
		left = sum / share * max(0, work-done)
	}
	return spent, left
}

// trend returns the mean number of apps over the life of a job's app, relative to
// their number now.
func trend(s *sched.Snapshot, j *sched.Job) float64 {
	app, ok := s.App(j.App)
	if !ok || s.Apps() == 0 {
		return 1
	}
	return s.Contention(app) / float64(s.Apps())
}

// fate is when a job ends, and when it would in fair time. Times are in rounds.
type fate struct {
	age, total float64 // total run time
	now, mean  float64 // contention
}

// judge finds the rounds that a job must have to end in fair time, and its weight if
// it cannot.
func (p *policy) judge(x *job, f fate) {
	target := p.RhoMax * f.total * max(1, f.mean)
	if target <= 0 || x.left <= 0 {
		return
	}
	// After the window the job has its fair share.
	x.must = int(math.Ceil(min(1e6, max(0, x.left-(target-f.age-float64(p.Window))/f.now))))
	rho := p.RhoMax * (f.age + x.left*f.now) / target
	if !(rho > p.RhoMax) {
		return
	}
	power := p.Lambda
	if x.left <= 1 {
		const last = 100 // it would end within a round
		power = max(power, last)
	}
	x.weight = min(heaviest, math.Pow(rho/p.RhoMax, power))
}

// gpus returns the GPUs a job runs on or asks for.
func gpus(j *sched.Job) int {
	if j.Phase == sched.Running {
		return j.Placement.GPUs()
	}
	return j.GPUs
}
