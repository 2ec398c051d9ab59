// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"cmp"
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/fairway-gpu/fairway/policy"
	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/place"
)

// checkPromises holds a plan against what its policy promises. Drains and NoStarvation
// take more than one plan; see TestDrains and TestNoStarvation.
func checkPromises(t *rapid.T, s *sched.Snapshot, plan sched.Plan, promises policy.Promises) {
	for promise, check := range map[policy.Promises]func(*rapid.T, *sched.Snapshot, sched.Plan){
		policy.WorkConserving: checkConserves,
		policy.NeverPreempts:  checkKeeps,
		policy.InOrder:        checkOrder,
		policy.NoDelay:        checkNoDelay,
	} {
		if promises&promise != 0 {
			check(t, s, plan)
		}
	}
}

// checkConserves looks for a job that waits although it could run on what the
// plan leaves free.
func checkConserves(t *rapid.T, s *sched.Snapshot, plan sched.Plan) {
	free, quota := place.NewFree(s.Cluster), place.NewQuota(s)
	for i, j := range s.Jobs {
		free.Take(j, plan.Want[i])
		quota.Add(j, plan.Want[i].GPUs())
	}
	for i, j := range s.Jobs {
		if len(plan.Want[i]) > 0 || !j.Ready(s.Now) || quota.Left(j) < j.GPUs || j.Consolidate {
			continue // a job that must be consolidated may wait for a better place
		}
		mark := free.Mark()
		if p, ok := place.Consolidated(free, j, j.GPUs); ok {
			t.Errorf("job %s waits (%s) and could run on %s", j.ID, plan.Why[i].Text(s.Cluster), p.Text(s.Cluster))
		}
		free.Rollback(mark)
	}
}

// checkKeeps looks for a running job that loses GPUs.
func checkKeeps(t *rapid.T, s *sched.Snapshot, plan sched.Plan) {
	for i, j := range s.Jobs {
		if j.Phase == sched.Running && !plan.Want[i].Equal(j.Placement) {
			t.Errorf("job %s loses %s; the policy never stops a job", j.ID, j.Placement.Text(s.Cluster))
		}
	}
}

// checkOrder looks for a job that starts although one ahead of it waits for GPUs.
func checkOrder(t *rapid.T, s *sched.Snapshot, plan sched.Plan) {
	if head, after := overtaken(s, plan); len(after) > 0 {
		t.Errorf("job %s starts before job %s, which waits (%s)", s.Jobs[after[0]].ID, s.Jobs[head].ID, plan.Why[head].Text(s.Cluster))
	}
}

// checkNoDelay looks for a first job that could not start at the time of its
// reservation, if the jobs that run under the plan end as estimated.
func checkNoDelay(t *rapid.T, s *sched.Snapshot, plan sched.Plan) {
	head, after := overtaken(s, plan)
	if len(after) == 0 {
		return
	}
	first, until := s.Jobs[head], plan.Why[head].Until
	if until.IsZero() {
		t.Errorf("job %s overtakes job %s, which has no reservation (%s)", s.Jobs[after[0]].ID, first.ID, plan.Why[head].Text(s.Cluster))
		return
	}
	free := place.NewFree(s.Cluster)
	for i, j := range s.Jobs {
		if left, known := j.Remaining(s.Now); !known || s.Now.Add(left).After(until) {
			free.Take(j, plan.Want[i])
		}
	}
	if _, ok := place.Consolidated(free, first, first.GPUs); !ok {
		t.Errorf("job %s overtakes job %s, which can then not start in %s as reserved", s.Jobs[after[0]].ID, first.ID, until.Sub(s.Now).Round(time.Second))
	}
}

// overtaken returns the first job, by priority and submission, that waits for GPUs,
// and the jobs behind it that start. A job that waits for its tenant's limit or for
// the end of a back-off, or that no empty cluster could host, does not wait for GPUs.
func overtaken(s *sched.Snapshot, plan sched.Plan) (head int, after []int) {
	order := make([]int, len(s.Jobs))
	quota := place.NewQuota(s)
	for i, j := range s.Jobs {
		order[i] = i
		quota.AddMilli(j, j.Placement.Milli())
	}
	slices.SortFunc(order, func(a, b int) int {
		x, y := s.Jobs[a], s.Jobs[b]
		return cmp.Or(cmp.Compare(y.Priority, x.Priority), cmp.Compare(x.Seq, y.Seq))
	})
	head = -1
	for _, i := range order {
		j := s.Jobs[i]
		switch want := plan.Want[i]; {
		case j.Phase == sched.Running:
		case len(want) > 0:
			quota.AddMilli(j, want.Milli())
			if head >= 0 {
				after = append(after, i)
			}
		case head < 0 && j.Ready(s.Now) && quota.Left(j) >= j.GPUs &&
			place.NewFree(s.Cluster).Ever(j, j.GPUs, sched.CrossRack) >= j.GPUs:
			head = i
		}
	}
	return head, after
}
