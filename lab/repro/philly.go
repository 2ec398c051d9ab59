// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package repro

import (
	"fmt"
	"time"

	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sim"
	"github.com/fairway-gpu/fairway/sim/trace"
)

// PhillyConfig is the experiment on why jobs wait.
type PhillyConfig struct {
	Jobs    int    // of each workload
	Seeds   int    // workloads, of the seeds 1, 2, ...
	Cluster string // in the form of sim.ParseCluster
	Workers int    // runs at once
	// Progress, if set, is called with the number of finished runs. Calls never overlap.
	Progress func(part string, done, all int)
}

// DefaultPhilly is a cluster of Philly's size: servers of 8 and of 2 GPUs,
// 2,490 GPUs in all, in racks that are RDMA domains.
func DefaultPhilly() PhillyConfig {
	return PhillyConfig{Jobs: 20_000, Seeds: 10, Cluster: "240x8/20+285x2/38", Workers: 2}
}

// PhillyRegime is a way in which the study's cluster may have worked.
type PhillyRegime struct {
	Policy  string
	Load    float64 // GPUs in use if every job started at once, as a share of all
	Uneven  bool    // virtual clusters are busy at different times, as in the trace
	Meaning string
}

// phillyRegimes are the model that the page began with, and one that is closer to what
// the paper describes.
var phillyRegimes = []PhillyRegime{
	{Policy: "philly", Load: 0.8, Meaning: "gangs hold nothing while they wait, and virtual clusters are busy at the same times"},
	{Policy: "philly:gather=true", Load: 0.8, Uneven: true, Meaning: "gangs hold GPUs while they gather, and virtual clusters are busy at different times"},
}

// phillySizes are the paper's buckets of gangs, its table 2 (waits for fair share and for
// fragmentation), and what is known of these gangs otherwise: jobs of the public trace (all,
// and those that ran for a minute), from philly_jobs_reconstructed.csv.
var phillySizes = []struct {
	name      string
	least     int
	most      int
	fairShare int
	fragments int
	jobs, ran int
}{
	{"2-4", 2, 4, 5168, 7567, 7696, 5828},
	{"5-8", 5, 8, 3793, 10928, 5353, 4895},
	{">8", 9, 1 << 30, 66, 3117, 1013, 876},
}

// publicUse is the share of 2,490 GPUs that the jobs of the public trace would use on its 74
// busy days if every one started at once.
const publicUse = 0.51

// PhillyOutcome is a regime over all seeds.
type PhillyOutcome struct {
	PhillyRegime
	Seeds []PhillyCounts
}

// PhillyCounts is what one run says about waiting, by index of phillySizes.
type PhillyCounts struct {
	First []Causes // waits for the first start, by the reasons of the policy
	Every []Causes // every wait, by the quota
}

// Philly is the experiment.
type Philly struct {
	Config  PhillyConfig
	GPUs    int
	Regimes []PhillyOutcome
}

// RunPhilly replays Philly-like workloads in every regime.
func RunPhilly(c PhillyConfig) (*Philly, error) {
	cluster, err := sim.ParseCluster(c.Cluster, "p100")
	if err != nil {
		return nil, err
	}
	p := &Philly{Config: c, GPUs: cluster.GPUs()}
	for _, r := range phillyRegimes {
		p.Regimes = append(p.Regimes, PhillyOutcome{r, make([]PhillyCounts, c.Seeds)})
	}
	err = each("waits", c.Workers, len(p.Regimes)*c.Seeds, c.Progress, func(n int) error {
		o, seed := p.Regimes[n/c.Seeds], n%c.Seeds
		run, err := c.Run(o.PhillyRegime, uint64(seed+1))
		if err == nil {
			o.Seeds[seed] = run.Counts()
		}
		return err
	})
	return p, err
}

// PhillyRun is one run of the experiment.
type PhillyRun struct {
	Result *sim.Result
	Quota  map[sched.TenantID]int
}

// retryAfter is the back-off after a failed attempt, and decideEvery the time between
// decisions.
const (
	retryAfter  = time.Minute
	decideEvery = 30 * time.Second
)

// Run replays the workload of a seed in one regime.
func (c PhillyConfig) Run(r PhillyRegime, seed uint64) (PhillyRun, error) {
	cluster, err := sim.ParseCluster(c.Cluster, "p100")
	if err != nil {
		return PhillyRun{}, err
	}
	g := trace.Gen{Kind: trace.KindPhilly, Jobs: c.Jobs, GPUs: cluster.GPUs(), Seed: seed, Load: r.Load}
	if r.Uneven {
		g.Bursts = trace.PhillyBursts
	}
	w, err := trace.Generate(g)
	if err != nil {
		return PhillyRun{}, err
	}
	run := PhillyRun{Quota: map[sched.TenantID]int{}}
	for _, t := range w.Tenants {
		run.Quota[t.ID] = t.Quota
	}
	cfg, err := configOf(r.Policy)
	if err != nil {
		return PhillyRun{}, err
	}
	cfg.Cluster, cfg.Seed, cfg.Interval, cfg.Retry = cluster, seed, decideEvery, retryAfter
	if run.Result, _, err = sim.Run(cfg, w); err != nil {
		return PhillyRun{}, fmt.Errorf("policy %s, load %g, seed %d: %w", r.Policy, r.Load, seed, err)
	}
	return run, nil
}

// Counts sums the run up.
func (r PhillyRun) Counts() PhillyCounts {
	var c PhillyCounts
	use := r.use()
	for _, s := range phillySizes {
		c.First = append(c.First, r.Causes(s.least, s.most))
		c.Every = append(c.Every, r.byQuota(use, s.least, s.most))
	}
	return c
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
