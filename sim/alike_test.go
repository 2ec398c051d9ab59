// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"testing"

	"github.com/fairway-gpu/fairway/sched"
)

// TestAverageAlike: runs of the same jobs are compared over those that ended in all of
// them. A long job that has not ended in one run must not make another look slow.
func TestAverageAlike(t *testing.T) {
	job := func(id sched.JobID, start, end float64) JobResult {
		return JobResult{ID: id, Start: start, Wait: start, End: end, JCT: end}
	}
	was := &Result{Jobs: []JobResult{job("a", 1, 10), job("b", 3, 30), job("long", 5, -1)}}
	now := &Result{Jobs: []JobResult{job("a", 2, 20), job("b", 4, 40), job("long", 50, 1000)}}
	was.Summarise(100)
	now.Summarise(1000)
	if left := AverageAlike(was, now); left != 1 {
		t.Errorf("%d jobs left out; want 1", left)
	}
	for _, c := range []struct {
		res                 *Result
		jct, wait, makespan float64
		unfinished          int
	}{{was, 20, 2, 30, 1}, {now, 30, 3, 40, 0}} {
		s := c.res.Summary
		if s.AvgJCT != c.jct || s.AvgWait != c.wait || s.Makespan != c.makespan || s.Unfinished != c.unfinished || s.Averaged != 2 {
			t.Errorf("%+v; want JCT %g, wait %g, makespan %g over 2 jobs, %d unfinished", s, c.jct, c.wait, c.makespan, c.unfinished)
		}
	}
}
