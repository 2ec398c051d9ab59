// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"cmp"
	"slices"

	"github.com/fairway-gpu/fairway/sched/num"
	"github.com/fairway-gpu/fairway/sim"
)

// FailureStat is the paper's table 7: failed attempts.
type FailureStat struct {
	Trials  int          `json:"trials"`  // failed attempts
	Jobs    int          `json:"jobs"`    // with at least one
	PerJob  float64      `json:"per_job"` // failed attempts of a job that fails
	Reasons []ReasonStat `json:"reasons,omitempty"`
}

// ReasonStat describes the failures for one reason, most frequent first.
type ReasonStat struct {
	Reason string `json:"reason"`
	Trials int    `json:"trials"`
	Jobs   int    `json:"jobs"`
	Users  int    `json:"users"`
	// Run time to failure.
	P50   float64 `json:"p50_s"`
	P90   float64 `json:"p90_s"`
	P95   float64 `json:"p95_s"`
	Share float64 `json:"rtf_share"` // of the summed run time to failure
	// GPUTimeShare is the share of the summed run time to failure x GPUs.
	GPUTimeShare float64 `json:"rtf_gpu_share"`
	BySize       [3]int  `json:"by_size"` // trials of jobs of 1, 2 to 4, and more GPUs
}

// reasonSums collects the failures for one reason.
type reasonSums struct {
	stat    ReasonStat
	seconds []float64
	users   map[string]bool
}

func failureStats(wl *sim.Workload) FailureStat {
	var f FailureStat
	byReason := map[string]*reasonSums{}
	var total, totalGPU float64
	for i := range wl.Work {
		w := &wl.Work[i]
		if len(w.Failures) > 0 {
			f.Jobs++
		}
		for k, fail := range w.Failures {
			r := byReason[fail.Reason]
			if r == nil {
				r = &reasonSums{stat: ReasonStat{Reason: fail.Reason}, users: map[string]bool{}}
				byReason[fail.Reason] = r
			}
			seconds := fail.After.D().Seconds()
			f.Trials++
			total += seconds
			totalGPU += seconds * float64(w.GPUs)
			r.seconds = append(r.seconds, seconds)
			r.stat.Trials++
			r.stat.Share += seconds
			r.stat.GPUTimeShare += seconds * float64(w.GPUs)
			r.stat.BySize[sizeClass(w.GPUs)]++
			if w.User != "" {
				r.users[w.User] = true
			}
			if !failedBefore(w.Failures[:k], fail.Reason) {
				r.stat.Jobs++
			}
		}
	}
	f.PerJob = ratio(f.Trials, f.Jobs)
	for _, r := range byReason {
		s := &r.stat
		s.Users = len(r.users)
		s.P50, s.P90, s.P95 = num.Quantile(r.seconds, 0.5), num.Quantile(r.seconds, 0.9), num.Quantile(r.seconds, 0.95)
		s.Share, s.GPUTimeShare = div(s.Share, total), div(s.GPUTimeShare, totalGPU)
		f.Reasons = append(f.Reasons, *s)
	}
	slices.SortFunc(f.Reasons, func(a, b ReasonStat) int {
		return cmp.Or(cmp.Compare(b.Trials, a.Trials), cmp.Compare(a.Reason, b.Reason))
	})
	return f
}

func failedBefore(earlier []sim.Failure, reason string) bool {
	return slices.ContainsFunc(earlier, func(f sim.Failure) bool { return f.Reason == reason })
}
