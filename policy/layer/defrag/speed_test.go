// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package defrag

import (
	"math"
	"testing"
	"time"

	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/goodput"
)

func TestSpreadSpeed(t *testing.T) {
	for times, want := range map[float64]float64{0.5: 1, 1: 1, math.Sqrt2: 0.97, 2: 0.94, 2 * math.Sqrt2: 0.795, 4: 0.65, 16: 0.65} {
		if got := spreadSpeed(times); math.Abs(got-want) > 1e-9 {
			t.Errorf("on %g times as many nodes a gang runs at %g; want %g", times, got, want)
		}
	}
}

// A gang that is spread loses time: by level, by its number of nodes, and as its
// agent says where it has one.
func TestSpeeds(t *testing.T) {
	nodes := []sched.Node{}
	for i, rack := range []string{"a", "a", "a", "b"} {
		nodes = append(nodes, sched.Node{Name: string(rune('a' + i)), GPUs: 4, Rack: rack, Type: "t4"})
	}
	c, err := sched.NewCluster(nodes)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)
	d := decision{layer: &layer{Config: Default()}, s: &sched.Snapshot{Now: now, Cluster: c}}
	on := func(nodes ...int32) (p sched.Placement) {
		for _, n := range nodes {
			p = append(p, sched.Slice{Node: n, Milli: sched.WholeGPU, GPUs: sched.FirstGPUs(4 / len(nodes))})
		}
		return p
	}
	small := &sched.Job{Spec: sched.Spec{GPUs: 4, Estimate: sched.Duration(time.Hour)}}
	for _, x := range []struct {
		p    sched.Placement
		want float64 // GPU-seconds
	}{
		{on(0), 0},
		{on(0, 1), 4 * 3600 * (1/0.85 - 1)},
		{append(on(0, 1), on(2, 3)...), 4 * 3600 * (1/(0.65*0.94) - 1)},
		{on(0, 3), 4 * 3600 * (1/0.65 - 1)},
	} {
		if got := d.penalty(small, x.p); math.Abs(got-x.want) > 1e-6 {
			t.Errorf("on %s a gang loses %g GPU-seconds; want %g", x.p.Text(c), got, x.want)
		}
	}
	large := &sched.Job{Spec: sched.Spec{GPUs: 8, Estimate: sched.Duration(time.Hour)}}
	for nodes, want := range map[int]float64{2: 1, 3: 1 - math.Log2(1.5)*0.06} {
		if got := d.speedOn(large, on(0, 1, 2)[:nodes]); math.Abs(got-want) > 1e-9 {
			t.Errorf("a gang that needs two nodes runs at %g on %d of a rack; want %g", got, nodes, want)
		}
	}
	if got, want := d.speedOn(large, on(0, 3)), 0.65/0.85; math.Abs(got-want) > 1e-9 {
		t.Errorf("a gang that needs two nodes runs at %g in two racks; want %g", got, want)
	}
	small.Placement = on(0, 3)
	if now, then := d.speeds(small, on(1)); now != 0.65 || then != 1 {
		t.Errorf("speeds %g and %g; want the knobs' 0.65 and 1", now, then)
	}
	small.Perf = &goodput.Report{Fixed: 64, Limits: goodput.Limits{Initial: 64, Max: 64, LocalMin: 1, LocalMax: 64}, Params: map[string]goodput.Params{
		"t4": {AlphaGrad: 0.1, BetaGrad: 0.001, AlphaLocal: 0.01, AlphaNode: 0.4, AlphaRack: 0.4, Gamma: 1},
	}}
	slow, fast := d.speeds(small, on(1))
	if fast != 1 || !(slow > 0.1 && slow < 0.5) {
		t.Errorf("speeds %g and %g; want what the agent reports: less than half across nodes", slow, fast)
	}
}
