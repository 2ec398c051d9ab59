// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sim"
)

func TestUniteJobsSharesRows(t *testing.T) {
	a := sim.JobResult{ID: "a", Submit: 1, GPUSeconds: 10}
	b := sim.JobResult{ID: "b", Submit: 2, GPUSeconds: 5}
	other := sim.JobResult{ID: "b", Submit: 3, GPUSeconds: 7} // of another workload
	u := uniteJobs([]*sim.Result{
		{Jobs: []sim.JobResult{a, b}}, {Jobs: []sim.JobResult{a, b}}, {Jobs: []sim.JobResult{b, other}},
	})
	if diff := cmp.Diff([][]int{{0, 1}, {0, 1}, {1, 2}}, u.index); diff != "" {
		t.Errorf("index (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]float64{20, 15, 7}, u.gpuTime); diff != "" {
		t.Errorf("GPU time (-want +got):\n%s", diff)
	}
}

func TestPickTakesTheLargestAndAnEvenSample(t *testing.T) {
	const n, limit = 10_000, 100
	r := &sim.Result{}
	for i := range n {
		j := sim.JobResult{ID: sched.JobID(fmt.Sprint(i)), Submit: float64(n - i), GPUSeconds: 1}
		if i%200 == 7 { // 50 of them
			j.GPUSeconds = 1000
		}
		r.Jobs = append(r.Jobs, j)
	}
	u := uniteJobs([]*sim.Result{r})
	got := u.pick(limit)
	if len(got) != limit {
		t.Fatalf("%d jobs picked; want %d", len(got), limit)
	}
	if !slices.IsSortedFunc(got, func(a, b int) int { return b - a }) {
		t.Error("jobs are not in order of submission")
	}
	var large, early int
	for _, i := range got {
		if u.gpuTime[i] == 1000 {
			large++
		} else if u.jobs[i].submit <= n/2 {
			early++
		}
	}
	if large != 50 || early < 24 || early > 26 {
		t.Errorf("%d large jobs and %d of the first half among the others; want 50 and 25", large, early)
	}
	if all := u.pick(n); len(all) != n {
		t.Errorf("%d jobs picked with room for all; want %d", len(all), n)
	}
}
