// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/fairway-gpu/fairway/sched/num"
)

// result holds the figures of a run. Names state the unit of times.
type result struct {
	Scheduler string `json:"scheduler"` // with the policy of Fairway, or the version of a peer
	Mode      string `json:"mode"`
	Kind      string `json:"kind"`
	Nodes     int    `json:"nodes"`
	GPUs      int    `json:"gpus"`
	Jobs      int    `json:"jobs"`
	Pods      int    `json:"pods"`

	JobsBound  int     `json:"jobs_bound"`
	PodsBound  int     `json:"pods_bound"`
	Starts     int     `json:"starts"` // of whole gangs; more than jobs if some were preempted
	GPUsHeld   int     `json:"gpus_bound"`
	Broken     int     `json:"pods_outside_domain"` // of those that --require is about
	SubmitS    float64 `json:"submit_s"`            // first to last submission
	BoundS     float64 `json:"bound_s"`             // first submission to last binding
	JobsPerS   float64 `json:"jobs_per_s"`          // bound, over BoundS
	PodsPerS   float64 `json:"pods_per_s"`          //
	WaitP50S   float64 `json:"wait_p50_s"`          // submission to the binding of the whole gang
	WaitP99S   float64 `json:"wait_p99_s"`          //
	Decisions  int     `json:"decisions"`           //
	DecideP50  float64 `json:"decide_p50_ms"`       // the policy and the check of its plan
	DecideP99  float64 `json:"decide_p99_ms"`
	DecideMax  float64 `json:"decide_max_ms"`
	WholeP50   float64 `json:"decision_whole_p50_ms"` // from the snapshot until the decision is durable
	WholeP99   float64 `json:"decision_whole_p99_ms"`
	PeakMiB    float64 `json:"peak_mib"` // resident memory of the scheduler
	Requests   float64 `json:"scheduler_requests"`
	PerJob     float64 `json:"scheduler_requests_per_job"` // bound
	OwnWrites  float64 `json:"scheduler_writes_per_job"`   // of the requests, those that write
	WritesJobS float64 `json:"writes_per_job"`             // of all clients to the API server, per bound job

	ServerCPU    float64 `json:"cpu_api_server_s"`
	SchedulerCPU float64 `json:"cpu_scheduler_s"` // of all of its programs

	CPU    map[string]float64 `json:"cpu_s"`
	Writes map[string]float64 `json:"writes"`

	curve [][2]float64 // seconds, jobs bound
}

// figures is the input of a result.
type figures struct {
	gangs         []gang
	first         time.Time
	submitted     time.Time
	end           counts
	broken        int
	before, after sample
}

func (t *trial) result(f figures) (*result, error) {
	r := &result{
		Scheduler: strings.TrimSpace(t.scheduler + " " + t.policy + t.sched.version), Mode: t.mode, Kind: t.kind, Nodes: t.nodes, GPUs: t.nodes * t.gpus, Jobs: t.jobs,
		JobsBound: f.end.bound, PodsBound: f.end.pods, Starts: f.end.starts,
		SubmitS: f.submitted.Sub(f.first).Seconds(), BoundS: f.end.last.Sub(f.first).Seconds(),
		Broken: f.broken, PeakMiB: ofScheduler(f.after.peak), Requests: f.after.ours - f.before.ours,
		CPU: less(f.after.cpu, f.before.cpu), Writes: less(f.after.requests, f.before.requests),
	}
	r.ServerCPU, r.SchedulerCPU = r.CPU["kube-apiserver"], ofScheduler(r.CPU)
	for i, g := range f.gangs {
		r.Pods += g.pods
		if !t.watch.jobs[i].bound.IsZero() {
			r.GPUsHeld += g.pods * g.gpus
		}
	}
	if r.JobsBound == 0 {
		return nil, fmt.Errorf("no job was bound: %s", t.sched.tail())
	}
	r.JobsPerS, r.PodsPerS = float64(r.JobsBound)/r.BoundS, float64(r.PodsBound)/r.BoundS
	r.PerJob, r.OwnWrites = r.Requests/float64(r.JobsBound), (f.after.wrote-f.before.wrote)/float64(r.JobsBound)
	for _, n := range r.Writes {
		r.WritesJobS += n / float64(r.JobsBound)
	}
	submitted, bound := t.watch.times()
	var waits []float64
	for i := range bound {
		waits = append(waits, bound[i].Sub(submitted[i]).Seconds())
	}
	r.WaitP50S, r.WaitP99S = num.Quantile(waits, 0.5), num.Quantile(waits, 0.99)
	slices.SortFunc(bound, time.Time.Compare)
	for i, at := range bound {
		r.curve = append(r.curve, [2]float64{at.Sub(f.first).Seconds(), float64(i + 1)})
	}
	if t.scheduler != schedulerFairway {
		return r, nil
	}
	return r, r.decided(t.sched.processes[0].log, f.first)
}

// decided fills in how long decisions took.
func (r *result) decided(log string, since time.Time) error {
	list, err := decisions(log)
	if err != nil {
		return err
	}
	var policy, whole []float64
	for _, d := range list {
		if d.at.After(since) {
			policy, whole = append(policy, d.policy.Seconds()*1000), append(whole, d.whole.Seconds()*1000)
		}
	}
	r.Decisions = len(policy)
	r.DecideP50, r.DecideP99, r.DecideMax = num.Quantile(policy, 0.5), num.Quantile(policy, 0.99), num.Quantile(policy, 1)
	r.WholeP50, r.WholeP99 = num.Quantile(whole, 0.5), num.Quantile(whole, 0.99)
	return nil
}

// less returns the increase of counters.
func less(after, before map[string]float64) map[string]float64 {
	out := map[string]float64{}
	for k, v := range after {
		if d := v - before[k]; d > 0 {
			out[k] = float64(int(d*100+0.5)) / 100
		}
	}
	return out
}

// rows are the lines of the table.
var rows = []struct {
	name string
	of   func(*result) string
}{
	{"mode, objects", func(r *result) string { return r.Mode + ", " + r.Kind }},
	{"nodes, GPUs", func(r *result) string { return fmt.Sprintf("%d, %d", r.Nodes, r.GPUs) }},
	{"jobs, pods submitted", func(r *result) string { return fmt.Sprintf("%d, %d", r.Jobs, r.Pods) }},
	{"jobs, pods bound", func(r *result) string { return fmt.Sprintf("%d, %d", r.JobsBound, r.PodsBound) }},
	{"GPUs of jobs bound", func(r *result) string { return fmt.Sprint(r.GPUsHeld) }},
	{"pods outside of their domain", func(r *result) string { return fmt.Sprint(r.Broken) }},
	{"starts of gangs", func(r *result) string { return fmt.Sprint(r.Starts) }},
	{"submitted within, s", func(r *result) string { return fmt.Sprintf("%.1f", r.SubmitS) }},
	{"bound within, s", func(r *result) string { return fmt.Sprintf("%.1f", r.BoundS) }},
	{"jobs bound per second", func(r *result) string { return fmt.Sprintf("%.1f", r.JobsPerS) }},
	{"pods bound per second", func(r *result) string { return fmt.Sprintf("%.1f", r.PodsPerS) }},
	{"submit to bound p50, p99, s", func(r *result) string { return fmt.Sprintf("%.3f, %.3f", r.WaitP50S, r.WaitP99S) }},
	{"CPU seconds of the API server, the scheduler", func(r *result) string { return fmt.Sprintf("%.1f, %.1f", r.ServerCPU, r.SchedulerCPU) }},
	{"decisions", func(r *result) string { return fmt.Sprint(r.Decisions) }},
	{"decision p50, p99, max, ms", func(r *result) string { return fmt.Sprintf("%.2f, %.2f, %.2f", r.DecideP50, r.DecideP99, r.DecideMax) }},
	{"decision until durable p50, p99, ms", func(r *result) string { return fmt.Sprintf("%.1f, %.1f", r.WholeP50, r.WholeP99) }},
	{"peak memory of the scheduler, MiB", func(r *result) string { return fmt.Sprintf("%.0f", r.PeakMiB) }},
	{"operator requests, per job", func(r *result) string { return fmt.Sprintf("%.0f, %.2f", r.Requests, r.PerJob) }},
	{"API writes per job: operator, all", func(r *result) string { return fmt.Sprintf("%.2f, %.2f", r.OwnWrites, r.WritesJobS) }},
}

func printTable(out io.Writer, all []*result) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	cell := func(name string, of func(*result) string) {
		fmt.Fprint(w, name)
		for _, r := range all {
			fmt.Fprint(w, "\t", of(r))
		}
		fmt.Fprintln(w)
	}
	cell("", func(r *result) string { return r.Scheduler })
	for _, row := range rows {
		cell(row.name, row.of)
	}
	w.Flush()
	for _, r := range all {
		fmt.Fprintf(out, "\n%s %s, %d nodes\n  CPU seconds: %s\n", r.Scheduler, r.Mode, r.Nodes, largest(r.CPU))
	}
	printWrites(out, all)
	printGrowth(out, all)
}

// printGrowth compares runs of one kind with different numbers of nodes.
func printGrowth(out io.Writer, all []*result) {
	smallest := map[string]*result{}
	for _, r := range all {
		name := r.Scheduler + " " + r.Mode
		from := smallest[name]
		if from == nil {
			smallest[name] = r
			continue
		}
		fmt.Fprintf(out, "\n%s, from %d to %d nodes: decision p50 %.2f to %.2f ms, p99 %.2f to %.2f ms; jobs bound per second %.1f to %.1f; memory %.0f to %.0f MiB; requests per job %.2f to %.2f\n",
			name, from.Nodes, r.Nodes, from.DecideP50, r.DecideP50, from.DecideP99, r.DecideP99, from.JobsPerS, r.JobsPerS, from.PeakMiB, r.PeakMiB, from.PerJob, r.PerJob)
	}
}

// printWrites prints the writes per bound job of all clients, by verb and kind.
func printWrites(out io.Writer, all []*result) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	sum := map[string]float64{}
	fmt.Fprint(w, "\nwrites per job")
	for _, r := range all {
		fmt.Fprintf(w, "\t%s %s, %d", r.Scheduler, r.Mode, r.Nodes)
		for k, n := range r.Writes {
			sum[k] += n / float64(r.JobsBound)
		}
	}
	fmt.Fprintln(w)
	for _, k := range descending(sum) {
		if sum[k] < 0.005*float64(len(all)) {
			break
		}
		fmt.Fprint(w, k)
		for _, r := range all {
			fmt.Fprintf(w, "\t%.2f", r.Writes[k]/float64(r.JobsBound))
		}
		fmt.Fprintln(w)
	}
	w.Flush()
}

// descending returns the keys of a map, the one with the largest value first.
func descending(m map[string]float64) []string {
	keys := slices.Collect(maps.Keys(m))
	slices.SortFunc(keys, func(a, b string) int { return cmp.Or(cmp.Compare(m[b], m[a]), cmp.Compare(a, b)) })
	return keys
}

// largest prints the entries of a map, the largest first.
func largest(m map[string]float64) string {
	var parts []string
	for _, k := range descending(m) {
		parts = append(parts, fmt.Sprintf("%s %.0f", k, m[k]))
	}
	return strings.Join(parts, ", ")
}
