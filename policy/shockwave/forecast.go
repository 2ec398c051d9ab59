// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package shockwave

import (
	"math"

	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/place"
)

// job is what a plan knows about a job. Times are in rounds.
type job struct {
	index  int     // in Snapshot.Jobs
	gpus   int     // that it needs in each round
	done   float64 // run time so far
	left   float64 // remaining run time
	weight float64
	rank   float64 // larger goes first, among jobs with rounds
}

// heaviest bounds weights, so that sums of them stay finite.
const heaviest = 1e12

// forecast returns the jobs to plan for, in order of submission. Jobs that may not
// start now come last, without weight.
func (p *policy) forecast(s *sched.Snapshot) []job {
	round := p.Round.D().Seconds()
	asked := 0
	for _, j := range s.Jobs {
		asked += gpus(j)
	}
	contention := max(1, float64(asked)/float64(max(1, s.Cluster.GPUs())))
	jobs := make([]job, 0, len(s.Jobs))
	for _, i := range place.OrderBy(s, func(*sched.Job) (a, b float64) { return 0, 0 }) {
		j := s.Jobs[i]
		x := job{index: i, gpus: gpus(j)}
		left, ok := j.Remaining(s.Now)
		x.left = left.Seconds() / round
		x.done = j.Estimate.D().Seconds()/round - x.left
		if !ok {
			x.done = j.RanBy(s.Now).Seconds() / round
			if x.left = x.done; x.done == 0 {
				x.left = float64(p.Window)
			}
		}
		if (j.Phase == sched.Pending && !j.Ready(s.Now)) || p.free.Ever(j, x.gpus, sched.CrossRack) < x.gpus {
			x.left = 0 // nothing to plan
		}
		rho := (j.Age(s.Now).Seconds()/round + x.left*contention) / ((x.done + x.left) * contention)
		x.weight = p.weigh(rho, x.left)
		if x.rank = x.weight; j.Phase == sched.Running {
			x.rank *= p.Stick
		}
		jobs = append(jobs, x)
	}
	return jobs
}

// weigh returns the weight of a job by its finish-time fairness.
func (p *policy) weigh(rho, left float64) float64 {
	if !(rho > p.RhoMax) || math.IsInf(rho, 1) { // also NaN: a job that needs no time
		return 1
	}
	power := p.Lambda
	if left <= 1 {
		const last = 100 // it would end within a round
		power = max(power, last)
	}
	return min(heaviest, math.Pow(rho/p.RhoMax, power))
}

// gpus returns the GPUs a job runs on or asks for.
func gpus(j *sched.Job) int {
	if j.Phase == sched.Running {
		return j.Placement.GPUs()
	}
	return j.GPUs
}

// begun is the fraction of its work that a new job is assumed to have done: the
// logarithm of zero is not finite.
const begun = 0.01

// value returns the value of a job's progress after n rounds.
func (x *job) value(n int) float64 {
	total := x.done + x.left
	if total <= 0 {
		return 0
	}
	return x.weight * math.Log(begun+(1-begun)*min(1, (x.done+float64(n))/total))
}

// most returns the most rounds of a window that a job can use.
func (x *job) most(window int) int { return min(window, int(math.Ceil(min(x.left, float64(window))))) }

// least returns the fewest rounds after which a job has at most that much left.
func (x *job) least(bound float64, window int) int {
	return min(x.most(window), max(0, int(math.Ceil(x.left-bound))))
}

// longest returns the longest time left of any job.
func longest(jobs []job, rounds []int) float64 {
	out := 0.0
	for k := range jobs {
		left := jobs[k].left
		if rounds != nil {
			left -= float64(rounds[k])
		}
		out = max(out, left)
	}
	return out
}
