// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package auction

import (
	"cmp"
	"math"
	"slices"
)

// Times are in seconds throughout, work in iterations, and the serial time of
// an iteration is that on one GPU.

// IterTime returns how long an iteration takes on a number of GPUs of which the
// job can use at most so many; slowdown, 1 or more, is the price of where they
// are. Without GPUs it takes forever.
func IterTime(serial, slowdown float64, gpus, most int) float64 {
	n := min(gpus, most)
	if n <= 0 {
		return math.Inf(1)
	}
	return serial * slowdown / float64(n)
}

// Job is one training job of an app.
type Job struct {
	IterLeft   float64
	IterSerial float64
	Most       int // GPUs it can use
}

func (j Job) work() float64 { return j.IterLeft * j.IterSerial }

// Shared returns the finish time, from the start of the app, of a job on GPUs that
// it keeps to the end.
func (j Job) Shared(elapsed, slowdown float64, gpus int) float64 {
	if j.IterLeft <= 0 {
		return elapsed
	}
	return elapsed + j.IterLeft*IterTime(j.IterSerial, slowdown, gpus, j.Most)
}

// Split divides the GPUs of an app among its jobs. The result has one number for
// each job; work is in GPU-seconds. No job gets more than it can use.
type Split func(gpus int, jobs []Job) []int

// Evenly gives every job the same number, and the remainder to the longest jobs.
func Evenly(gpus int, jobs []Job) []int {
	order := longestFirst(jobs)
	out := make([]int, len(jobs))
	for gpus > 0 {
		given := false
		for _, j := range order {
			if gpus > 0 && out[j] < jobs[j].Most {
				out[j]++
				gpus--
				given = true
			}
		}
		if !given {
			break
		}
	}
	return out
}

// LongestFirst gives each GPU to the job that would end last, so that the last end
// is as early as possible.
func LongestFirst(gpus int, jobs []Job) []int {
	out := make([]int, len(jobs))
	for range gpus {
		last, end := -1, 0.0
		for j, job := range jobs {
			t := job.work() / float64(out[j]) // without GPUs: forever
			if job.work() > 0 && out[j] < job.Most && t > end {
				last, end = j, t
			}
		}
		if last < 0 {
			break
		}
		out[last]++
	}
	return out
}

func longestFirst(jobs []Job) []int {
	order := make([]int, len(jobs))
	for j := range order {
		order[j] = j
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(jobs[b].work(), jobs[a].work()) })
	return order
}

// Together returns how long jobs take until the last ends, on GPUs divided by a
// split (nil: Evenly). If there are fewer GPUs than jobs, the jobs queue for single
// GPUs, the longest first.
func Together(jobs []Job, slowdown float64, gpus int, split Split) float64 {
	jobs = slices.DeleteFunc(slices.Clone(jobs), func(j Job) bool { return j.work() <= 0 })
	switch {
	case len(jobs) == 0:
		return 0
	case gpus <= 0:
		return math.Inf(1)
	case gpus < len(jobs):
		return inTurn(jobs, slowdown, gpus)
	}
	if split == nil {
		split = Evenly
	}
	end := 0.0
	for j, n := range split(gpus, jobs) {
		end = max(end, jobs[j].Shared(0, slowdown, n))
	}
	return end
}

// inTurn runs each job on one GPU, the next job on the GPU that is free first.
func inTurn(jobs []Job, slowdown float64, gpus int) float64 {
	busy := make([]float64, gpus)
	for _, j := range longestFirst(jobs) {
		first := 0
		for g := range busy {
			if busy[g] < busy[first] {
				first = g
			}
		}
		busy[first] += jobs[j].Shared(0, slowdown, 1)
	}
	return slices.Max(busy)
}
