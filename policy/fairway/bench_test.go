// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package fairway

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/fairway-gpu/fairway/policy/policytest"
	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/goodput"
)

// BenchmarkElastic measures a decision about jobs that can all be resized, most of which
// run: jobs x GPUs. On one core it should take 3 ms at 160x64, 250 ms at 10000x16384.
func BenchmarkElastic(b *testing.B) {
	for _, c := range []struct{ jobs, nodes, gpus int }{{160, 16, 4}, {1000, 512, 8}, {10000, 2048, 8}} {
		b.Run(fmt.Sprintf("%dx%d", c.jobs, c.nodes*c.gpus), func(b *testing.B) {
			p, err := New(Default())
			if err != nil {
				b.Fatal(err)
			}
			w := crowd(b, p, c.jobs, c.nodes, c.gpus)
			s := w.State.Snapshot(w.Now)
			for b.Loop() {
				p.Schedule(s)
			}
		})
	}
}

// crowd returns a cluster after its agents have reported and the policy has decided.
func crowd(b *testing.B, p sched.Policy, jobs, nodes, gpus int) *policytest.World {
	b.Helper()
	list := make([]sched.Node, nodes)
	for i := range list {
		list[i] = sched.Node{Name: fmt.Sprint("n", i), GPUs: gpus, Type: "t4"}
	}
	w, err := policytest.NewWorld(list)
	if err != nil {
		b.Fatal(err)
	}
	must := func(err error) {
		if err != nil {
			b.Fatal(err)
		}
	}
	rng := rand.New(rand.NewPCG(1, uint64(jobs)))
	for i := range jobs {
		must(w.Submit(sched.Spec{ID: sched.JobID(fmt.Sprint("j", i)), GPUs: 1, MinGPUs: 1, MaxGPUs: 64, Work: 1e3 * (1 + rng.ExpFloat64()*100)}, 0))
	}
	for range 3 {
		_, _, err := w.Decide(p)
		must(err)
		w.Now = w.Now.Add(10 * time.Minute)
		for _, j := range w.State.Snapshot(w.Now).Jobs {
			if j.Phase == sched.Running && rng.IntN(10) > 0 {
				must(w.Apply(sched.Event{Kind: sched.JobReported, Job: j.ID, Perf: report(rng)}))
			}
		}
	}
	return w
}

// report returns what an agent may have fitted: between a model that scales well and one
// that does not.
func report(rng *rand.Rand) *goodput.Report {
	slow := 1 + 4*rng.Float64()
	return &goodput.Report{
		Params: map[string]goodput.Params{"t4": {
			AlphaGrad: 0.05, BetaGrad: 0.002, AlphaLocal: 0.05 * slow, BetaLocal: 0.001, AlphaNode: 0.2 * slow, BetaNode: 0.005, Gamma: 2,
		}},
		Noise: 5000 * rng.ExpFloat64(), Limits: goodput.Limits{Initial: 128, Max: 8192, LocalMin: 32, LocalMax: 256},
		MostGPUs: 64, UsableGPUs: 64,
	}
}
