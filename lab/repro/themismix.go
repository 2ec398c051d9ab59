// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package repro

import (
	"cmp"
	"fmt"
	"time"

	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sim"
	"github.com/fairway-gpu/fairway/sim/trace"
	"github.com/fairway-gpu/fairway/sim/zoo"
)

// mix names a workload of the reproduction.
type mix struct {
	seed   uint64
	jobs   int      // before it is thinned out; 0: those of the config
	load   float64  // 0: the generator's
	thin   int      // divides the jobs of every app and the GPUs; 0: all
	models []string // that the apps train instead of their own; none: their own
	// estimates is what policies know; "": exact run times, as the paper's apps
	// know the work they have left.
	estimates sim.Estimates
}

// mixes makes workloads, and runs policies on them.
type mixes struct {
	config ThemisConfig
	zoo    *zoo.Zoo
}

func newMixes(c ThemisConfig) (*mixes, error) {
	z, err := zoo.Builtin()
	if err != nil {
		return nil, err
	}
	return &mixes{config: c, zoo: z}, nil
}

// themisCluster has 256 GPUs, or a part of them, in machines of two kinds with
// four levels of locality: NVLink islands, machines, racks of 32 GPUs, and all.
func themisCluster(thin int) (*sched.Cluster, error) {
	var nodes []sched.Node
	for i := range 16 / thin {
		nodes = append(nodes, sched.Node{
			Name: fmt.Sprintf("a%d", i), GPUs: 8, Type: "p100", Rack: fmt.Sprintf("a%d", i/4),
			Islands: []sched.GPUSet{0x0f, 0xf0},
		})
	}
	for i := range 32 / thin {
		nodes = append(nodes, sched.Node{
			Name: fmt.Sprintf("b%d", i), GPUs: 4, Type: "p100", Rack: fmt.Sprintf("b%d", i/8),
			Islands: []sched.GPUSet{0x3, 0xc},
		})
	}
	return sched.NewCluster(nodes)
}

const themisGPUs = 256

// workload draws a mix.
func (m *mixes) workload(x mix) (*sim.Workload, error) {
	w, err := trace.Generate(trace.Gen{Kind: trace.KindThemis, Jobs: cmp.Or(x.jobs, m.config.Jobs), GPUs: themisGPUs, Seed: x.seed, Load: x.load})
	if err != nil {
		return nil, err
	}
	if x.thin > 1 {
		thinOut(w, x.thin)
	}
	if len(x.models) > 0 {
		if err := m.retrain(w, x.models); err != nil {
			return nil, err
		}
	}
	return w, nil
}

// thinOut keeps the first of every n jobs of each app, so that the apps and
// their shares are the same on a cluster of an nth of the size.
func thinOut(w *sim.Workload, n int) {
	seen := map[sched.AppID]int{}
	keep := w.Work[:0]
	for _, job := range w.Work {
		if seen[job.App]%n == 0 {
			keep = append(keep, job)
		}
		seen[job.App]++
	}
	w.Work = keep
}

// retrain gives the apps other models, in turn.
func (m *mixes) retrain(w *sim.Workload, models []string) error {
	chosen := map[sched.AppID]string{}
	for i := range w.Work {
		job := &w.Work[i]
		name, ok := chosen[job.App]
		if !ok {
			name = models[len(chosen)%len(models)]
			chosen[job.App] = name
		}
		model, ok := m.zoo.Model(name)
		if !ok {
			return fmt.Errorf("model %q is not in the zoo", name)
		}
		job.Model, job.Consolidate = name, model.Consolidate && job.GPUs > 1
	}
	return nil
}

// run replays a mix under a policy.
func (m *mixes) run(x mix, spec string) (*sim.Result, error) {
	w, err := m.workload(x)
	if err != nil {
		return nil, err
	}
	return m.replay(w, x, spec)
}

// replay runs a policy on a workload, which it does not change.
func (m *mixes) replay(w *sim.Workload, x mix, spec string) (*sim.Result, error) {
	cluster, err := themisCluster(max(1, x.thin))
	if err != nil {
		return nil, err
	}
	cfg, err := configOf(spec)
	if err != nil {
		return nil, err
	}
	cfg.Cluster, cfg.Seed, cfg.Interval, cfg.Agent = cluster, x.seed, time.Minute, time.Minute
	cfg.Estimates = cmp.Or(x.estimates, sim.Exact)
	res, _, err := sim.Run(cfg, w)
	if err != nil {
		return nil, fmt.Errorf("policy %s, seed %d: %w", spec, x.seed, err)
	}
	return res, nil
}

// outcomes runs policies on every seed of a mix.
func (m *mixes) outcomes(part string, x mix, specs []string) ([]Outcome, error) {
	out := make([]Outcome, len(specs))
	for i, spec := range specs {
		out[i] = Outcome{Policy: spec, Runs: make([]Fairness, m.config.Seeds)}
	}
	workloads := make([]*sim.Workload, m.config.Seeds)
	for i := range workloads {
		var err error
		x.seed = uint64(i + 1)
		if workloads[i], err = m.workload(x); err != nil {
			return nil, err
		}
	}
	return out, m.each(part, len(specs)*m.config.Seeds, func(i int) error {
		spec, seed := i/m.config.Seeds, i%m.config.Seeds
		one := x
		one.seed = uint64(seed + 1)
		res, err := m.replay(workloads[seed], one, specs[spec])
		if err != nil {
			return err
		}
		out[spec].Runs[seed] = fairnessOf(workloads[seed], res)
		if seed == 0 {
			out[spec].Oracle = res.Oracle
		}
		return nil
	})
}

// each calls do n times on the configured number of workers.
func (m *mixes) each(part string, n int, do func(int) error) error {
	return each(part, m.config.Workers, n, m.config.Progress, do)
}
