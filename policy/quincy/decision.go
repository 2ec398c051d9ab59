// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package quincy

import (
	"cmp"
	"slices"
	"time"

	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/place"
)

// verdict says where a job goes.
type verdict uint8

const (
	left  verdict = iota // out
	other                // not where it runs, or anywhere if it does not run
	stays
)

// decision is the work on one plan.
type decision struct {
	*policy
	s       *sched.Snapshot
	order   []int           // all jobs by submission
	delay   []time.Duration // by job: the cost per GPU of leaving it out
	verdict []verdict       // by job
	first   []int           // gangs for which room was made
}

func newDecision(p *policy, s *sched.Snapshot) *decision {
	d := &decision{
		policy: p, s: s, order: place.OrderBy(s, func(*sched.Job) (a, b float64) { return 0, 0 }),
		delay: make([]time.Duration, len(s.Jobs)), verdict: make([]verdict, len(s.Jobs)),
	}
	for i, j := range s.Jobs {
		d.delay[i] = p.delayOf(s, j)
	}
	return d
}

// delayOf returns the cost per GPU of leaving a job out.
func (p *policy) delayOf(s *sched.Snapshot, j *sched.Job) time.Duration {
	const most = 10 * 365 * 24 * time.Hour // keeps sums of costs from overflowing
	since := min(most, max(0, s.Now.Sub(j.Since)))
	if j.Phase == sched.Running {
		return p.Idle.D() + p.Preempt.D() + min(since, p.Preempt.D())
	}
	return p.Idle.D() + since
}

// gpus returns the GPUs a job runs on or asks for.
func gpus(j *sched.Job) int {
	if j.Phase == sched.Running {
		return j.Placement.GPUs()
	}
	return j.GPUs
}

// taking returns the jobs that are part of the flow: those that run and may be
// stopped, and the waiting ones with the largest delay. Jobs that may not be
// stopped stay.
func (d *decision) taking() []int {
	running, waiting := make([]int, 0, len(d.order)), make([]int, 0, len(d.order))
	for _, i := range d.order {
		switch j := d.s.Jobs[i]; {
		case j.Phase == sched.Running && j.Pinned():
			d.verdict[i] = stays
		case j.Phase == sched.Running:
			running = append(running, i)
		case j.Ready(d.s.Now) && d.free.Ever(j, j.GPUs, sched.CrossRack) >= j.GPUs:
			waiting = append(waiting, i)
		}
	}
	d.byDelay(waiting)
	waiting = waiting[:min(len(waiting), d.Window)]
	return append(running, waiting...)
}

// byDelay puts the job with the largest delay first, then the one submitted
// first.
func (d *decision) byDelay(jobs []int) {
	slices.SortFunc(jobs, func(a, b int) int {
		if d.delay[a] != d.delay[b] {
			return cmp.Compare(d.delay[b], d.delay[a])
		}
		return cmp.Compare(d.s.Jobs[a].Seq, d.s.Jobs[b].Seq)
	})
}
