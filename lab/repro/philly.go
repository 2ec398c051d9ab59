// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package repro

import (
	"fmt"
	"io"
	"time"

	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sim"
	"github.com/fairway-gpu/fairway/sim/trace"
)

// PhillyConfig is the experiment on why jobs wait.
type PhillyConfig struct {
	Jobs    int
	Seed    uint64
	Cluster string  // in the form of sim.ParseCluster
	Load    float64 // GPUs in use if every job started at once, as a share of all
	Only    bool    // run the policy as it is, without its variants
	// Progress, if set, is called as the run of a policy advances.
	Progress func(policy string, p sim.Progress)
}

// DefaultPhilly is a cluster of Philly's size: servers of 8 and of 2 GPUs,
// 2,490 GPUs in all, in racks that are RDMA domains.
func DefaultPhilly() PhillyConfig {
	return PhillyConfig{Jobs: 100_000, Seed: 1, Cluster: "240x8/20+285x2/38", Load: 0.8}
}

// PhillyRun is one policy of the experiment.
type PhillyRun struct {
	Policy  string
	Meaning string
	Result  *sim.Result
}

// phillyVariants are the policies compared: how long a job waits for locality.
var phillyVariants = []struct{ spec, meaning string }{
	{"philly", "relaxes step by step, as the paper describes"},
	{"philly:relax=off", "never relaxes locality"},
	{"philly:relax=at-once", "takes any GPUs from the start"},
}

// phillySizes are the paper's buckets of gangs, and its table 2: jobs delayed
// by fair share and by fragmentation.
var phillySizes = []struct {
	name      string
	least     int
	most      int
	fairShare int
	fragments int
}{
	{"2-4", 2, 4, 5168, 7567},
	{"5-8", 5, 8, 3793, 10928},
	{">8", 9, 1 << 30, 66, 3117},
}

// Philly replays a Philly-like workload under the philly policy with more and
// less patience for locality.
func Philly(c PhillyConfig) ([]PhillyRun, error) {
	cluster, err := sim.ParseCluster(c.Cluster, "p100")
	if err != nil {
		return nil, err
	}
	w, err := trace.Generate(trace.Gen{Kind: "philly", Jobs: c.Jobs, GPUs: cluster.GPUs(), Seed: c.Seed, Load: c.Load})
	if err != nil {
		return nil, err
	}
	var runs []PhillyRun
	for _, v := range phillyVariants[:c.variants()] {
		cfg, err := configOf(v.spec)
		if err != nil {
			return nil, err
		}
		cfg.Cluster, cfg.Seed, cfg.Interval, cfg.Retry = cluster, c.Seed, 30*time.Second, time.Minute
		if c.Progress != nil {
			cfg.Progress = func(p sim.Progress) { c.Progress(v.spec, p) }
		}
		res, _, err := sim.Run(cfg, w)
		if err != nil {
			return nil, fmt.Errorf("policy %s: %w", v.spec, err)
		}
		runs = append(runs, PhillyRun{v.spec, v.meaning, res})
	}
	return runs, nil
}

// variants is how many of phillyVariants to run.
func (c PhillyConfig) variants() int {
	if c.Only {
		return 1
	}
	return len(phillyVariants)
}

// phillyLoads are the loads of the sweep: from a cluster with room to one that is
// full for days.
var phillyLoads = []float64{0.7, 0.75, 0.8, 0.84, 0.9}

// PhillySweep runs the philly policy alone at several loads: what jobs wait for
// depends on how full the cluster is.
func PhillySweep(c PhillyConfig) (map[float64]PhillyRun, error) {
	c.Only = true
	out := map[float64]PhillyRun{}
	for _, load := range phillyLoads {
		c.Load = load
		runs, err := Philly(c)
		if err != nil {
			return nil, fmt.Errorf("load %g: %w", load, err)
		}
		out[load] = runs[0]
	}
	return out, nil
}

// PrintPhillySweep writes the sweep as Markdown.
func PrintPhillySweep(w io.Writer, sweep map[float64]PhillyRun) {
	fmt.Fprint(w, `
## Dependence on load

The share of jobs delayed by fragmentation, and the number of jobs that waited. The paper's
order (fragmentation first, most of all for large gangs) holds while the cluster has room.
Once it stays full, no idle GPUs are left to borrow and fair share becomes the main cause
for every size. We knew this when we chose the load of the tables above; the paper does not
state the load of its cluster in these terms.

| load | 2-4 GPUs | 5-8 | >8 |
|---|---|---|---|
`)
	for _, load := range phillyLoads {
		fmt.Fprintf(w, "| %.2f", load)
		for _, s := range phillySizes {
			share, frag := sweep[load].Causes(s.least, s.most)
			fmt.Fprintf(w, " | %s of %d", percent(frag, share+frag), share+frag)
		}
		fmt.Fprintln(w, " |")
	}
}

// Causes counts the jobs of a size whose first wait was mostly for their
// tenant's share, and for GPUs close to each other. As in the paper, only
// jobs that ran for a minute or more count.
func (r PhillyRun) Causes(least, most int) (fairShare, fragments int) {
	for i := range r.Result.Jobs {
		j := &r.Result.Jobs[i]
		if j.GPUs < least || j.GPUs > most || j.Ran < 60 {
			continue
		}
		switch j.WaitFor {
		case sched.OverQuota:
			fairShare++
		case sched.Fragmented, sched.Full:
			fragments++
		}
	}
	return fairShare, fragments
}

// Wait returns the mean wait in seconds until the first start of the jobs of a
// size, and their number.
func (r PhillyRun) Wait(least, most int) (mean float64, jobs int) {
	for i := range r.Result.Jobs {
		if j := &r.Result.Jobs[i]; j.GPUs >= least && j.GPUs <= most {
			mean += j.Wait
			jobs++
		}
	}
	if jobs > 0 {
		mean /= float64(jobs)
	}
	return mean, jobs
}

// PrintPhilly writes the experiment as Markdown.
func PrintPhilly(w io.Writer, c PhillyConfig, runs []PhillyRun) {
	first := runs[0]
	fmt.Fprintf(w, `# Why jobs wait: Philly's finding

%d Philly-like jobs (seed %d, load %.2f) on %d GPUs (%s) under `+"`philly`"+`:
virtual clusters with quotas and borrowing, gangs with time-out and back-off,
locality relaxed step by step.

    fairway repro philly

## What gangs wait for

Jobs by the main cause of their first wait, fair share (their virtual cluster is out of
quota) or fragmentation (there is quota, but too few GPUs close to each other), next to
table 2 of the Philly paper (ATC'19).

| GPUs | jobs that waited | fair share | fragmentation | the paper: waited | fragmentation |
|---|---|---|---|---|---|
`, c.Jobs, c.Seed, c.Load, first.Result.Cluster.GPUs, c.Cluster)
	for _, s := range phillySizes {
		share, frag := first.Causes(s.least, s.most)
		fmt.Fprintf(w, "| %s | %d | %d (%s) | %d (%s) | %d | %s |\n", s.name, share+frag,
			share, percent(share, share+frag), frag, percent(frag, share+frag),
			s.fairShare+s.fragments, percent(s.fragments, s.fairShare+s.fragments))
	}
	fmt.Fprint(w, `
Fewer jobs wait here than in the paper: our gangs hold no GPUs until all are free, so
none idle for an incomplete gang, and small jobs are packed tightly.

## The cost of locality

Mean wait until the first start, by size.

| policy | 1 GPU | 2-4 | 5-8 | >8 | avg JCT | GPU time held |
|---|---|---|---|---|---|---|
`)
	for _, r := range runs {
		fmt.Fprintf(w, "| `%s`: %s", r.Policy, r.Meaning)
		one, _ := r.Wait(1, 1)
		fmt.Fprintf(w, " | %.1f min", one/60)
		for _, s := range phillySizes {
			wait, _ := r.Wait(s.least, s.most)
			fmt.Fprintf(w, " | %.1f min", wait/60)
		}
		fmt.Fprintf(w, " | %.2f h | %.1f %% |\n", r.Result.AvgJCT/3600, 100*r.Result.Allocation)
	}
}

func percent(part, all int) string {
	if all == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f %%", 100*float64(part)/float64(all))
}
