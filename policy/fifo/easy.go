// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package fifo

import (
	"cmp"
	"slices"
	"time"

	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/place"
)

// reservation is when and where the first job that does not fit will start.
type reservation struct {
	head *sched.Job
	at   time.Time
	gpus sched.Placement
	held sched.Placement // the part of gpus that is free now, taken out of the view
}

// backfill is what backfilling works with. free is what the strict plan leaves.
type backfill struct {
	s     *sched.Snapshot
	free  *place.Free
	place place.Strategy
}

// overtake adds the jobs that may overtake the first one that does not fit to a
// strict plan.
func (b backfill) overtake(order []int, plan *sched.Plan) {
	s := b.s
	at := slices.IndexFunc(order, func(i int) bool { return place.Waits(*plan, i) })
	if at < 0 {
		return
	}
	r, ok := b.reserve(order[at], plan)
	if !ok {
		return
	}
	plan.Why[order[at]].Until = r.at
	quota := place.NewQuota(s)
	for i, j := range s.Jobs {
		quota.Add(j, plan.Want[i].GPUs())
	}
	r.hold(b.free)
	for _, i := range order[at+1:] {
		j := s.Jobs[i]
		if !place.Waits(*plan, i) {
			continue
		}
		if quota.Left(j) < j.GPUs {
			plan.Why[i] = quota.Why(j, j.GPUs)
			continue
		}
		left, known := j.Remaining(s.Now)
		if !known {
			continue
		}
		if p, ok := b.fit(&r, j, !s.Now.Add(left).After(r.at)); ok {
			quota.Add(j, j.GPUs)
			plan.Want[i], plan.Why[i] = p, sched.Reason{}
		}
	}
}

// reserve computes when and where job head can start if the jobs that run under the
// plan end as estimated and nothing else starts. It leaves free unchanged.
func (b backfill) reserve(head int, plan *sched.Plan) (reservation, bool) {
	s, free := b.s, b.free
	type end struct {
		at  time.Time
		job int
	}
	var ends []end
	for i, j := range s.Jobs {
		if len(plan.Want[i]) > 0 {
			if left, ok := j.Remaining(s.Now); ok {
				ends = append(ends, end{s.Now.Add(left), i})
			}
		}
	}
	slices.SortFunc(ends, func(a, b end) int {
		return cmp.Or(a.at.Compare(b.at), cmp.Compare(s.Jobs[a.job].Seq, s.Jobs[b.job].Seq))
	})
	j := s.Jobs[head]
	mark := free.Mark()
	defer func() { free.Rollback(mark) }()
	for _, e := range ends {
		free.Release(s.Jobs[e.job], plan.Want[e.job])
		if free.Total() < j.GPUs {
			continue
		}
		if p, ok := b.place(free, j, j.GPUs); ok {
			return reservation{head: j, at: e.at, gpus: p}, true
		}
	}
	return reservation{}, false
}

// hold takes the free GPUs of the reservation out of the view.
func (r *reservation) hold(free *place.Free) {
	r.held = r.held[:0]
	for _, s := range r.gpus {
		if s.GPUs &= free.OnNode(int(s.Node)); s.GPUs != 0 {
			r.held = append(r.held, s)
		}
	}
	free.Take(r.head, r.held)
}

// fit finds GPUs for a job that overtakes: outside the reservation or, if the job
// ends before the reservation begins, anywhere.
func (b backfill) fit(r *reservation, j *sched.Job, ends bool) (sched.Placement, bool) {
	if p, ok := b.place(b.free, j, j.GPUs); ok || !ends {
		return p, ok
	}
	b.free.Release(r.head, r.held)
	p, ok := b.place(b.free, j, j.GPUs)
	r.hold(b.free)
	return p, ok
}
