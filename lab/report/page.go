// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sim"
)

// page is the data of the HTML page, as its script reads it. Times are seconds
// since the start of the workload, except in rows, which count ticks.
type page struct {
	Tick     num      `json:"tick"` // seconds
	End      num      `json:"end"`
	Jobs     jobList  `json:"jobs"`
	AllJobs  int      `json:"all_jobs"`  // Jobs is a selection of these
	BarLimit int      `json:"bar_limit"` // jobs with more bars are drawn simplified; 0: no job is
	Phases   []string `json:"phases"`
	Codes    []string `json:"codes"`
	Runs     []run    `json:"runs"`
}

// run is one simulation in the page.
type run struct {
	Label      string  `json:"label"` // the policy, and what distinguishes runs of the same policy
	Summary    summary `json:"summary"`
	Cluster    cluster `json:"cluster"`
	End        num     `json:"end"` // the last recorded time
	Ended      int     `json:"ended"`
	Started    int     `json:"started"`
	Apps       int     `json:"apps"`
	JCT        curve   `json:"jct"`
	Rho        curve   `json:"rho"`
	Wait       curve   `json:"wait"`
	Used       steps   `json:"used"`
	Queued     steps   `json:"queued"`
	QueuedGPUs steps   `json:"queued_gpus"`
	Rows       rows    `json:"rows"`
}

type cluster struct {
	Nodes int      `json:"nodes"`
	GPUs  int      `json:"gpus"`
	Racks int      `json:"racks"`
	Types []string `json:"types"`
}

// summary is sim.Summary with numbers that JSON can express.
type summary struct {
	Policy     string  `json:"policy"`
	Workload   string  `json:"workload"`
	Estimates  string  `json:"estimates"`
	Seed       string  `json:"seed"` // text: a script's numbers hold 53 bits
	Jobs       int     `json:"jobs"`
	Finished   int     `json:"finished"`
	Failed     int     `json:"failed"`
	Unfinished int     `json:"unfinished"`
	AvgJCT     num     `json:"avg_jct"`
	P50JCT     num     `json:"p50_jct"`
	P90JCT     num     `json:"p90_jct"`
	P99JCT     num     `json:"p99_jct"`
	AvgWait    num     `json:"avg_wait"`
	P50Wait    num     `json:"p50_wait"`
	P99Wait    num     `json:"p99_wait"`
	Makespan   num     `json:"makespan"`
	AvgRho     num     `json:"avg_rho"`
	P99Rho     num     `json:"p99_rho"`
	MaxRho     num     `json:"max_rho"`
	JainRho    num     `json:"jain_rho"`
	Allocation num     `json:"allocation"`
	GPUSeconds num     `json:"gpu_s"`
	LostGPUs   num     `json:"lost_gpu_s"`
	ETTR       num     `json:"ettr,omitempty"` // 0: hardware does not fail
	Restarts   int     `json:"restarts"`
	Preempted  int     `json:"preemptions"`
	Moved      int     `json:"moves"`
	Failures   int     `json:"failures"`
	Decisions  int     `json:"decisions"`
	Delays     []delay `json:"delays"`
}

type delay struct {
	Size  string `json:"size"`
	Cause string `json:"cause"`
	Jobs  int    `json:"jobs"`
	Time  num    `json:"time"`
	Wait  num    `json:"wait"`
}

func newPage(runs []*sim.Result) page {
	union := uniteJobs(runs)
	picked := union.pick(maxJobs)
	end := 0.0
	ends := make([]float64, len(runs))
	for i, r := range runs {
		ends[i] = latest(r)
		end = max(end, ends[i])
	}
	sc := scale{tick: tickFor(end)}

	results := make([][]*sim.JobResult, len(runs))
	var counts []int
	for i, r := range runs {
		results[i] = pickResults(r, union.index[i], picked)
		for _, j := range results[i] {
			if j != nil {
				counts = append(counts, len(j.Runs))
			}
		}
	}
	sc.bars = segmentLimit(counts, maxSegments)

	p := page{
		Tick: num(sc.tick), End: num(end), AllJobs: len(union.jobs),
		Jobs: newJobList(&union, picked, sc.tick),
	}
	if slices.ContainsFunc(counts, func(n int) bool { return n > sc.bars }) {
		p.BarLimit = sc.bars
	}
	for ph := sched.Pending; ph <= sched.Failed; ph++ {
		p.Phases = append(p.Phases, ph.String())
	}
	for _, c := range sched.Codes() {
		p.Codes = append(p.Codes, c.String())
	}
	names := labels(runs)
	for i, r := range runs {
		sc.end = ends[i]
		one := newRun(r)
		one.Label, one.End, one.Rows = names[i], num(ends[i]), newRows(results[i], sc)
		p.Runs = append(p.Runs, one)
	}
	return p
}

func newRun(r *sim.Result) run {
	out := run{Summary: newSummary(&r.Summary), Cluster: cluster{
		Nodes: r.Cluster.Nodes, GPUs: r.Cluster.GPUs, Racks: r.Cluster.Racks, Types: []string{},
	}}
	for _, t := range r.Cluster.Types {
		out.Cluster.Types = append(out.Cluster.Types, string(t))
	}
	var jct, wait, rho []float64
	apps := map[sched.AppID]bool{}
	for i := range r.Jobs {
		j := &r.Jobs[i]
		if j.JCT >= 0 {
			jct = append(jct, j.JCT)
		}
		if j.Start >= 0 {
			wait = append(wait, j.Wait)
		}
		if !apps[j.App] { // jobs of an app share its rho
			apps[j.App] = true
			if j.Rho > 0 {
				rho = append(rho, j.Rho)
			}
		}
	}
	out.Ended, out.Started, out.Apps = len(jct), len(wait), len(apps)
	out.JCT = newCurve(jct, len(r.Jobs))
	out.Wait = newCurve(wait, len(r.Jobs))
	out.Rho = newCurve(rho, len(apps))
	pts := orderPoints(r.Series)
	out.Used = newSteps(pts, func(p sim.Point) int { return p.Used })
	out.Queued = newSteps(pts, func(p sim.Point) int { return p.Queued })
	out.QueuedGPUs = newSteps(pts, func(p sim.Point) int { return p.QueuedGPUs })
	return out
}

func newSummary(s *sim.Summary) summary {
	out := summary{
		Policy: clip(s.Policy), Workload: clip(s.Workload), Estimates: string(s.Estimates), Seed: strconv.FormatUint(s.Seed, 10),
		Jobs: s.Jobs, Finished: s.Finished, Failed: s.Failed, Unfinished: s.Unfinished,
		AvgJCT: num(s.AvgJCT), P50JCT: num(s.P50JCT), P90JCT: num(s.P90JCT), P99JCT: num(s.P99JCT),
		AvgWait: num(s.AvgWait), P50Wait: num(s.P50Wait), P99Wait: num(s.P99Wait), Makespan: num(s.Makespan),
		AvgRho: num(s.AvgRho), P99Rho: num(s.P99Rho), MaxRho: num(s.MaxRho), JainRho: num(s.JainRho),
		Allocation: num(s.Allocation), GPUSeconds: num(s.GPUSeconds), LostGPUs: num(s.LostGPUs),
		Restarts: s.Restarts, Preempted: s.Preempted, Moved: s.Moved, Failures: s.Failures,
		Decisions: s.Decisions, Delays: []delay{},
	}
	if s.Hardware != nil {
		out.ETTR = num(s.Hardware.ETTR)
	}
	for _, d := range s.Delays {
		out.Delays = append(out.Delays, delay{
			Size: clip(d.Size), Cause: clip(d.Cause), Jobs: d.Jobs, Time: num(d.Time), Wait: num(d.Wait),
		})
	}
	return out
}

// latest returns the last recorded time of a run, in seconds.
func latest(r *sim.Result) float64 {
	end := 0.0
	see := func(t float64) {
		if finite(t) {
			end = max(end, t)
		}
	}
	for _, p := range r.Series {
		see(p.T)
	}
	for i := range r.Jobs {
		see(r.Jobs[i].Submit)
		see(r.Jobs[i].End)
		for _, s := range r.Jobs[i].Runs {
			see(s.End)
		}
	}
	return end
}

// labels names the runs: by policy, then by what else differs, then by number.
func labels(runs []*sim.Result) []string {
	ways := []func(r *sim.Result) string{
		func(r *sim.Result) string { return r.Label() },
		func(r *sim.Result) string { return r.Label() + " · " + r.Workload },
		func(r *sim.Result) string { return fmt.Sprintf("%s · seed %d", r.Label(), r.Seed) },
		func(r *sim.Result) string { return fmt.Sprintf("%s · %s · seed %d", r.Label(), r.Workload, r.Seed) },
	}
	var names []string
	for _, way := range ways {
		names = names[:0]
		seen := map[string]bool{}
		for _, r := range runs {
			name := clip(way(r))
			seen[name] = true
			names = append(names, name)
		}
		if len(seen) == len(runs) {
			return names
		}
	}
	for i := range names {
		names[i] = fmt.Sprintf("%s · %d", clip(runs[i].Label()), i+1)
	}
	return names
}
