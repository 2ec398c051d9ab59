// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package autoscale

import (
	"fmt"
	"testing"
	"time"

	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/goodput"
)

var start = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

// imagenet and cifar10 are the throughput models that package zoo has for T4.
var (
	imagenet = goodput.Report{
		Params: map[string]goodput.Params{"t4": {
			AlphaGrad: 0.0644, BetaGrad: 0.00449, AlphaLocal: 0.0751, BetaLocal: 0.00087,
			AlphaNode: 0.32, BetaNode: 0.00618, Gamma: 2.48,
		}},
		Limits: goodput.Limits{Initial: 200, Max: 12800, LocalMin: 20, LocalMax: 200},
	}
	cifar10 = goodput.Report{
		Params: map[string]goodput.Params{"t4": {
			AlphaGrad: 0.0178, BetaGrad: 0.000697, AlphaLocal: 0.0342, BetaLocal: 0.00165,
			AlphaNode: 0.128, BetaNode: 0.00261, Gamma: 2.23,
		}},
		Limits: goodput.Limits{Initial: 128, Max: 4096, LocalMin: 32, LocalMax: 1024},
	}
)

// world is a cluster of equal nodes, some of them up, and its jobs.
type world struct {
	state *sched.State
	gpus  int // of a node
}

func newWorld(nodes, gpus, up int) (*world, error) {
	c, err := sched.NewCluster(nil)
	if err != nil {
		return nil, err
	}
	w := &world{state: sched.NewState(c), gpus: gpus}
	for i := range nodes {
		n := sched.Node{Name: fmt.Sprint("n", i), GPUs: gpus, Type: "t4"}
		if i >= up {
			n.State = sched.Down
		}
		if err := w.state.Apply(sched.Event{At: start, Kind: sched.NodeJoined, Node: &n}); err != nil {
			return nil, err
		}
	}
	return w, nil
}

// add submits a job; it starts on the first GPUs of the given nodes, if any.
func (w *world) add(spec sched.Spec, perf *goodput.Report, gpus int, nodes ...int) error {
	spec.Submitted = start
	if err := w.state.Apply(sched.Event{At: start, Kind: sched.JobSubmitted, Spec: &spec}); err != nil {
		return err
	}
	if len(nodes) > 0 {
		var p sched.Placement
		for _, n := range nodes {
			p = append(p, sched.Slice{Node: int32(n), GPUs: sched.FirstGPUs(gpus), Milli: sched.WholeGPU})
		}
		if err := w.state.Apply(sched.Event{At: start, Kind: sched.JobStarted, Job: spec.ID, Placement: p}); err != nil {
			return err
		}
	}
	if perf == nil {
		return nil
	}
	return w.state.Apply(sched.Event{At: start, Kind: sched.JobReported, Job: spec.ID, Perf: perf})
}

func (w *world) snapshot() *sched.Snapshot { return w.state.Snapshot(start) }

// filled returns a cluster of which n nodes are up and filled by one job.
func filled(t testing.TB, n int, perf goodput.Report, nodes int) *sched.Snapshot {
	t.Helper()
	w, err := newWorld(nodes, 4, n)
	if err != nil {
		t.Fatal(err)
	}
	on := make([]int, n)
	for i := range on {
		on[i] = i
	}
	if perf.MostGPUs == 0 {
		perf.MostGPUs = 2 * 4 * n
	}
	if err := w.add(sched.Spec{ID: "big", GPUs: 1, MinGPUs: 1, MaxGPUs: 4 * nodes}, &perf, 4, on...); err != nil {
		t.Fatal(err)
	}
	return w.snapshot()
}
