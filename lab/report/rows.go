// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"math"
	"unicode/utf8"

	"github.com/fairway-gpu/fairway/sim"
)

// maxText bounds the names of jobs, apps, tenants and models, in bytes.
const maxText = 120

// jobList describes the jobs of the page, one column for each property. Submit
// counts ticks.
type jobList struct {
	ID     []string `json:"id"`
	App    []string `json:"app"` // empty: named like the job
	Tenant []string `json:"tenant"`
	Model  []string `json:"model"`
	GPUs   []int    `json:"gpus"`
	Submit nums     `json:"submit"`
}

// rows is the outcome of the jobs of the page in one run, one column for each
// property, in the order of jobList. Times count ticks; null: never.
type rows struct {
	Outcome     []int   `json:"outcome"` // sched.Phase; -1: the run did not have the job
	Start       nums    `json:"start"`
	End         nums    `json:"end"`
	JCT         nums    `json:"jct"`
	Wait        nums    `json:"wait"`
	Queued      nums    `json:"queued"`
	Ran         nums    `json:"ran"`
	GPUSeconds  nums    `json:"gpu_s"`
	Restarts    []int   `json:"restarts"`
	Preemptions []int   `json:"preemptions"`
	Moves       []int   `json:"moves"`
	Failures    []int   `json:"failures"`
	Rho         nums    `json:"rho"`
	WaitFor     []int   `json:"wait_for"` // sched.Code
	Bars        [][]int `json:"bars"`     // by fours: ticks since the last bar ended (or submission), ticks, GPUs, nodes
}

// tickFor returns the resolution of times in rows: too fine to see at the deepest
// zoom, coarse enough to keep the page small.
func tickFor(end float64) float64 {
	switch {
	case end < 1e4:
		return 0.001
	case end < 1e6:
		return 0.1
	}
	return 1
}

func newJobList(u *jobUnion, picked []int, tick float64) jobList {
	l := jobList{ID: []string{}, App: []string{}, Tenant: []string{}, Model: []string{}, GPUs: []int{}}
	for _, i := range picked {
		job := u.jobs[i]
		app := string(job.app)
		if app == string(job.id) {
			app = ""
		}
		l.ID = append(l.ID, clip(string(job.id)))
		l.App = append(l.App, clip(app))
		l.Tenant = append(l.Tenant, clip(string(job.tenant)))
		l.Model = append(l.Model, clip(job.model))
		l.GPUs = append(l.GPUs, job.gpus)
		l.Submit = append(l.Submit, math.Round(job.submit/tick))
	}
	return l
}

// pickResults returns a run's results for the picked jobs; nil: not there.
func pickResults(r *sim.Result, index, picked []int) []*sim.JobResult {
	at := make(map[int]int, len(picked))
	for k, i := range picked {
		at[i] = k
	}
	out := make([]*sim.JobResult, len(picked))
	for i := range r.Jobs {
		if k, ok := at[index[i]]; ok && out[k] == nil {
			out[k] = &r.Jobs[i]
		}
	}
	return out
}

// scale is how the rows of a run are drawn.
type scale struct {
	tick float64 // the same for all runs of a page
	bars int     // most for one job, the same for all runs
	end  float64 // of the run, in seconds
}

func newRows(results []*sim.JobResult, sc scale) rows {
	out := rows{
		Outcome: []int{}, Restarts: []int{}, Preemptions: []int{}, Moves: []int{}, Failures: []int{},
		WaitFor: []int{}, Bars: [][]int{},
	}
	ticks := func(seconds float64) float64 { return math.Round(never(seconds) / sc.tick) }
	for _, j := range results {
		outcome := -1
		if j != nil {
			outcome = int(j.Outcome)
		} else {
			j = &sim.JobResult{Start: -1, End: -1, JCT: -1, Wait: -1}
		}
		out.Outcome = append(out.Outcome, outcome)
		out.Start = append(out.Start, ticks(j.Start))
		out.End = append(out.End, ticks(j.End))
		out.JCT = append(out.JCT, ticks(j.JCT))
		out.Wait = append(out.Wait, ticks(j.Wait))
		out.Queued = append(out.Queued, ticks(j.Queued))
		out.Ran = append(out.Ran, ticks(j.Ran))
		out.GPUSeconds = append(out.GPUSeconds, math.Round(j.GPUSeconds))
		out.Restarts = append(out.Restarts, j.Restarts)
		out.Preemptions = append(out.Preemptions, j.Preemptions)
		out.Moves = append(out.Moves, j.Moves)
		out.Failures = append(out.Failures, j.Failures)
		out.Rho = append(out.Rho, round(j.Rho))
		out.WaitFor = append(out.WaitFor, int(j.WaitFor))
		out.Bars = append(out.Bars, newBars(j, sc))
	}
	return out
}

// newBars writes the segments of a job as differences of whole ticks, which
// are short and add up without drift.
func newBars(j *sim.JobResult, sc scale) []int {
	bars := []int{}
	if !finite(j.Submit) {
		return bars
	}
	last := int(math.Round(j.Submit / sc.tick))
	for _, s := range mergeSegments(cleanSegments(j.Runs, sc.end), sc.bars) {
		from, to := int(math.Round(s.Start/sc.tick)), int(math.Round(s.End/sc.tick))
		bars = append(bars, from-last, to-from, s.GPUs, s.Nodes)
		last = to
	}
	return bars
}

// clip shortens a text that would blow up the page.
func clip(s string) string {
	if len(s) <= maxText {
		return s
	}
	cut := maxText
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + "…"
}
