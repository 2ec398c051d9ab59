// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package sim_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/fairway-gpu/fairway/policy"
	"github.com/fairway-gpu/fairway/sim"
	"github.com/fairway-gpu/fairway/sim/trace"
)

// BenchmarkRun replays Philly-like workloads on a cluster of Philly's size,
// 2,490 GPUs, under every policy: a whole simulation an iteration.
//
//	go test -run '^$' -bench 'Run/(las|tiresias)/100000' -benchtime 1x ./sim
func BenchmarkRun(b *testing.B) {
	for _, name := range policy.Builtin().Names() {
		for _, jobs := range []int{1_000, 10_000, 100_000} {
			b.Run(fmt.Sprintf("%s/%d", name, jobs), func(b *testing.B) {
				w, err := trace.Generate(trace.Gen{Kind: "philly", Jobs: jobs, GPUs: 2490, Seed: 1})
				if err != nil {
					b.Fatal(err)
				}
				b.ReportAllocs()
				for b.Loop() {
					c := config(b, "240x8/20+285x2/38", name)
					c.Interval, c.Retry, c.Interference = time.Minute, time.Minute, sim.PerModel
					res, _, err := sim.Run(c, w)
					if err != nil {
						b.Fatal(err)
					}
					b.ReportMetric(float64(res.Decisions), "decisions")
					b.ReportMetric(float64(jobs)/b.Elapsed().Seconds()*float64(b.N), "jobs/s")
				}
			})
		}
	}
}

// BenchmarkPollux is the 160-job workload of the Pollux evaluation.
func BenchmarkPollux(b *testing.B) {
	w, err := trace.Generate(trace.Gen{Kind: "pollux", Jobs: 160, GPUs: 64, Seed: 1})
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		c := config(b, "16x4", "tiresias")
		c.Interval = time.Minute
		if _, _, err := sim.Run(c, w); err != nil {
			b.Fatal(err)
		}
	}
}
