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

// BenchmarkElastic measures a decision that divides the whole cluster among jobs that can
// all be resized, most of which run: jobs x GPUs. On one core it should take 3 ms at 160x64,
// 250 ms at 10000x16384 and 2 s at 100000x100000.
func BenchmarkElastic(b *testing.B) {
	for _, size := range []size{{160, 16, 4}, {1000, 512, 8}, {10000, 2048, 8}, {100000, 12500, 8}} {
		b.Run(size.String(), func(b *testing.B) {
			c := Default()
			c.Whole = size.jobs
			p := newPolicy(b, c)
			w := crowd(b, p, size, elastic)
			s := w.State.Snapshot(w.Now)
			report := policytest.Processor(b)
			for b.Loop() {
				p.Schedule(s)
			}
			report()
		})
	}
}

// BenchmarkEvent measures decisions that follow each other as in operation, each after one
// event: a job ends, one is submitted, an agent reports. To apply the event, to check the
// plan and to carry it out is included. On one core it should take 20 ms with 10,000 jobs.
func BenchmarkEvent(b *testing.B) {
	for _, kind := range []kind{rigid, elastic} {
		for _, size := range []size{{1000, 512, 8}, {10000, 2048, 8}, {100000, 12500, 8}} {
			b.Run(fmt.Sprint(kind, "/", size), func(b *testing.B) {
				p := newPolicy(b, Default())
				w := crowd(b, p, size, kind)
				rng := rand.New(rand.NewPCG(2, uint64(size.jobs)))
				b.ReportAllocs()
				report := policytest.Processor(b)
				for n := 0; b.Loop(); n++ {
					w.Now = w.Now.Add(time.Second)
					happen(b, w, rng, n, kind)
					if _, _, err := w.Decide(p); err != nil {
						b.Fatal(err)
					}
				}
				report()
			})
		}
	}
}

func newPolicy(t testing.TB, c Config) sched.Policy {
	t.Helper()
	p, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// size is that of a cluster.
type size struct{ jobs, nodes, gpus int }

func (s size) String() string { return fmt.Sprintf("%dx%d", s.jobs, s.nodes*s.gpus) }

// kind says whether the jobs of a cluster can be resized.
type kind string

const rigid, elastic kind = "rigid", "elastic"

// spec returns one more job.
func (k kind) spec(w *policytest.World, rng *rand.Rand) sched.Spec {
	s := sched.Spec{ID: sched.JobID(fmt.Sprint("j", len(w.Length))), GPUs: 1}
	w.Length[s.ID] = 0 // it ends when the test says so
	if k == elastic {
		s.MinGPUs, s.MaxGPUs, s.Work = 1, 64, 1e3*(1+rng.ExpFloat64()*100)
		return s
	}
	s.GPUs = []int{1, 1, 1, 1, 1, 2, 4, 8}[rng.IntN(8)]
	s.Estimate = sched.Duration(float64(time.Hour) * (0.1 + 2*rng.ExpFloat64()))
	return s
}

// crowd returns a cluster after its agents have reported and the policy has decided.
func crowd(t testing.TB, p sched.Policy, c size, kind kind) *policytest.World {
	t.Helper()
	list := make([]sched.Node, c.nodes)
	for i := range list {
		list[i] = sched.Node{Name: fmt.Sprint("n", i), GPUs: c.gpus, Type: "t4"}
	}
	w, err := policytest.NewWorld(list)
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, uint64(c.jobs)))
	for range c.jobs {
		must(t, w.Submit(kind.spec(w, rng), 0))
	}
	for range 3 {
		_, _, err := w.Decide(p)
		must(t, err)
		w.Now = w.Now.Add(10 * time.Minute)
		for _, j := range w.State.Snapshot(w.Now).Jobs {
			if kind == elastic && j.Phase == sched.Running && rng.IntN(10) > 0 {
				must(t, w.Apply(sched.Event{Kind: sched.JobReported, Job: j.ID, Perf: report(rng)}))
			}
		}
	}
	return w
}

// happen lets the n-th event happen: in turn a running job ends, one is submitted, and
// the agent of a running one reports.
func happen(t testing.TB, w *policytest.World, rng *rand.Rand, n int, kind kind) {
	t.Helper()
	jobs := w.State.Snapshot(w.Now).Jobs
	j := jobs[rng.IntN(len(jobs))]
	for j.Phase != sched.Running {
		j = jobs[rng.IntN(len(jobs))]
	}
	switch {
	case n%3 == 0:
		must(t, w.Apply(sched.Event{Kind: sched.JobEnded, Job: j.ID, Phase: sched.Finished}))
	case n%3 == 1:
		must(t, w.Submit(kind.spec(w, rng), 0))
	case kind == elastic:
		must(t, w.Apply(sched.Event{Kind: sched.JobReported, Job: j.ID, Perf: report(rng)}))
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
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
