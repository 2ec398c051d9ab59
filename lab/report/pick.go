// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"cmp"
	"slices"

	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sim"
)

// maxJobs bounds the jobs that the page shows one by one.
const maxJobs = 3000

// identity is what a job is independent of any policy. Jobs of two runs with the
// same identity are the same job and share a row.
type identity struct {
	id     sched.JobID
	app    sched.AppID
	tenant sched.TenantID
	model  string
	gpus   int
	submit float64
}

func identify(j *sim.JobResult) identity {
	return identity{id: j.ID, app: j.App, tenant: j.Tenant, model: j.Model, gpus: j.GPUs, submit: j.Submit}
}

// jobUnion is every job of every run once.
type jobUnion struct {
	jobs    []identity
	gpuTime []float64 // summed over the runs
	index   [][]int   // by run, by position in Result.Jobs: position in jobs
}

func uniteJobs(runs []*sim.Result) jobUnion {
	var u jobUnion
	known := map[identity]int{}
	for _, r := range runs {
		index := make([]int, len(r.Jobs))
		for i := range r.Jobs {
			job := identify(&r.Jobs[i])
			// Runs of one workload list the same jobs in the same order.
			at := i
			if at >= len(u.jobs) || u.jobs[at] != job {
				at = u.find(known, job)
			}
			index[i] = at
			if t := r.Jobs[i].GPUSeconds; finite(t) {
				u.gpuTime[at] += t
			}
		}
		u.index = append(u.index, index)
	}
	return u
}

// find returns the position of a job, which it adds if it is new.
func (u *jobUnion) find(known map[identity]int, job identity) int {
	if at, ok := known[job]; ok {
		return at
	}
	at := len(u.jobs)
	known[job] = at
	u.jobs, u.gpuTime = append(u.jobs, job), append(u.gpuTime, 0)
	return at
}

// pick returns the positions of at most limit jobs in order of submission:
// half of them those with the most GPU time, the rest an even sample of the
// others over the order of submission.
func (u *jobUnion) pick(limit int) []int {
	order := make([]int, len(u.jobs))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(u.jobs[a].submit, u.jobs[b].submit) })
	if len(order) <= limit {
		return order
	}
	largest := slices.Clone(order)
	slices.SortStableFunc(largest, func(a, b int) int { return cmp.Compare(u.gpuTime[b], u.gpuTime[a]) })
	chosen := make([]bool, len(u.jobs))
	for _, i := range largest[:limit/2] {
		chosen[i] = true
	}
	rest := slices.DeleteFunc(slices.Clone(order), func(i int) bool { return chosen[i] })
	sample := limit - limit/2
	for k := range sample {
		chosen[rest[k*len(rest)/sample]] = true
	}
	return slices.DeleteFunc(order, func(i int) bool { return !chosen[i] })
}
