// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"math"

	"github.com/fairway-gpu/fairway/sim/trace"
)

// statsOutcome is how some of the jobs end, next to table 6 of the paper.
type statsOutcome struct {
	Name    string `json:"name"`
	Jobs    int    `json:"jobs"`
	Share   num    `json:"share"`
	GPUTime num    `json:"gpu_time"`
	// Of the paper.
	PaperShare   num `json:"paper_share"`
	PaperGPUTime num `json:"paper_gpu_time"`
}

func newStatsOutcomes(outcomes []trace.OutcomeStat, k knowledge) []statsOutcome {
	out := []statsOutcome{}
	for _, o := range outcomes {
		row := statsOutcome{
			Name: o.Outcome.String(), Jobs: o.Jobs,
			Share: share(o.Share), GPUTime: k.timed(o.GPUTimeShare),
			PaperShare: num(math.NaN()), PaperGPUTime: num(math.NaN()),
		}
		for _, p := range paperOutcomes {
			if p.end == o.Outcome {
				row.Name, row.PaperShare, row.PaperGPUTime = p.name, percent(p.jobs), percent(p.gpuTime)
			}
		}
		out = append(out, row)
	}
	return out
}

// statsUtil is the utilisation of GPUs for one size, next to table 3 of the
// paper: of jobs that passed, were killed, were unsuccessful, and of all.
type statsUtil struct {
	GPUs  int  `json:"gpus"` // 0: all sizes
	Jobs  int  `json:"jobs"`
	Util  nums `json:"util"`
	Paper nums `json:"paper"`
}

func newStatsUtil(util []trace.UtilStat) []statsUtil {
	out := []statsUtil{}
	for _, u := range util {
		row := statsUtil{GPUs: u.GPUs, Jobs: u.Jobs, Paper: nums{}}
		for _, v := range []float64{u.Passed, u.Killed, u.Failed, u.All} {
			if v == 0 { // no such job reports it
				v = math.NaN()
			}
			row.Util = append(row.Util, round(v))
		}
		for _, p := range paperUtils {
			if p.gpus == u.GPUs {
				row.Paper = nums{p.passed / 100, p.killed / 100, p.failed / 100, p.all / 100}
			}
		}
		out = append(out, row)
	}
	return out
}

// statsFailures are the attempts that fail, next to table 7 of the paper.
type statsFailures struct {
	Trials      int           `json:"trials"`
	Jobs        int           `json:"jobs"`
	PerJob      num           `json:"per_job"`
	PaperPerJob num           `json:"paper_per_job"`
	Count       int           `json:"count"` // of reasons; Reasons may hold only the first
	Reasons     []statsReason `json:"reasons"`
}

type statsReason struct {
	Name     string   `json:"name"`
	Jobs     int      `json:"jobs"`
	Users    int      `json:"users"`
	Trials   int      `json:"trials"`
	BySize   [3]int   `json:"by_size"` // trials of jobs of 1, 2 to 4, and more GPUs
	Measures failing  `json:"is"`
	Paper    *failing `json:"paper"` // null: the paper has no such reason
}

// failing holds the figures that the workload and the paper both have of a reason.
type failing struct {
	Trials  num `json:"trials"`  // share of all trials
	PerJob  num `json:"per_job"` // trials of a job that fails for the reason
	P50     num `json:"p50"`     // run time to failure
	P90     num `json:"p90"`
	P95     num `json:"p95"`
	Time    num `json:"time"`     // share of the summed run time to failure
	GPUTime num `json:"gpu_time"` // share of the summed run time to failure x GPUs
}

func newStatsFailures(f *trace.FailureStat) statsFailures {
	out := statsFailures{
		Trials: f.Trials, Jobs: f.Jobs, PerJob: num(round(f.PerJob)), PaperPerJob: paperPerJob,
		Count: len(f.Reasons), Reasons: []statsReason{},
	}
	for _, r := range f.Reasons[:min(len(f.Reasons), maxList)] {
		out.Reasons = append(out.Reasons, statsReason{
			Name: clip(r.Reason), Jobs: r.Jobs, Users: r.Users, Trials: r.Trials, BySize: r.BySize,
			Measures: failing{
				Trials: part(r.Trials, f.Trials), PerJob: part(r.Trials, r.Jobs), P50: num(round(r.P50)), P90: num(round(r.P90)),
				P95: num(round(r.P95)), Time: share(r.Share), GPUTime: share(r.GPUTimeShare),
			},
			Paper: paperFailing(r.Reason),
		})
	}
	return out
}

func paperFailing(reason string) *failing {
	for _, p := range paperReasons {
		if p.name == reason {
			return &failing{
				Trials: part(p.trials, paperTrials()), PerJob: part(p.trials, p.jobs), P50: num(round(p.p50 * 60)),
				P90: num(round(p.p90 * 60)), P95: num(round(p.p95 * 60)), Time: percent(p.share), GPUTime: percent(p.gpuShare),
			}
		}
	}
	return nil
}

// part is a over b; NaN if b is 0.
func part(a, b int) num { return num(round(float64(a) / float64(b))) }
