// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package gavel_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sim"
	"github.com/fairway-gpu/fairway/sim/zoo"
)

// mix is a workload of jobs that use their GPUs between low and high, more than
// eight GPUs can take at once.
func mix(low, high float64, seed uint64) *sim.Workload {
	random := rand.New(rand.NewPCG(seed, 1))
	w := &sim.Workload{Name: "mix", Start: time.Unix(1e9, 0).UTC()}
	at := w.Start
	for i := range 40 {
		length := sched.Duration(time.Duration(10+random.IntN(80)) * time.Minute)
		w.Work = append(w.Work, sim.Work{
			Spec: sched.Spec{
				ID: sched.JobID(fmt.Sprint("j", i)), Submitted: at, GPUs: 1 << random.IntN(2), Estimate: length,
				Shareable: true, GPUUtil: low + (high-low)*random.Float64(), GPUMemory: 8 << 30,
			},
			RunTime: length,
		})
		at = at.Add(time.Duration(random.IntN(360)) * time.Second)
	}
	return w
}

// simulate runs a workload under a policy on eight GPUs, where jobs slow each other
// as was measured, scatter included.
func simulate(t *testing.T, spec string, w *sim.Workload) *sim.Result {
	t.Helper()
	var c sim.Config
	var err error
	if c.Cluster, err = sched.NewCluster([]sched.Node{
		{Name: "n0", GPUs: 4, Type: "h200", GPUMemory: 140 << 30}, {Name: "n1", GPUs: 4, Type: "h200", GPUMemory: 140 << 30},
	}); err != nil {
		t.Fatal(err)
	}
	if c.Zoo, err = zoo.Builtin(); err != nil {
		t.Fatal(err)
	}
	c.Policy, c.Seed, c.Sharing = build(t, spec), 1, &sim.Sharing{Scatter: true}
	res, _, err := sim.Run(c, w)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

// Twice as many jobs as GPUs, all at once: light ones get nearly all of their
// speed, more than the half that turns would give them; of heavy ones nobody
// shares.
func TestPackingSpeed(t *testing.T) {
	const length = time.Hour
	for _, c := range []struct {
		util   float64
		shares bool
		least  float64 // work done for each hour until the end, of the slowest
	}{{0.3, true, 0.9}, {0.95, false, 0.45}} {
		w := &sim.Workload{Name: "burst", Start: time.Unix(1e9, 0).UTC()}
		for i := range 16 {
			w.Work = append(w.Work, sim.Work{
				Spec: sched.Spec{
					ID: sched.JobID(fmt.Sprint("j", i)), Submitted: w.Start, GPUs: 1, Estimate: sched.Duration(length),
					Shareable: true, GPUUtil: c.util, GPUMemory: 8 << 30,
				},
				RunTime: sched.Duration(length),
			})
		}
		res := simulate(t, "gavel:packing", w)
		if shares := res.Sharing != nil; shares != c.shares {
			t.Errorf("utilisation %g: jobs share: %t; want %t", c.util, shares, c.shares)
		}
		for _, j := range res.Jobs {
			if speed := length.Seconds() / j.JCT; speed < c.least {
				t.Errorf("utilisation %g: job %s has %.2f of its speed; want %g", c.util, j.ID, speed, c.least)
			}
		}
	}
}

// Light jobs end sooner if they share GPUs; heavy ones lose nothing because they
// may: what differs is only chance, in the order of events within a nanosecond.
func TestPackingPays(t *testing.T) {
	for _, c := range []struct {
		name          string
		low, high     float64
		jct, makespan float64 // at most this many times those without sharing
	}{{"light", 0.1, 0.5, 0.7, 0.7}, {"heavy", 0.85, 1, 1.02, 1.02}} {
		for _, goal := range []string{"", ":ftf", ":makespan", ":cost", ":sjf"} {
			var jct, makespan [2]float64
			var restarts [2]int
			for i, variant := range []string{"", ":packing"} {
				for seed := range uint64(2) {
					res := simulate(t, "gavel"+goal+variant, mix(c.low, c.high, seed))
					jct[i] += res.AvgJCT
					makespan[i] += res.Makespan
					restarts[i] += res.Restarts
				}
			}
			t.Logf("%s%s: JCT x %.3f, makespan x %.3f, restarts %d", c.name, goal, jct[1]/jct[0], makespan[1]/makespan[0], restarts)
			if jct[1] > c.jct*jct[0] || makespan[1] > c.makespan*makespan[0] {
				t.Errorf("%s%s: average JCT x %.3f and makespan x %.3f with sharing; want at most %g and %g",
					c.name, goal, jct[1]/jct[0], makespan[1]/makespan[0], c.jct, c.makespan)
			}
		}
	}
}
