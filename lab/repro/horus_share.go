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

// HorusShareConfig is the experiment on sharing GPUs.
type HorusShareConfig struct {
	Jobs  int
	Seeds []uint64
	// Load is the GPU time that jobs need over the GPU time available while they
	// arrive: far above 1, so that queues form and the last arrival does not set
	// the makespan.
	Load    float64
	Longest time.Duration
	Error   float64 // of predicted utilisations, as RMSLE
	Heavy   float64 // share of light jobs in the heavy mix
	Workers int     // runs at once
	// Progress, if set, is called with the number of finished runs. Calls never overlap.
	Progress func(part string, done, all int)
}

// DefaultHorusShare is a backlog of a few days for the 1,024 GPUs of the paper's
// simulations. The error is that of the paper's best predictor.
func DefaultHorusShare() HorusShareConfig {
	return HorusShareConfig{Jobs: 4000, Seeds: []uint64{1, 2, 3, 4, 5}, Load: 16, Longest: 24 * time.Hour, Error: 0.133, Heavy: 0.1, Workers: 2}
}

// exclusive is the baseline: no GPU is shared. Like the sharing policies it waits
// for a good placement; with its default placement, which spreads gangs over any
// free GPUs, fifo is worse.
const exclusive = "fifo:placement=fewest-nodes"

// HorusSharePolicies are compared on the main mix.
var HorusSharePolicies = []string{
	exclusive, "fifo", "packing", "packing:gandiva", "gandiva", "antman", "antman:coordinator=false", "horus", "horus+", "horus:slowdown=0",
	exclusive + "@share", "tiresias", "tiresias@share",
}

// heavyHorusPolicies are compared on the heavy mix, and predictors, which share by
// predicted utilisation, with other errors.
var (
	predictors         = []string{"horus", "horus+", exclusive + "@share"}
	heavyHorusPolicies = append([]string{exclusive, "packing"}, predictors...)
)

// HorusShareRow is the result of a policy: means over its seeds.
type HorusShareRow struct {
	Policy                    string
	Util, Held                float64
	Makespan                  float64 // seconds, as all times
	AvgWait, P50Wait, P90Wait float64
	AvgJCT, P50JCT, P90JCT    float64
	Slowdown, Over            float64 // of jobs while they share
	Measured, Modelled        float64 // groups on a GPU: slowdown measured, and not
	Together                  float64 // part of the run time in which jobs share
	Restarts                  float64
	Seeds                     []HorusShareRow // of the seeds alone
}

// HorusShare is the outcome of the experiment.
type HorusShare struct {
	Config    HorusShareConfig
	MeanUtil  float64 // of the jobs of the main mix, by GPU time
	HeavyUtil float64
	Main      []HorusShareRow
	HeavyMix  []HorusShareRow
	Errors    map[float64][]HorusShareRow // by error of predictions other than Config.Error
}

// otherErrors are the errors of predictions that are compared with the main mix.
var otherErrors = []float64{0, 0.3}

// RunHorusShare runs the experiment.
func RunHorusShare(c HorusShareConfig) (*HorusShare, error) {
	out := &HorusShare{Config: c, Errors: map[float64][]HorusShareRow{}}
	var err error
	gen := trace.Gen{Kind: trace.KindHorus, Jobs: c.Jobs, Load: c.Load, Longest: c.Longest, Error: c.Error}
	if out.Main, out.MeanUtil, err = c.compare("mix", gen, HorusSharePolicies); err != nil {
		return nil, err
	}
	heavy := gen
	heavy.Light = c.Heavy
	for _, e := range otherErrors {
		other := gen
		other.Error = e
		if out.Errors[e], _, err = c.compare(fmt.Sprintf("error %g", e), other, predictors); err != nil {
			return nil, err
		}
	}
	gen.Light = c.Heavy
	out.HeavyMix, out.HeavyUtil, err = c.compare("heavy mix", gen, heavyHorusPolicies)
	return out, err
}

// compare runs policies on the workloads of all seeds.
func (c HorusShareConfig) compare(what string, gen trace.Gen, specs []string) (rows []HorusShareRow, util float64, err error) {
	work := make([]*sim.Workload, len(c.Seeds))
	for i, seed := range c.Seeds {
		gen.Seed = seed
		if work[i], err = horusWorkload(&gen); err != nil {
			return nil, 0, err
		}
		util += meanUtil(work[i]) / float64(len(work))
	}
	runs := make([]*sim.Summary, len(specs)*len(work))
	err = each(what, c.Workers, len(runs), c.Progress, func(n int) error {
		spec, i := specs[n/len(work)], n%len(work)
		res, err := shareRun(spec, work[i], c.Seeds[i])
		if err != nil {
			return fmt.Errorf("%s, seed %d: %w", spec, c.Seeds[i], err)
		}
		runs[n] = &res.Summary
		return nil
	})
	if err != nil {
		return nil, 0, err
	}
	for i, spec := range specs {
		rows = append(rows, shareRow(spec, runs[i*len(work):][:len(work)]))
	}
	return rows, util, nil
}

// shareRow sums up the runs of a policy.
func shareRow(spec string, runs []*sim.Summary) HorusShareRow {
	r := HorusShareRow{Policy: spec}
	for _, s := range runs {
		r.add(s, 1/float64(len(runs)))
		one := HorusShareRow{Policy: spec}
		one.add(s, 1)
		r.Seeds = append(r.Seeds, one)
	}
	return r
}

// over is the mean and spread over the seeds of a figure.
func (r HorusShareRow) over(figure func(HorusShareRow) float64) Mean {
	var all []float64
	for _, one := range r.Seeds {
		all = append(all, figure(one))
	}
	return meanOf(all)
}

func horusWorkload(gen *trace.Gen) (*sim.Workload, error) {
	cluster, err := trace.HorusCluster()
	if err != nil {
		return nil, err
	}
	gen.GPUs = cluster.GPUs()
	return trace.Generate(*gen)
}

// heldOut is the GPU type of the cluster: policies predict with a model that was
// fitted to half of the pairs, and jobs are slowed by the other half.
const heldOut = "h200-half"

func shareCluster() (*sched.Cluster, error) {
	cluster, err := trace.HorusCluster()
	if err != nil {
		return nil, err
	}
	nodes := slices.Clone(cluster.Nodes)
	for i := range nodes {
		nodes[i].Type = heldOut
	}
	return sched.NewCluster(nodes)
}

// shareRun simulates one policy. Jobs that share a GPU slow down as measured, or
// differ from the model as measured pairs do.
func shareRun(spec string, w *sim.Workload, seed uint64) (*sim.Result, error) {
	cluster, err := shareCluster()
	if err != nil {
		return nil, err
	}
	cfg, err := configOf(spec)
	if err != nil {
		return nil, err
	}
	cfg.Cluster, cfg.Seed, cfg.Interval, cfg.Sharing = cluster, seed, 5*time.Minute, &sim.Sharing{Scatter: true}
	cfg.Estimates = sim.Exact // only reservations use them; the page is about predicted utilisation
	res, _, err := sim.Run(cfg, w)
	return res, err
}

// meanUtil is the mean true utilisation of a workload, by GPU time.
func meanUtil(w *sim.Workload) float64 {
	var busy, all float64
	for i := range w.Work {
		time := float64(w.Work[i].GPUs) * w.Work[i].RunTime.D().Seconds()
		busy += time * w.Work[i].TrueUtil
		all += time
	}
	return busy / all
}

// add adds a run with a weight.
func (r *HorusShareRow) add(s *sim.Summary, weight float64) {
	r.Util += weight * s.GPUUtil
	r.Held += weight * s.GPUsHeld
	r.Makespan += weight * s.Makespan
	r.AvgWait += weight * s.AvgWait
	r.P50Wait += weight * s.P50Wait
	r.P90Wait += weight * s.P90Wait
	r.AvgJCT += weight * s.AvgJCT
	r.P50JCT += weight * s.P50JCT
	r.P90JCT += weight * s.P90JCT
	r.Restarts += weight * float64(s.Restarts)
	if s.Sharing != nil {
		r.Slowdown += weight * s.Sharing.Slowdown
		r.Over += weight * s.Sharing.Over
		r.Together += weight * s.Sharing.Part
		r.Measured += weight * float64(s.Sharing.Measured)
		r.Modelled += weight * float64(s.Sharing.Modelled)
	} else {
		r.Slowdown += weight
	}
}

// row returns the row of a policy, or an empty one.
func row(rows []HorusShareRow, spec string) HorusShareRow {
	for _, r := range rows {
		if r.Policy == spec {
			return r
		}
	}
	return HorusShareRow{}
}
