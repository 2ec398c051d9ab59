// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package repro

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sim"
	"github.com/fairway-gpu/fairway/sim/trace"
)

// FailuresConfig is the experiment on what failures cost.
type FailuresConfig struct {
	Jobs    int
	Seeds   []uint64 // every variant runs with each; screening lengths only with the first
	Cluster string   // in the form of sim.ParseCluster
	Load    float64  // GPUs in use if every job started at once, as a share of all
	Policy  string   // below the screening layer
	Screen  time.Duration
	// BadNodes is the share of bad nodes, in the runs that have some.
	BadNodes float64
	// Short leaves out the runs with bad nodes and other screening lengths.
	Short bool
	// Progress, if set, is called as the run of a variant advances.
	Progress func(variant string, p sim.Progress)
}

// DefaultFailures is an eighth of the cluster and of the jobs of DefaultPhilly.
func DefaultFailures() FailuresConfig {
	return FailuresConfig{
		Jobs: 12_000, Seeds: []uint64{1, 2, 3, 4, 5}, Cluster: "29x8/10+34x2/34", Load: 0.8, Policy: "philly",
		Screen: 5 * time.Minute, BadNodes: 0.005,
	}
}

// FailuresRun is one variant of the experiment, with a result for each seed.
type FailuresRun struct {
	Name    string
	Results []*sim.Result
	work    []*sim.Workload
}

// FailuresReport is the outcome of the experiment.
type FailuresReport struct {
	Config FailuresConfig
	GPUs   int
	Work   []*sim.Workload // by seed
	Runs   []FailuresRun   // without bad nodes
	Bad    []FailuresRun   // with bad nodes
	Times  []FailuresRun   // adaptive retries and screening, by length of screening
}

// Failures runs the experiment: a workload like that of the Philly study with its
// failures, under retries as recorded, adaptive retries, screening and both; then
// with bad nodes and their quarantine.
func Failures(c FailuresConfig) (*FailuresReport, error) {
	e, err := newFailures(c)
	if err != nil {
		return nil, err
	}
	out := &FailuresReport{Config: c, GPUs: e.cluster.GPUs(), Work: e.work}
	adaptive := func(f *sim.FaultConfig) { f.Adaptive = true }
	screen := func(f *sim.FaultConfig) { f.Screen = c.Screen }
	bad := func(f *sim.FaultConfig) { f.BadNodes = c.BadNodes }
	quarantine := func(f *sim.FaultConfig) { f.Quarantine = true }
	type variant struct {
		name string
		set  []func(*sim.FaultConfig)
	}
	run := func(to *[]FailuresRun, seeds int, variants ...variant) error {
		for _, v := range variants {
			r, err := e.run(v.name, seeds, v.set)
			if err != nil {
				return err
			}
			*to = append(*to, r)
		}
		return nil
	}
	type set = []func(*sim.FaultConfig)
	all := len(c.Seeds)
	err = run(&out.Runs, all, variant{"as recorded", nil}, variant{"adaptive", set{adaptive}},
		variant{"screening", set{screen}}, variant{"both", set{adaptive, screen}})
	if err != nil || c.Short {
		return out, err
	}
	err = run(&out.Bad, all, variant{"as recorded", set{bad}}, variant{"adaptive", set{adaptive, bad}},
		variant{"adaptive, quarantine", set{adaptive, bad, quarantine}}, variant{"and screening", set{adaptive, bad, quarantine, screen}})
	if err != nil {
		return nil, err
	}
	for _, minutes := range []int{2, 5, 10, 20} {
		length := func(f *sim.FaultConfig) { f.Screen = time.Duration(minutes) * time.Minute }
		if err := run(&out.Times, 1, variant{fmt.Sprintf("%d min", minutes), set{adaptive, length}}); err != nil {
			return nil, err
		}
	}
	distrust := func(f *sim.FaultConfig) { f.Trust = false }
	name := fmt.Sprintf("%d min, no job is trusted", int(c.Screen.Minutes()))
	return out, run(&out.Times, 1, variant{name, set{adaptive, screen, distrust}})
}

// failures is what all runs share.
type failures struct {
	FailuresConfig
	cluster *sched.Cluster
	work    []*sim.Workload
}

func newFailures(c FailuresConfig) (*failures, error) {
	e := &failures{FailuresConfig: c}
	var err error
	if e.cluster, err = sim.ParseCluster(c.Cluster, "p100"); err != nil {
		return nil, err
	}
	for _, seed := range c.Seeds {
		w, err := trace.Generate(trace.Gen{Kind: "philly", Jobs: c.Jobs, GPUs: e.cluster.GPUs(), Seed: seed, Load: c.Load})
		if err != nil {
			return nil, err
		}
		e.work = append(e.work, w)
	}
	return e, nil
}

func (e *failures) run(name string, seeds int, set []func(*sim.FaultConfig)) (FailuresRun, error) {
	out := FailuresRun{Name: name, work: e.work[:seeds]}
	for i, seed := range e.Seeds[:seeds] {
		faults := sim.DefaultFaults()
		faults.Seed = seed
		for _, s := range set {
			s(&faults)
		}
		spec := e.Policy
		if faults.Screen > 0 {
			spec += "@screen"
		}
		cfg, err := configOf(spec)
		if err != nil {
			return out, err
		}
		cfg.Cluster, cfg.Seed, cfg.Faults, cfg.Interval, cfg.Retry = e.cluster, seed, &faults, 30*time.Second, time.Minute
		if e.Progress != nil {
			cfg.Progress = func(p sim.Progress) { e.Progress(name, p) }
		}
		res, _, err := sim.Run(cfg, e.work[i])
		if err != nil {
			return out, fmt.Errorf("failures, %s, seed %d: %w", name, seed, err)
		}
		out.Results = append(out.Results, res)
	}
	return out, nil
}

// Faults adds up what failures cost, over all seeds.
func (r FailuresRun) Faults() sim.FaultSummary {
	var sum sim.FaultSummary
	for _, res := range r.Results {
		f := res.Faults
		sum.Attempts += f.Attempts
		sum.Wasted += f.Wasted
		sum.Screenings += f.Screenings
		sum.ScreenGPUs += f.ScreenGPUs
		sum.Trusted += f.Trusted
		sum.Caught += f.Caught
		sum.CaughtJobs += f.CaughtJobs
		sum.GivenUp += f.GivenUp
		sum.Resubmitted += f.Resubmitted
		sum.Rescued += f.Rescued
		sum.NodeFailures += f.NodeFailures
		sum.Quarantines += f.Quarantines
		sum.Wrong += f.Wrong
		sum.NodeHours += f.NodeHours
		sum.Reasons = addCounts(sum.Reasons, f.Reasons)
		sum.Sizes = addCounts(sum.Sizes, f.Sizes)
	}
	return sum
}

// against is the change of a figure from another variant, seed by seed, in percent.
func (r FailuresRun) against(base FailuresRun, figure func(*sim.FaultSummary) float64) string {
	var all []float64
	for i, res := range r.Results {
		all = append(all, 100*(figure(res.Faults)/figure(base.Results[i].Faults)-1))
	}
	m := meanOf(all)
	return fmt.Sprintf("%+.1f ± %.1f %%", m.Mean, m.Spread)
}

// addCounts adds counts to those of the same name.
func addCounts(to, more []sim.FaultCount) []sim.FaultCount {
	for _, m := range more {
		i := slices.IndexFunc(to, func(c sim.FaultCount) bool { return c.Name == m.Name })
		if i < 0 {
			to = append(to, m)
			continue
		}
		to[i].Attempts += m.Attempts
		to[i].Caught += m.Caught
		to[i].Wasted += m.Wasted
	}
	return to
}

// Held is the GPU time of all jobs in seconds.
func (r FailuresRun) Held() float64 {
	sum := 0.0
	for _, res := range r.Results {
		sum += res.GPUSeconds
	}
	return sum
}

// Times is the mean, the median and the 95th percentile of times in seconds.
type Times struct{ Mean, P50, P95 float64 }

func timesOf(x []float64) Times {
	if len(x) == 0 {
		return Times{}
	}
	slices.Sort(x)
	sum := 0.0
	for _, v := range x {
		sum += v
	}
	at := func(q float64) float64 { return x[int(math.Round(q*float64(len(x)-1)))] }
	return Times{sum / float64(len(x)), at(0.5), at(0.95)}
}

// good calls yield with every job of a size without a recorded failure.
func (r FailuresRun) good(least, most int, yield func(*sim.JobResult)) {
	for k, res := range r.Results {
		for i := range res.Jobs {
			if j := &res.Jobs[i]; j.GPUs >= least && j.GPUs <= most && len(r.work[k].Work[i].Failures) == 0 {
				yield(j)
			}
		}
	}
}

// GangWait is the time from submission until jobs of a size first held all the
// GPUs they asked for; screening counts as waiting. Only jobs without a recorded
// failure count.
func (r FailuresRun) GangWait(least, most int) Times {
	var waits []float64
	r.good(least, most, func(j *sim.JobResult) {
		i := slices.IndexFunc(j.Runs, func(s sim.Segment) bool { return s.GPUs >= j.GPUs })
		if i >= 0 {
			waits = append(waits, j.Runs[i].Start-j.Submit)
		}
	})
	return timesOf(waits)
}

// GoodJCT is the completion time of the jobs of a size without a recorded
// failure.
func (r FailuresRun) GoodJCT(least, most int) Times {
	var jct []float64
	r.good(least, most, func(j *sim.JobResult) {
		if j.End >= 0 {
			jct = append(jct, j.JCT)
		}
	})
	return timesOf(jct)
}

// Failing counts the jobs with a recorded failure, those of them that ask for more
// than one GPU, and the GPU-seconds of first failed attempts, which no decision
// after a failure can save.
func (r *FailuresReport) Failing() (jobs, gangs int, first float64) {
	for _, wl := range r.Work {
		for i := range wl.Work {
			w := &wl.Work[i]
			if len(w.Failures) == 0 {
				continue
			}
			jobs++
			if w.GPUs > 1 {
				gangs++
			}
			first += float64(w.GPUs) * w.Failures[0].After.D().Seconds()
		}
	}
	return jobs, gangs, first
}
