// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package carbyne

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/fairway-gpu/fairway/policy/filling"
	"github.com/fairway-gpu/fairway/sched"
)

// ends are the promised ends, by job, in whole seconds after submission; 0: none.
type ends []int

// at returns the promised end of a job; ok is false if it has none.
func (j promised) at() (time.Time, bool) {
	return j.job.Submitted.Add(time.Duration(j.end) * time.Second), j.end > 0
}

type promised struct {
	job *sched.Job
	end int
}

// longest bounds a promise, in seconds: a century. It also excludes +Inf and NaN.
const longest = 100 * 365 * 24 * 3600

// promises returns what each job was promised before, or what its fair share
// promises now.
func promises(s *sched.Snapshot, by string) ends {
	out := make(ends, len(s.Jobs))
	parties, of := filling.Parties(s, by)
	shares := fairGPUs(parties, s.Cluster.GPUs())
	ahead := make([]float64, len(parties)) // GPU-seconds of the jobs so far; +Inf: unknown
	for _, i := range filling.BySeq(s) {
		j := s.Jobs[i]
		k := of[i]
		left, ok := j.Remaining(s.Now)
		if !ok {
			ahead[k] = math.Inf(1)
		}
		ahead[k] += left.Seconds() * float64(j.GPUs)
		if out[i] = j.Note.Count; out[i] > 0 {
			continue
		}
		if need := max(left.Seconds(), ahead[k]/shares[k]); need < longest {
			out[i] = max(1, int(math.Ceil(s.Now.Sub(j.Submitted).Seconds()+need)))
		}
	}
	return out
}

// note stores the promises in the plan. A job that can wait is never marked as the
// first waiting one.
func (e ends) note(s *sched.Snapshot, patient []bool, plan *sched.Plan) {
	for i, j := range s.Jobs {
		have := j.Note
		if plan.Notes != nil {
			have = plan.Notes[i]
		}
		next := have
		if next.Count = e[i]; patient[i] {
			next = sched.Note{Count: e[i]}
		}
		if have == next {
			continue
		}
		if plan.Notes == nil {
			plan.Notes = make([]sched.Note, len(s.Jobs))
			for k, other := range s.Jobs {
				plan.Notes[k] = other.Note
			}
		}
		plan.Notes[i] = next
	}
}

// fairGPUs returns what each party would have if GPUs were divisible: an equal part
// for each unit of weight, and no more than it can use.
func fairGPUs(parties []*filling.Party, gpus int) []float64 {
	order := make([]int, len(parties))
	weights := 0.0
	for k, p := range parties {
		order[k] = k
		weights += p.Weight
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Compare(parties[a].Demand/parties[a].Weight, parties[b].Demand/parties[b].Weight)
	})
	shares := make([]float64, len(parties))
	left := float64(gpus)
	for _, k := range order {
		p := parties[k]
		shares[k] = min(p.Demand, left*min(1, p.Weight/weights))
		left = max(0, left-shares[k])
		weights -= p.Weight
	}
	return shares
}

// latest returns until when a job with a promised end can do without its GPUs, less
// a lease during which they cannot be taken back; zero if unknown. A running job
// needs two leases: a shorter pause is not worth a restart.
func (p *policy) latest(s *sched.Snapshot, j *sched.Job, end int) time.Time {
	left, ok := j.Remaining(s.Now)
	at, promised := promised{j, end}.at()
	if !ok || !promised {
		return time.Time{}
	}
	pause := p.Lease.D()
	if j.Phase == sched.Running {
		pause *= 2
	}
	return at.Add(-time.Duration(float64(left)*(1+p.Margin)) - pause)
}

// need returns how many GPUs a job needs now to keep its promise.
func (p *policy) need(s *sched.Snapshot, j *sched.Job, end int) int {
	latest := p.latest(s, j, end)
	if latest.IsZero() || !p.Altruism {
		return size(j)
	}
	if !j.Elastic() || j.Pinned() {
		if latest.After(s.Now) {
			return 0
		}
		return size(j)
	}
	left, _ := j.Remaining(s.Now)
	at, _ := promised{j, end}.at()
	work := left.Seconds() * (1 + p.Margin) * float64(j.GPUs)
	for n := j.NextSize(0); n > 0 && n < j.GPUs; n = j.NextSize(n) {
		if work/float64(n) <= at.Sub(s.Now).Seconds() {
			return n
		}
	}
	return j.GPUs
}

// size returns the GPUs of a job's share: what it holds if that cannot change, else
// what it asks for.
func size(j *sched.Job) int {
	if j.Phase == sched.Running && (!j.Elastic() || j.Pinned()) {
		return j.Placement.GPUs()
	}
	return j.GPUs
}
