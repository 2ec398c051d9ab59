// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package repro

import (
	"bytes"
	"math"
	"strings"
	"testing"

	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sim"
)

func TestAgainst(t *testing.T) {
	a := inSeconds()
	a.add(80, 100)
	a.add(90, 100)
	if math.Abs(a.mean()-0.85) > 1e-9 || math.Abs(a.worst()-0.9) > 1e-9 {
		t.Errorf("mean %g, worst %g; want 0.85 and 0.9", a.mean(), a.worst())
	}
	if c := a.atMost("x", a.mean(), 0.86); !c.Holds || c.Want != "0.86 or less" || c.Ours != "0.850 (80, 90 against 100, 100 s)" {
		t.Errorf("claim %+v", c)
	}
	if c := a.atMost("x", a.worst(), 0.89); c.Holds {
		t.Errorf("claim %+v holds; 0.9 is not 0.89 or less", c)
	}
}

// A GPU is wasted while it is free and a waiting job fits on the free ones.
func TestWasted(t *testing.T) {
	run := func(from, to float64, gpus int) []sim.Segment {
		return []sim.Segment{{Start: from, End: to, GPUs: gpus}}
	}
	res := &sim.Result{Cluster: sim.ClusterShape{GPUs: 4}, Jobs: []sim.JobResult{
		{GPUs: 3, Submit: 0, End: 100, Runs: run(0, 100, 3)},
		{GPUs: 2, Submit: 10, End: 130, Runs: run(110, 130, 2)}, // fits from 100 on: 10 s on 2 GPUs
		{GPUs: 1, Submit: 20, End: 60, Runs: run(25, 60, 1)},    // fits at once: 5 s
	}}
	if got := wasted(res); got != 25 {
		t.Errorf("%g GPU-seconds wasted; want 25", got)
	}
	if got := fitting(map[int]int{1: 1, 2: 2, 8: 1}, 6); got != 5 {
		t.Errorf("%d of 6 GPUs can be used by jobs of 1, 2, 2 and 8; want 5", got)
	}
}

func TestFlagshipClaims(t *testing.T) {
	runs := []*sim.Result{{Jobs: []sim.JobResult{{ID: "giant", Wait: 5 * 3600}}}, {Jobs: []sim.JobResult{{ID: "giant", Wait: 7 * 3600}}}}
	runs[0].AvgJCT, runs[1].AvgJCT = 3600, 7200
	claims := streamClaims("giant", runs)
	if claims[0].Holds || claims[0].Ours != "5.00, 7.00 h" || !claims[1].Holds {
		t.Errorf("claims %+v; want that one seed of two decides", claims)
	}
	plain := plainClaims(0.5, []string{"a", "b", "mine"}, []float64{100, 80, 82}, []int{9, 9, 0})
	if !plain[0].Holds || !strings.Contains(plain[0].What, "`b`") || !plain[1].Holds {
		t.Errorf("claims %+v; want 82 against the 80 of b to hold", plain)
	}
	if plain = plainClaims(0.5, []string{"a", "mine"}, []float64{100, 104}, []int{0, 1}); plain[0].Holds || plain[1].Holds {
		t.Errorf("claims %+v; want neither to hold", plain)
	}
	if n := plainStops(&sim.Result{Jobs: []sim.JobResult{{Plain: true, Preemptions: 1, Moves: 2}, {Preemptions: 5}}}); n != 3 {
		t.Errorf("%d stops of plain jobs; want 3", n)
	}
}

// A part runs, parts without their data say so, and the page is written after each.
func TestFlagship(t *testing.T) {
	var written int
	f, err := RunFlagship(FlagshipConfig{
		Policy: "fifo:backfill", Only: []string{"streams", "sia"}, Seeds: 1, Scale: 150,
		Done: func(*Flagship) error { written++; return nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	if written != len(FlagshipParts()) {
		t.Errorf("written %d times; want once for each of %d parts", written, len(FlagshipParts()))
	}
	var page bytes.Buffer
	f.Print(&page, "images")
	for _, want := range []string{
		"# What `fifo:backfill` must show", "| `giant`: wait of the 64-GPU gang, each seed | 6 h or less |", "| giant, seed 1 | `las` |",
		"- sia: not run: needs --sia", "- traces: not run: not chosen by --only", "    fairway repro flagship --only streams\n",
	} {
		if !strings.Contains(page.String(), want) {
			t.Errorf("the page lacks %q:\n%s", want, page.String())
		}
	}
}

// The runs of the page are those of its commands: what "fairway sim" does without flags.
func TestFlagshipConfig(t *testing.T) {
	f := newFlagship(FlagshipConfig{})
	cfg, err := f.config(&trial{"pollux", place{setting: setting{cluster: "16x4"}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if cfg.Interval.Seconds() != 60 || cfg.Agent.Seconds() != 30 || cfg.Seed != 1 || !cfg.CoAdapt || cfg.Interference != sim.PerModel {
		t.Errorf("interval %s, agent %s, seed %d, agents %v, interference %g", cfg.Interval, cfg.Agent, cfg.Seed, cfg.CoAdapt, cfg.Interference)
	}
	if cfg.Cluster.Types[0] != sched.GPUType("t4") {
		t.Errorf("GPUs %s; want t4", cfg.Cluster.Types[0])
	}
}
