// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/fairway-gpu/fairway/policy/policytest"
	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/goodput"
	"github.com/fairway-gpu/fairway/sched/plan"
)

// BenchmarkDecide measures one decision, check and diff included, on a busy
// cluster: nearly all GPUs held, a long queue, sizes as in the Philly trace.
//
//	go test -bench Decide/tiresias/ ./policy
func BenchmarkDecide(b *testing.B) {
	type size struct{ gpus, jobs int }
	sizes := []size{{512, 1_000}, {10_000, 100}, {10_000, 1_000}, {10_000, 10_000}, {10_000, 100_000}}
	snapshots := map[size]*sched.Snapshot{}
	for _, spec := range everySpec() {
		if spec == "pollux:genetic" {
			continue // seconds a decision: package pollux has its own benchmark
		}
		for _, sz := range sizes {
			b.Run(fmt.Sprintf("%s/%dx%d", spec, sz.gpus, sz.jobs), func(b *testing.B) {
				if snapshots[sz] == nil {
					snapshots[sz] = busy(b, sz.gpus, sz.jobs)
				}
				p := build(b, spec)
				b.ReportAllocs()
				report := policytest.Processor(b)
				for b.Loop() {
					if _, _, err := sched.Decide(p, snapshots[sz]); err != nil {
						b.Fatal(err)
					}
				}
				report()
			})
		}
	}
}

// BenchmarkPlans measures one decision of the policies that choose execution plans, about
// jobs with twenty plans each. The first decision, which computes the speed of every plan,
// does not count: a policy knows it until the job reports again.
func BenchmarkPlans(b *testing.B) {
	const gpus, jobs = 10_000, 10_000
	s := crowded(b, gpus, jobs, func(random *rand.Rand, i int) sched.Spec {
		spec := phillyJob(random, i)
		spec.MinGPUs, spec.MaxGPUs, spec.GPUs, spec.Work = 1, 16, min(spec.GPUs, 16), 1e4*(1+random.ExpFloat64())
		return spec
	}, twentyPlans)
	for _, spec := range []string{"fairway", "pollux", "sia"} {
		b.Run(fmt.Sprintf("%s/%dx%d", spec, gpus, jobs), func(b *testing.B) {
			p := build(b, spec)
			decide := func() {
				if _, _, err := sched.Decide(p, s); err != nil {
					b.Fatal(err)
				}
			}
			decide()
			report := policytest.Processor(b)
			for b.Loop() {
				decide()
			}
			report()
		})
	}
}

// twentyPlans returns the report of a job with twenty plans: four each for 1 to 16 GPUs.
func twentyPlans(random *rand.Rand) *goodput.Report {
	var plans []plan.Plan
	for n := 1; n <= 16; n *= 2 {
		tensor := min(n, 4)
		for _, p := range []plan.Plan{
			{Data: n, Tensor: 1}, {Data: n, Tensor: 1, Recompute: true},
			{Data: n, Tensor: 1, Sharding: plan.Optimizer, Offload: true}, {Data: n / tensor, Tensor: tensor, Sharding: plan.Full},
		} {
			p.Pipeline, p.Micro = 1, 1
			plans = append(plans, p)
		}
	}
	model := plan.Model{Parameters: 1e9 * (0.5 + random.Float64()), Layers: 24, Hidden: 2048, Heads: 16, Sequence: 1024, Vocabulary: 32000, Batch: 64}
	choice := func() *plan.Choice {
		return &plan.Choice{Model: model, Params: plan.Typical(model, 1+random.Float64()), Plans: plans, Node: 8}
	}
	return &goodput.Report{
		Plans:    map[string]*plan.Choice{"a100": choice(), "v100": choice()},
		Limits:   goodput.Limits{Initial: 64, Max: 64, LocalMin: 1, LocalMax: 64},
		MostGPUs: 16, UsableGPUs: 16,
	}
}

// everySpec returns every policy of the table, and every variant.
func everySpec() []string {
	var specs []string
	for _, name := range table.Names() {
		specs = append(specs, name)
		for _, v := range table[name].Variants {
			specs = append(specs, name+":"+v.Name)
		}
	}
	return specs
}

// busy returns a snapshot of nodes with 8 GPUs, 32 nodes to a rack, two GPU
// types, and a number of jobs, as many of them running as there is room for.
func busy(tb testing.TB, gpus, jobs int) *sched.Snapshot {
	return crowded(tb, gpus, jobs, phillyJob, nil)
}

// crowded is busy with jobs of any kind, whose agents report if they have one.
func crowded(
	tb testing.TB, gpus, jobs int, job func(*rand.Rand, int) sched.Spec, report func(*rand.Rand) *goodput.Report,
) *sched.Snapshot {
	nodes := make([]sched.Node, gpus/8)
	for i := range nodes {
		nodes[i] = sched.Node{
			Name: fmt.Sprint("n", i), GPUs: 8, Rack: fmt.Sprint("r", i/32), Type: "a100",
			CPUs: 96, Memory: 1 << 40, GPUMemory: 80 << 30,
		}
		if i%4 == 3 {
			nodes[i].Type, nodes[i].GPUMemory = "v100", 16<<30
		}
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
	for i := range 10 {
		must(w.Apply(sched.Event{Kind: sched.TenantSet, Tenant: &sched.Tenant{
			ID: sched.TenantID(fmt.Sprint("t", i)), Weight: float64(1 + i%3), Quota: gpus / 10, Borrow: true,
		}}))
	}
	random := rand.New(rand.NewPCG(1, uint64(jobs)))
	for i := range jobs {
		must(w.Submit(job(random, i), 0))
		w.Now = w.Now.Add(time.Duration(random.IntN(10_000)) * time.Millisecond)
	}
	// A few rounds with ends in between leave the GPUs in pieces, as they are
	// in a cluster that has run for a while.
	warm := build(tb, "srsf")
	for range 3 {
		_, _, err := w.Decide(warm)
		must(err)
		w.Now = w.Now.Add(20 * time.Minute)
		for _, j := range w.State.Snapshot(w.Now).Jobs {
			switch {
			case j.Phase == sched.Running && random.IntN(20) == 0:
				must(w.Apply(sched.Event{Kind: sched.JobStopped, Job: j.ID}))
			case j.Phase == sched.Running && report != nil && j.Perf == nil:
				must(w.Apply(sched.Event{Kind: sched.JobReported, Job: j.ID, Perf: report(random)}))
			}
		}
	}
	return w.State.Snapshot(w.Now)
}

// phillyJob draws a job with the sizes of the Philly trace: most have one GPU,
// some a node, few several nodes.
func phillyJob(random *rand.Rand, i int) sched.Spec {
	spec := sched.Spec{
		ID: sched.JobID(fmt.Sprint("j", i)), Tenant: sched.TenantID(fmt.Sprint("t", random.IntN(10))),
		User: fmt.Sprint("u", random.IntN(300)), GPUs: 1, CPUs: 4, Memory: 32 << 30, GPUMemory: 10 << 30,
		Consolidate: random.IntN(4) == 0, GPUUtil: random.Float64(),
	}
	switch x := random.IntN(1000); {
	case x < 8:
		spec.GPUs = 16 << random.IntN(2)
	case x < 57:
		spec.GPUs = 8
	case x < 105:
		spec.GPUs = 4
	case x < 128:
		spec.GPUs = 2
	}
	if random.IntN(3) == 0 {
		spec.GPUTypes = []sched.GPUType{"a100"}
	}
	if random.IntN(5) == 0 {
		spec.GPUMemory = 40 << 30
	}
	if random.IntN(10) > 0 {
		minutes := 1 + random.ExpFloat64()*120
		spec.Estimate = sched.Duration(time.Duration(minutes * float64(time.Minute)))
	}
	return spec
}

// TestBusySnapshot keeps the benchmark honest: GPUs are scarce and jobs wait.
func TestBusySnapshot(t *testing.T) {
	s := busy(t, 512, 1_000)
	held, waiting := 0, 0
	for _, j := range s.Jobs {
		held += j.Placement.GPUs()
		if j.Phase == sched.Pending {
			waiting++
		}
	}
	if held < 400 || held > 512 || waiting < 400 {
		t.Errorf("%d of 512 GPUs are held and %d jobs wait; want a full cluster and a long queue", held, waiting)
	}
}
