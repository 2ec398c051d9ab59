// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package philly

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/fairway-gpu/fairway/policy/policytest"
	"github.com/fairway-gpu/fairway/sched"
)

// BenchmarkDecide measures a decision about 10,000 active jobs on 1,250 servers
// with 8 GPUs each, in 14 virtual clusters, while jobs end and others arrive.
// A decision must stay below 50 ms.
func BenchmarkDecide(b *testing.B) {
	for _, spec := range []string{"philly", "philly:relax=off"} {
		b.Run(spec, func(b *testing.B) {
			rng := rand.New(rand.NewPCG(1, 1))
			w := large(b, rng)
			p := mustBuild(b, spec)
			if _, _, err := w.Decide(p); err != nil {
				b.Fatal(err)
			}
			next := 10_000
			w.Bench(b, p, func() {
				w.Now = w.Now.Add(30 * time.Second)
				for _, j := range slices.Clone(w.State.Snapshot(w.Now).Jobs) {
					if j.Phase == sched.Running && rng.IntN(200) == 0 {
						if err := w.Apply(sched.Event{Kind: sched.JobEnded, Job: j.ID, Phase: sched.Finished}); err != nil {
							b.Fatal(err)
						}
						submit(b, w, rng, next)
						next++
					}
				}
			})
		})
	}
}

func large(b *testing.B, rng *rand.Rand) *policytest.World {
	nodes := make([]sched.Node, 1250)
	for i := range nodes {
		nodes[i] = sched.Node{Name: fmt.Sprint("n", i), GPUs: 8, CPUs: 96, Type: "p100", Rack: fmt.Sprint("r", i/25)}
	}
	w, err := policytest.NewWorld(nodes)
	if err != nil {
		b.Fatal(err)
	}
	for i := range 14 {
		t := sched.Tenant{ID: sched.TenantID(fmt.Sprint("vc", i)), Quota: 700, Borrow: i%4 != 0}
		if err := w.Apply(sched.Event{Kind: sched.TenantSet, Tenant: &t}); err != nil {
			b.Fatal(err)
		}
	}
	for i := range 10_000 {
		submit(b, w, rng, i)
	}
	return w
}

// submit submits a job; few tenants submit most of them, so that they borrow
// what the others have to take back.
func submit(b *testing.B, w *policytest.World, rng *rand.Rand, i int) {
	spec := sched.Spec{
		ID: sched.JobID(fmt.Sprint("j", i)), GPUs: []int{1, 1, 1, 2, 2, 4, 8, 8, 16, 32}[rng.IntN(10)], CPUs: 4 + rng.IntN(5),
		Tenant: sched.TenantID(fmt.Sprint("vc", int(14*rng.Float64()*rng.Float64()))),
	}
	if err := w.Submit(spec, 0); err != nil {
		b.Fatal(err)
	}
}
