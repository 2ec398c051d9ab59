// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package division

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/fairway-gpu/fairway/policy/policytest"
	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/goodput"
	"github.com/fairway-gpu/fairway/sched/place"
)

// models are throughput models of the six tasks of the paper on T4 GPUs, fitted
// to the measurements that its authors published with their simulator.
var models = map[string]goodput.Report{
	"imagenet": {
		Params: on("t4", goodput.Params{AlphaGrad: 0.0644, BetaGrad: 0.00449, AlphaLocal: 0.0751, BetaLocal: 0.00087, AlphaNode: 0.320, BetaNode: 0.00618, Gamma: 2.48}),
		Limits: goodput.Limits{Initial: 200, Max: 12800, LocalMin: 20, LocalMax: 200}, Noise: 11397,
	},
	"yolov3": {
		Params: on("t4", goodput.Params{AlphaGrad: 0.195, BetaGrad: 0.0252, AlphaLocal: 0.0941, BetaLocal: 0.0181, AlphaNode: 0.681, BetaNode: 0.0100, Gamma: 1.01}),
		Limits: goodput.Limits{Initial: 8, Max: 512, LocalMin: 4, LocalMax: 8}, Noise: 590,
	},
	"deepspeech2": {
		Params: on("t4", goodput.Params{AlphaGrad: 0.313, BetaGrad: 0.0234, AlphaLocal: 0.108, BetaLocal: 0.00451, AlphaNode: 0.505, BetaNode: 0.00975, Gamma: 1.48}),
		Limits: goodput.Limits{Initial: 20, Max: 640, LocalMin: 10, LocalMax: 80}, Noise: 33198,
	},
	"bert": {
		Params: on("t4", goodput.Params{AlphaGrad: 0.176, BetaGrad: 0.0586, AlphaLocal: 0.275, BetaLocal: 0.00081, AlphaNode: 1.397, BetaNode: 0.00861, Gamma: 1.84}),
		Limits: goodput.Limits{Initial: 12, Max: 384, LocalMin: 4, LocalMax: 12}, Noise: 1124,
	},
	"cifar10": {
		Params: on("t4", goodput.Params{AlphaGrad: 0.0178, BetaGrad: 0.000697, AlphaLocal: 0.0342, BetaLocal: 0.00165, AlphaNode: 0.128, BetaNode: 0.00261, Gamma: 2.23}),
		Limits: goodput.Limits{Initial: 128, Max: 4096, LocalMin: 32, LocalMax: 1024}, Noise: 4944,
	},
	"ncf": {
		Params: on("t4", goodput.Params{AlphaGrad: 0.00709, BetaGrad: 5.7e-7, AlphaLocal: 0.00424, AlphaNode: 0.0147, BetaNode: 0.00055, Gamma: 1}),
		Limits: goodput.Limits{Initial: 256, Max: 32768, LocalMin: 32, LocalMax: 32768}, Fixed: 32768,
	},
}

func on(kind string, p goodput.Params) map[string]goodput.Params {
	return map[string]goodput.Params{kind: p}
}

// scene builds snapshots.
type scene struct {
	*sched.Snapshot
	free *place.Free // what no job of it has
}

// nodes returns a scene without jobs.
func nodes(t testing.TB, list ...sched.Node) *scene {
	t.Helper()
	for i := range list {
		list[i].Name = fmt.Sprint("n", i)
	}
	c, err := sched.NewCluster(list)
	if err != nil {
		t.Fatal(err)
	}
	return &scene{&sched.Snapshot{Now: policytest.Start.Add(100 * time.Hour), Cluster: c}, place.NewFree(c)}
}

// cluster returns a scene of equal nodes.
func cluster(t testing.TB, count, gpus int) *scene {
	t.Helper()
	return nodes(t, slices.Repeat([]sched.Node{{GPUs: gpus, Type: "t4"}}, count)...)
}

// spec describes a job of a scene.
type spec struct {
	model    string // none: it has no report
	most     int    // GPUs it should be given, as reported
	had      int    // GPUs, ever
	min, max int    // 0: 1 and a thousand
	sizes    []int
	rigid    int // GPUs of a job that is not elastic
	age      time.Duration
	restarts int
	held     row // what it has; none: it waits
}

func (s *scene) add(x spec) *sched.Job {
	j := &sched.Job{}
	j.ID, j.Seq = sched.JobID(fmt.Sprint("j", len(s.Jobs))), int64(len(s.Jobs))
	j.Submitted, j.Since = s.Now.Add(-x.age), s.Now.Add(-x.age)
	j.GPUs, j.MinGPUs, j.MaxGPUs, j.Sizes, j.MostGPUs = 1, max(1, x.min), x.max, x.sizes, x.had
	if x.max == 0 {
		j.MaxGPUs = 1000
	}
	if x.rigid > 0 {
		j.GPUs, j.MinGPUs, j.MaxGPUs = x.rigid, 0, 0
	}
	if x.model != "" {
		j.Perf = s.report(x.model, x.most)
	}
	if len(x.held) > 0 {
		j.Phase, j.Starts, j.MostGPUs = sched.Running, 1+x.restarts, max(x.had, x.held.gpus())
		for _, h := range x.held {
			j.Placement = append(j.Placement, sched.Slice{
				Node: h.node, Milli: sched.WholeGPU, GPUs: s.free.OnNode(int(h.node)).Lowest(int(h.gpus)),
			})
		}
		s.free.Take(j, j.Placement)
	}
	s.Jobs = append(s.Jobs, j)
	return j
}

func (s *scene) report(model string, most int) *goodput.Report {
	r := models[model]
	r.Params, r.MostGPUs = maps.Clone(r.Params), most
	return &r
}

// config is what tests vary. The objective is that of Pollux.
type config struct {
	P       float64
	Restart float64 // seconds
	Apart   bool
	Search  Search
}

func usual() config { return config{P: -1, Restart: 30, Apart: true, Search: Fast(1)} }

func (s *scene) problem(c config) *problem {
	known := &Curves{}
	known.turn()
	o := &Speedups{P: c.P, Restart: c.Restart}
	return newProblem(s.Snapshot, Rules{Apart: c.Apart}, o, place.NewFree(s.Cluster), known, &memory{})
}

// policy is the plainest policy that divides.
type policy struct {
	config
	Divider
}

func (p *policy) Schedule(s *sched.Snapshot) sched.Plan {
	p.Begin()
	return p.Divide(s, Rules{Apart: p.Apart})
}

func policyOf(c config) *policy {
	return &policy{c, Divider{Objective: &Speedups{P: c.P, Restart: c.Restart}, Search: c.Search}}
}

// goodputOf asks the job's report.
func goodputOf(t *testing.T, j *sched.Job, nodes, gpus int) float64 {
	t.Helper()
	_, g, ok := j.Perf.Goodput("t4", goodput.Shape{Nodes: nodes, GPUs: gpus})
	if !ok {
		t.Fatalf("job %s has no model", j.ID)
	}
	return g
}

// chaos says how random a random scene is.
type chaos struct {
	nodes, jobs int  // at most
	mixed       bool // node sizes, types and racks differ, and some jobs are rigid
}

// random returns a scene in the middle of its life.
func random(t testing.TB, rng *rand.Rand, c chaos) *scene {
	t.Helper()
	size := []int{2, 4, 4, 8}[rng.IntN(4)]
	list := make([]sched.Node, 1+rng.IntN(c.nodes))
	for i := range list {
		list[i] = sched.Node{GPUs: size, Type: "t4"}
		if c.mixed {
			list[i].GPUs = 1 + rng.IntN(size)
			list[i].Rack = fmt.Sprint("r", rng.IntN(2))
			if rng.IntN(4) == 0 {
				list[i].Type = "a100"
			}
		}
	}
	s := nodes(t, list...)
	names := slices.Sorted(maps.Keys(models))
	for range 1 + rng.IntN(c.jobs) {
		x := spec{age: time.Duration(rng.ExpFloat64() * float64(time.Hour)), restarts: rng.IntN(4)}
		if rng.IntN(8) > 0 {
			x.model, x.most = names[rng.IntN(len(names))], 1<<rng.IntN(6)
		}
		if c.mixed && rng.IntN(5) == 0 {
			x.rigid = 1 + rng.IntN(2*size)
		}
		j := s.add(x)
		if j.Perf != nil {
			vary(rng, j.Perf, c.mixed)
		}
		if rng.IntN(3) > 0 {
			s.run(j, rng, size)
		}
	}
	return s
}

// vary makes a report differ from others of its model.
func vary(rng *rand.Rand, r *goodput.Report, mixed bool) {
	r.Noise *= rng.ExpFloat64()
	if !mixed || rng.IntN(2) == 0 {
		return
	}
	p := r.Params["t4"]
	p.AlphaGrad, p.BetaGrad = p.AlphaGrad/3, p.BetaGrad/3
	p.AlphaRack, p.BetaRack = 2*p.AlphaNode, 2*p.BetaNode
	r.Params["a100"] = p
}

// run lets a job run somewhere, if there is room.
func (s *scene) run(j *sched.Job, rng *rand.Rand, size int) {
	n := j.GPUs
	if j.Elastic() {
		n = 1 + rng.IntN(size+2)
	}
	strategy := place.Consolidated
	if rng.IntN(3) == 0 {
		strategy = place.Fragments
	}
	if p, ok := strategy(s.free, j, n); ok {
		j.Phase, j.Placement, j.MostGPUs, j.Starts = sched.Running, p, n, 1+rng.IntN(4)
		if j.Perf != nil {
			j.Perf.MostGPUs = max(j.Perf.MostGPUs, n)
		}
	}
}
