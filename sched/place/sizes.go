// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package place

import (
	"slices"

	"github.com/fairway-gpu/fairway/sched"
)

// Sizes are the GPUs that jobs are to have, by job; 0: as they are or ask for.
type Sizes []int

// Plan runs the jobs at their sizes, in order. A job that is to have another
// size than it has enters the queue as one that waits for it. If there is no
// place for it, it goes on as it was, or starts at its smallest size.
func (z Sizes) Plan(s *sched.Snapshot, queue Queue, order []int, free *Free) sched.Plan {
	shadow := *s
	shadow.Jobs = slices.Clone(s.Jobs)
	var other []int
	for _, i := range order {
		j := s.Jobs[i]
		have := j.GPUs
		if j.Phase == sched.Running {
			have = j.Placement.GPUs()
		}
		if z[i] == 0 || z[i] == have {
			continue
		}
		alias := *j
		alias.GPUs, alias.Phase, alias.Placement = z[i], sched.Pending, nil
		shadow.Jobs[i] = &alias
		other = append(other, i)
	}
	plan := queue.Plan(&shadow, order, free)
	if len(other) == 0 {
		return plan
	}
	quota := NewQuota(s)
	for i, j := range s.Jobs {
		quota.Add(j, plan.Want[i].GPUs())
	}
	for _, i := range other {
		if len(plan.Want[i]) > 0 {
			continue
		}
		if p, ok := asBefore(s.Jobs[i], queue.At(s.Now), free, quota); ok {
			plan.Want[i], plan.Why[i] = p, sched.Reason{}
			quota.Add(s.Jobs[i], p.GPUs())
		}
	}
	return plan
}

// asBefore takes the GPUs that a job has, or else any of its smallest size.
func asBefore(j *sched.Job, queue Queue, free *Free, quota Quota) (sched.Placement, bool) {
	if p := j.Placement; len(p) > 0 && quota.Left(j) >= p.GPUs() && free.Fits(j, p) {
		free.Take(j, p)
		return p, true
	}
	n := j.NextSize(0)
	if n == 0 || quota.Left(j) < n || !j.Elastic() || j.Pinned() {
		return nil, false
	}
	return queue.Place(free, j, n)
}
