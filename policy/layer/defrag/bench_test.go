// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package defrag_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/fairway-gpu/fairway/policy/policytest"
	"github.com/fairway-gpu/fairway/sched"
)

// BenchmarkDecide measures what the layers add to a decision on 10,000 GPUs with
// 10,000 jobs: on a full cluster with a long queue, where large gangs get
// reservations, and on one in pieces, where room is looked for.
//
//	go test -bench Decide ./layer/defrag
func BenchmarkDecide(b *testing.B) {
	for _, load := range []struct {
		name string
		part float64 // of the jobs that run which have ended, by chance
	}{{"full", 0}, {"pieces", 0.15}} {
		s := busy(b, load.part)
		const below = "fifo:greedy:placement=fewest-nodes"
		for _, spec := range []string{below, below + "@defrag:saves=all", below + "@reserve", below + "@defrag:saves=all@reserve"} {
			b.Run(load.name+"/"+spec, func(b *testing.B) {
				p := build(b, spec)
				b.ReportAllocs()
				for b.Loop() {
					if _, _, err := sched.Decide(p, s); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// busy returns a snapshot of 1,250 nodes of 8 GPUs, 32 to a rack, with 10,000
// jobs, as many of them running as there is room for.
func busy(tb testing.TB, ended float64) *sched.Snapshot {
	nodes := make([]sched.Node, 1250)
	for i := range nodes {
		nodes[i] = sched.Node{Name: fmt.Sprint("n", i), GPUs: 8, Rack: fmt.Sprint("r", i/32)}
	}
	w, err := policytest.NewWorld(nodes)
	if err != nil {
		tb.Fatal(err)
	}
	must := func(err error) {
		if err != nil {
			tb.Fatal(err)
		}
	}
	random := rand.New(rand.NewPCG(1, 1))
	submit := func(id string, gpus int) {
		must(w.Submit(sched.Spec{
			ID: sched.JobID(id), GPUs: gpus,
			Estimate: sched.Duration((1 + random.ExpFloat64()*120) * float64(time.Minute)),
		}, 0))
	}
	for i := range 6_000 {
		submit(fmt.Sprint("j", i), []int{1, 1, 1, 1, 2, 4}[random.IntN(6)])
	}
	_, _, err = w.Decide(build(tb, "fifo:greedy"))
	must(err)
	w.Now = w.Now.Add(20 * time.Minute)
	for _, j := range slices.Clone(w.State.Snapshot(w.Now).Jobs) {
		if j.Phase == sched.Running && random.Float64() < ended {
			must(w.Apply(sched.Event{Kind: sched.JobEnded, Job: j.ID, Phase: sched.Finished}))
		}
	}
	for i := w.State.Jobs(); i < 10_000; i++ {
		submit(fmt.Sprint("w", i), []int{8, 8, 16, 32, 64}[random.IntN(5)])
	}
	w.Now = w.Now.Add(15 * time.Minute)
	return w.State.Snapshot(w.Now)
}
