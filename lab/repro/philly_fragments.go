// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package repro

import (
	"fmt"
	"slices"
	"time"

	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sim"
	"github.com/fairway-gpu/fairway/sim/trace"
)

// FragmentsConfig is the experiment on reducing fragmentation.
type FragmentsConfig struct {
	Jobs    int
	Seed    uint64
	Cluster string  // in the form of sim.ParseCluster
	Load    float64 // GPUs in use if every job started at once, as a share of all
	// Progress, if set, is called as the run of a policy advances.
	Progress func(policy string, p sim.Progress)
}

// DefaultFragments is the cluster of DefaultPhilly, a little fuller, with fewer
// jobs.
func DefaultFragments() FragmentsConfig {
	return FragmentsConfig{Jobs: 20_000, Seed: 1, Cluster: DefaultPhilly().Cluster, Load: 0.84}
}

// FragmentsRun is one policy of the experiment.
type FragmentsRun struct {
	Name    string // for a plot
	Policy  string
	Meaning string
	Result  *sim.Result
	largest int // GPUs of the largest node
}

// fragmentsVariants are the policies compared. In the simulator every job saves
// its work when it is preempted.
var fragmentsVariants = []struct{ name, spec, meaning string }{
	{"strict", "philly:relax=off", "never relaxes locality"},
	{"fixed", "philly", "relaxes after fixed waits, as published"},
	{"ladder", "philly:relax=proportional", "relaxes after waits in proportion to run times"},
	{"+defrag", "philly:relax=proportional@defrag:saves=all", "and moves jobs when that pays"},
	{"+reserve", "philly:relax=proportional@reserve", "and reserves for gangs of 16 and more"},
	{"+both", "philly:relax=proportional@defrag:saves=all@reserve", "both"},
	{"strict+defrag", "philly:relax=off@defrag:saves=all", "never relaxes, and moves jobs when that pays"},
	{"greedy", "fifo:greedy", "first come first served; a job that fits may overtake"},
	{"greedy+res.", "fifo:greedy@reserve", "and reserves for gangs of 16 and more"},
}

// Fragments is the outcome of the experiment.
type Fragments struct {
	Config FragmentsConfig
	GPUs   int
	Runs   []FragmentsRun
}

// RunFragments replays one Philly-like workload under every variant.
func RunFragments(c FragmentsConfig) (*Fragments, error) {
	cluster, err := sim.ParseCluster(c.Cluster, "p100")
	if err != nil {
		return nil, err
	}
	w, err := trace.Generate(trace.Gen{Kind: "philly", Jobs: c.Jobs, GPUs: cluster.GPUs(), Seed: c.Seed, Load: c.Load})
	if err != nil {
		return nil, err
	}
	out := &Fragments{Config: c, GPUs: cluster.GPUs()}
	for _, v := range fragmentsVariants {
		cfg, err := configOf(v.spec)
		if err != nil {
			return nil, err
		}
		cfg.Cluster, cfg.Seed, cfg.Interval, cfg.Retry = cluster, c.Seed, 30*time.Second, time.Minute
		cfg.Estimates = sim.Exact
		if c.Progress != nil {
			cfg.Progress = func(p sim.Progress) { c.Progress(v.spec, p) }
		}
		res, _, err := sim.Run(cfg, w)
		if err != nil {
			return nil, fmt.Errorf("policy %s: %w", v.spec, err)
		}
		out.Runs = append(out.Runs, FragmentsRun{v.name, v.spec, v.meaning, res, cluster.MaxGPUs()})
	}
	return out, nil
}

// otherFragments is the number of seeds that show the effect of chance.
const otherFragments = 5

// OtherFragments repeats the experiment with the seeds that follow its own.
func OtherFragments(c FragmentsConfig, progress func(part string, done, all int)) ([]*Fragments, error) {
	c.Progress = nil
	out := make([]*Fragments, otherFragments)
	err := each("other seeds", DefaultPhilly().Workers, len(out), progress, func(i int) (err error) {
		one := c
		one.Seed += uint64(i + 1)
		out[i], err = RunFragments(one)
		return err
	})
	return out, err
}

// Delay is the time that gangs of a size waited before their first start although
// their tenant's quota allowed it: for GPUs, or for GPUs close to each other. As in
// the Philly paper, it includes the back-off of a gang that did not fit.
type Delay struct {
	Jobs    int     // of the size
	Delayed int     // gangs for which this was the larger part of the wait
	Mean    float64 // seconds, over all jobs of the size
	P90     float64 // seconds: whole wait of the delayed gangs
	Longest float64 // seconds: longest whole wait of the size
}

// Delay returns the delay of the gangs of least to most GPUs, the bounds of a size
// in the simulator's result.
func (r FragmentsRun) Delay(size string, least, most int) Delay {
	var d Delay
	var waits []float64
	for i := range r.Result.Jobs {
		j := &r.Result.Jobs[i]
		if j.GPUs < least || j.GPUs > most {
			continue
		}
		d.Jobs++
		d.Longest = max(d.Longest, j.Wait)
		if fragmentation(j.WaitFor) {
			waits = append(waits, j.Wait)
		}
	}
	for _, cause := range r.Result.Delays {
		for _, code := range sched.Codes() {
			if cause.Size == size && cause.Cause == code.String() && fragmentation(code) {
				d.Mean += cause.Time
			}
		}
	}
	if d.Jobs > 0 {
		d.Mean /= float64(d.Jobs)
	}
	d.Delayed = len(waits)
	if len(waits) > 0 {
		slices.Sort(waits)
		d.P90 = waits[(len(waits)-1)*9/10]
	}
	return d
}

func fragmentation(c sched.Code) bool {
	return c == sched.Fragmented || c == sched.Full || c == sched.BackOff
}

// Spread returns the share of the GPU time of gangs that they spent on more
// nodes than they need.
func (r FragmentsRun) Spread() float64 {
	var spread, all float64
	for i := range r.Result.Jobs {
		j := &r.Result.Jobs[i]
		for _, s := range j.Runs {
			if s.GPUs < 2 {
				continue
			}
			time := (s.End - s.Start) * float64(s.GPUs)
			all += time
			if s.Nodes > (s.GPUs+r.largest-1)/r.largest {
				spread += time
			}
		}
	}
	if all == 0 {
		return 0
	}
	return spread / all
}
