// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package optimus

import (
	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/place"
)

// claim is what a job could use, and what it is given.
type claim struct {
	job     *sched.Job
	index   int  // in Snapshot.Jobs
	pinned  bool // it runs and may not be stopped
	elastic bool // it could use more than its smallest size

	least int // the size it is offered first
	most  int // the largest size it is offered
	// fit gives the step times if steps is empty.
	steps []float64 // by GPUs-1, in seconds
	fit   *Speed
	left  float64 // steps to the end, damped if the job is young

	pool int // GPU type of its share
	gpus int // its share; 0: none
}

// claims returns the claims of all jobs, in order of submission.
func (p *policy) claims(s *sched.Snapshot) []claim {
	p.fits.prune(len(s.Jobs))
	order := place.OrderBy(s, func(*sched.Job) (a, b float64) { return 0, 0 })
	out := make([]claim, len(order))
	for k, i := range order {
		out[k] = p.claim(s, s.Jobs[i])
		out[k].index = i
	}
	return out
}

func (p *policy) claim(s *sched.Snapshot, j *sched.Job) claim {
	c := claim{job: j, pinned: j.Phase == sched.Running && j.Pinned()}
	c.least = j.NextSize(0)
	if j.Pinned() {
		c.least = j.GPUs
	}
	c.most = c.least
	if j.Pinned() || !j.Elastic() || j.Perf == nil {
		return c
	}
	most := j.MaxGPUs
	if p.Form == Oracle {
		c.steps, c.left = j.Perf.Steps, j.Perf.Left
		most = min(most, len(c.steps))
	} else {
		f := p.fits.of(s, j)
		if !f.known {
			return c
		}
		c.fit, c.left = &f.speed, f.left
	}
	if j.Perf.MostGPUs > 0 {
		most = min(most, j.Perf.MostGPUs)
	}
	c.most = max(c.least, most)
	c.elastic = c.most > c.least
	// A job past its last step is about to end; it keeps its GPUs if no other job
	// wants them.
	c.left = max(1, c.left)
	if p.Form == Original && j.RanBy(s.Now) < p.Young.D() {
		c.left *= p.Damp
	}
	return c
}

// time returns the time of a step on n GPUs, in seconds.
func (c *claim) time(n int) float64 {
	if c.fit != nil {
		return c.fit.StepTime(n)
	}
	return c.steps[n-1]
}

// gain returns the next size of a job that has a share, and the time saved per
// additional GPU; ok is false if no size saves time.
func (c *claim) gain(most int) (next int, gain float64, ok bool) {
	if next = c.job.NextSize(c.gpus); next == 0 || next > most {
		return 0, 0, false
	}
	gain = (c.time(c.gpus) - c.time(next)) * c.left / float64(next-c.gpus)
	return next, gain, gain > 0
}

// before returns the largest size below n that the job can run at, if n is above
// its smallest; otherwise a number below its smallest.
func before(j *sched.Job, n int) int {
	task := j.Task()
	if len(j.Sizes) == 0 {
		return (n - 1) / task * task
	}
	best := 0
	for _, size := range j.Sizes {
		if size < n && size%task == 0 {
			best = size
		}
	}
	return best
}
