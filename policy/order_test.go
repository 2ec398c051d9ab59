// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"slices"
	"testing"
	"time"

	"github.com/fairway-gpu/fairway/policy"
	"github.com/fairway-gpu/fairway/sched"
)

// TestWaiting: who waits ahead of a job follows from the order, or from the submissions
// where there is none; jobs that run or may not start yet are not ahead.
func TestWaiting(t *testing.T) {
	now := time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)
	job := func(id string, priority int, phase sched.Phase) *sched.Job {
		return &sched.Job{Spec: sched.Spec{ID: sched.JobID(id), Priority: priority}, Status: sched.Status{Phase: phase}}
	}
	s := &sched.Snapshot{Now: now, Jobs: []*sched.Job{
		job("runs", 9, sched.Running), job("first", 0, sched.Pending), job("asked", 1, sched.Pending),
		job("urgent", 2, sched.Pending), job("paused", 2, sched.Pending),
	}}
	s.Jobs[4].Paused = true
	for i, j := range s.Jobs {
		j.Seq = int64(i)
	}
	for _, c := range []struct {
		order policy.Order
		want  []sched.JobID
	}{
		{nil, []sched.JobID{"first"}},
		{policy.Order{policy.ByPriority, policy.BySubmission}, []sched.JobID{"urgent"}},
		{policy.Order{policy.BySubmission}, []sched.JobID{"first"}},
	} {
		var got []sched.JobID
		for _, j := range c.order.Waiting(s, 2) {
			got = append(got, j.ID)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("by %q %v are ahead; want %v", c.order, got, c.want)
		}
	}
}
