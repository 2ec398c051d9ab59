// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package forecast

import (
	"container/heap"
	"math"
	"time"

	"github.com/fairway-gpu/fairway/sched"
)

// Coarse forecasts one start without asking the policy: the jobs ahead start in their
// order, then the job, each as soon as enough GPUs are free anywhere, and none is
// preempted. If the policy does preempt, the job may start sooner, at any moment, and does so
// in some futures. By promised, unless that is zero, the policy will have started it. It takes
// a few milliseconds for each thousand jobs. ok is false if the job waits for others about
// which nothing is known.
func Coarse(s *sched.Snapshot, c Config, ahead []*sched.Job, j *sched.Job, promised time.Time) (r Range, ok bool) {
	c.fill()
	waits := make([]float64, c.Samples)
	for i := range waits {
		wait := c.poolStart(s, i, ahead, j)
		if !promised.IsZero() {
			wait = min(wait, max(0, promised.Sub(s.Now).Seconds()))
		}
		if c.Preempts {
			wait = min(wait, sooner*wait*c.rand(-1-i).ExpFloat64())
		}
		waits[i] = wait
	}
	r = quantiles(s.Now, waits)
	return r, !r.Early.IsZero()
}

// sooner is the mean time to a start by preemption, over the wait without one: so that two of
// five jobs start in that way.
const sooner = 2

// poolStart returns the seconds until the job starts in one future.
func (c *Config) poolStart(s *sched.Snapshot, sample int, ahead []*sched.Job, j *sched.Job) float64 {
	left := c.Future(c.rand(sample))
	free := s.Cluster.GPUs()
	var busy ends
	begin := func(j *sched.Job, gpus int, now float64) {
		free -= gpus
		at := math.Inf(1)
		if d, ok := left(j); ok {
			at = now + d.Seconds()
		}
		heap.Push(&busy, holding{at, gpus})
	}
	for _, r := range s.Jobs {
		if r.Phase == sched.Running {
			begin(r, r.Placement.GPUs(), 0)
		}
	}
	now := 0.0
	start := func(j *sched.Job) bool {
		for free < j.StartSize() {
			if len(busy) == 0 {
				return false
			}
			h := heap.Pop(&busy).(holding)
			now, free = max(now, h.until), free+h.gpus
		}
		return !math.IsInf(now, 1)
	}
	for _, a := range ahead {
		if a.StartSize() > s.Cluster.GPUs() {
			continue
		}
		if !start(a) {
			return math.Inf(1)
		}
		begin(a, a.StartSize(), now)
	}
	if !start(j) {
		return math.Inf(1)
	}
	return now
}

// holding says until when GPUs are held, in seconds from now.
type holding struct {
	until float64
	gpus  int
}

// ends implements heap.Interface: the first end first.
type ends []holding

func (e ends) Len() int           { return len(e) }
func (e ends) Less(i, k int) bool { return e[i].until < e[k].until }
func (e ends) Swap(i, k int)      { e[i], e[k] = e[k], e[i] }
func (e *ends) Push(x any)        { *e = append(*e, x.(holding)) }
func (e *ends) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}
