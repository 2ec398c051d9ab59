// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package slaq

import (
	"math"

	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/goodput"
)

// fit is what the policy derives from a report.
type fit struct {
	report  *goodput.Report // immutable, so its address identifies its content
	gpuType sched.GPUType   // whose step times were used

	known  bool
	loss   curve
	step   float64 // the current training step
	fall   float64 // the largest fall of the loss so far
	speeds speeds
}

// fits caches the fits of jobs.
type fits map[sched.JobID]*fit

// prune clears the cache when most of it belongs to jobs that have ended.
func (f fits) prune(jobs int) {
	if len(f) > 2*jobs+100 {
		clear(f)
	}
}

// of returns the fit of a job that has reported.
func (f fits) of(s *sched.Snapshot, j *sched.Job, decay float64) *fit {
	var t sched.GPUType
	if j.Phase == sched.Running {
		t = s.Cluster.Nodes[j.Placement[0].Node].Type
	}
	if old := f[j.ID]; old != nil && old.report == j.Perf && old.gpuType == t {
		return old
	}
	next := &fit{report: j.Perf, gpuType: t, speeds: speedsOn(j.Perf.StepTimes, t)}
	if len(next.speeds) > 0 {
		next.loss, next.known = fitCurve(j.Perf.Losses, decay)
	}
	if next.known {
		low, high := math.Inf(1), math.Inf(-1)
		for _, p := range usable(j.Perf.Losses) {
			low, high = min(low, p.Loss), max(high, p.Loss)
			next.step = max(next.step, p.Step)
		}
		next.fall = high - low
		next.known = next.fall > 0
	}
	f[j.ID] = next
	return next
}

// claim is what a job could use.
type claim struct {
	job   *sched.Job
	index int  // in Snapshot.Jobs
	plain bool // it reports no losses: served by fair share
	least int  // its smallest size
	most  int  // its largest size
	fit   *fit // nil: nothing is known yet

	epoch   float64 // seconds
	restart float64
}

func (p *policy) claim(s *sched.Snapshot, i int) claim {
	j := s.Jobs[i]
	c := claim{
		job: j, index: i, plain: j.Perf == nil || len(j.Perf.Losses) == 0 && !j.Perf.Runs(), least: j.NextSize(0),
		epoch: p.Epoch.D().Seconds(), restart: p.Restart.D().Seconds(),
	}
	if !j.Elastic() || j.Pinned() || c.plain || c.least == 0 {
		c.least = j.GPUs
	}
	c.most = c.least
	if c.plain {
		return c
	}
	if f := p.fits.of(s, j, p.Decay); f.known {
		c.fit = f
	}
	if j.Elastic() && !j.Pinned() {
		most := j.MaxGPUs
		if j.Perf.MostGPUs > 0 {
			most = min(most, j.Perf.MostGPUs)
		}
		c.most = max(c.least, most)
	}
	return c
}

// gain returns the normalised fall of the loss in the next epoch on n GPUs.
func (c *claim) gain(n int) float64 {
	if n == 0 {
		return 0
	}
	left := c.epoch
	if c.job.Phase == sched.Running && n != c.job.Placement.GPUs() {
		left -= c.restart
	}
	if c.fit == nil {
		return (1 - math.Exp2(-float64(n)/float64(c.least))) * left / c.epoch
	}
	f := c.fit
	return (f.loss.at(f.step) - f.loss.at(f.step+left*f.speeds.at(n))) / f.fall
}

// step returns the size above n with the largest gain per additional GPU; ok is
// false if no size gains.
func (c *claim) step(n int) (to int, gain float64, ok bool) {
	have := c.gain(n)
	for m := c.job.NextSize(n); m > 0 && m <= c.most; m = c.job.NextSize(m) {
		if g := (c.gain(m) - have) / float64(m-n); g > gain {
			to, gain = m, g
		}
	}
	return to, gain, to > 0
}
