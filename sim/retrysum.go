// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"cmp"
	"slices"
	"time"
)

// FaultSummary is the cost of failures in a run with Config.Faults.
type FaultSummary struct {
	Adaptive bool    `json:"adaptive"`
	Attempts int     `json:"attempts"`           // failed attempts
	Wasted   float64 `json:"wasted_gpu_seconds"` // held by failed attempts, including screenings

	Screenings int     `json:"screenings"` // runs in the pool
	ScreenGPUs float64 `json:"screening_gpu_seconds"`
	Trusted    int     `json:"trusted"`     // jobs that skipped the pool
	Caught     int     `json:"caught"`      // failures in the pool
	CaughtJobs int     `json:"caught_jobs"` // jobs that failed there

	GivenUp     int `json:"given_up"`    // jobs that were not retried
	Resubmitted int `json:"resubmitted"` // jobs that were given up and submitted again
	Rescued     int `json:"rescued"`     // jobs that succeeded but failed in the recording

	NodeFailures int     `json:"node_failures"`    // attempts broken by bad nodes
	Quarantines  int     `json:"quarantines"`      // of nodes
	Wrong        int     `json:"wrong"`            // of these, of nodes that were not bad during the failures considered
	NodeHours    float64 `json:"quarantine_hours"` // node-hours in quarantine, as first set

	Reasons []FaultCount `json:"reasons,omitempty"` // by waste
	Sizes   []FaultCount `json:"sizes"`             // of jobs
}

// FaultCount is the cost of one kind of failure.
type FaultCount struct {
	Name     string  `json:"name"`
	Attempts int     `json:"attempts"`
	Caught   int     `json:"caught"` // of these, in the pool
	Wasted   float64 `json:"wasted_gpu_seconds"`
}

// restore resets a job that failed because of its node to its last checkpoint.
func (f *faults) restore(r *run, j *job, reason string) {
	lost := min(j.ran%f.Checkpoint, r.now-j.state.Since.Sub(r.start))
	wasted := j.gpuShare() * lost.Seconds()
	f.book(r, j, reason, wasted)
	j.ran -= lost
	j.done = max(0, j.done-j.speed*lost.Seconds())
	j.spent = max(0, j.spent-wasted)
	j.attained += wasted
	j.hardware.lose(wasted)
	r.record.lostGPU += wasted
}

// book counts a failed attempt, before the job leaves its GPUs.
func (f *faults) book(r *run, j *job, reason string, wasted float64) {
	of := f.reasons[reason]
	if of == nil {
		of = &FaultCount{Name: reason}
		f.reasons[reason] = of
	}
	for _, c := range []*FaultCount{of, &f.sizes[bucketOf(j.work.GPUs)]} {
		c.Attempts++
		c.Wasted += wasted
		if j.state.Screening {
			c.Caught++
		}
	}
	f.sum.Attempts++
	f.sum.Wasted += wasted
	if j.state.Screening {
		f.sum.Caught++
		if !j.caught {
			j.caught = true
			f.sum.CaughtJobs++
		}
	}
}

// quarantined counts a node that is quarantined, or whose quarantine is extended.
func (s *FaultSummary) quarantined(now, until time.Duration, bad, was bool) {
	s.NodeHours += (until - now).Hours()
	if was {
		return
	}
	s.Quarantines++
	if !bad {
		s.Wrong++
	}
}

// reportFaults adds the summary to the result.
func (r *run) reportFaults(res *Result) {
	f := r.faults
	if f == nil {
		return
	}
	f.sum.Adaptive = f.Adaptive
	for _, c := range f.reasons {
		f.sum.Reasons = append(f.sum.Reasons, *c)
	}
	slices.SortFunc(f.sum.Reasons, func(a, b FaultCount) int {
		return cmp.Or(cmp.Compare(b.Wasted, a.Wasted), cmp.Compare(a.Name, b.Name))
	})
	for i, c := range f.sizes {
		c.Name = sizeBuckets[i].name
		f.sum.Sizes = append(f.sum.Sizes, c)
	}
	res.Faults = &f.sum
}
