// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package gandiva

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
// with 8 GPUs each, while jobs end and others arrive: at every second decision a
// slice ends, so that most of the cluster changes hands. A decision must stay
// below 50 ms.
func BenchmarkDecide(b *testing.B) {
	for _, bc := range []struct {
		name  string
		sizes []int
	}{
		{"crowded", []int{1, 1, 1, 2, 2, 4, 8, 8, 16, 32}}, // 75,000 GPUs wanted of 10,000
		{"small", []int{1, 1, 1, 1, 1, 1, 2, 2, 2, 4}},     // 16,000
		{"roomy", []int{1, 1, 1, 1, 1, 1, 1, 1, 1, 1}},     // 10,000
	} {
		b.Run(bc.name, func(b *testing.B) {
			rng := rand.New(rand.NewPCG(1, 1))
			w := large(b, rng, bc.sizes)
			p := mustBuild(b, "gandiva")
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
						submit(b, w, rng, next, bc.sizes)
						next++
					}
				}
			})
		})
	}
}

func large(b *testing.B, rng *rand.Rand, sizes []int) *policytest.World {
	nodes := make([]sched.Node, 1250)
	for i := range nodes {
		nodes[i] = sched.Node{Name: fmt.Sprint("n", i), GPUs: 8, CPUs: 96, Type: "p100", GPUMemory: 16 << 30, Rack: fmt.Sprint("r", i/25)}
	}
	w, err := policytest.NewWorld(nodes)
	if err != nil {
		b.Fatal(err)
	}
	t := sched.Tenant{ID: "few", Quota: 500}
	if err := w.Apply(sched.Event{Kind: sched.TenantSet, Tenant: &t}); err != nil {
		b.Fatal(err)
	}
	for i := range 10_000 {
		submit(b, w, rng, i, sizes)
	}
	return w
}

func submit(b *testing.B, w *policytest.World, rng *rand.Rand, i int, sizes []int) {
	spec := sched.Spec{
		ID: sched.JobID(fmt.Sprint("j", i)), GPUs: sizes[rng.IntN(len(sizes))], CPUs: 4 + rng.IntN(5),
		GPUMemory: int64(rng.IntN(12)) << 30, Shareable: rng.IntN(3) == 0, GPUUtil: rng.Float64(),
	}
	switch rng.IntN(10) {
	case 0:
		spec.Tenant = "few"
	case 1:
		spec.MinGPUs, spec.MaxGPUs = 1, 2*spec.GPUs
	}
	if err := w.Submit(spec, 0); err != nil {
		b.Fatal(err)
	}
}
