// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package share_test

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/fairway-gpu/fairway/policy"
	"github.com/fairway-gpu/fairway/policy/interfere"
	"github.com/fairway-gpu/fairway/policy/policytest"
	"github.com/fairway-gpu/fairway/sched"
)

const gib = 1 << 30

// table is shared by the tests, none of which changes it.
var table = policy.Builtin()

func build(t testing.TB, spec string) sched.Policy {
	p, err := table.New(spec)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// drawJob draws a job that more often than not may share.
func drawJob(t *rapid.T, id sched.JobID) sched.Spec {
	job := policytest.DrawJob(t, id)
	job.Shareable = rapid.IntRange(0, 3).Draw(t, "shares") > 0
	job.GPUUtil = rapid.SampledFrom([]float64{0, 0.1, 0.3, 0.5, 0.7, 1}).Draw(t, "use")
	job.GPUMemory = int64(rapid.SampledFrom([]int{0, 1, 4, 9, 30}).Draw(t, "gib")) * gib
	job.Model = rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "model")
	job.MilliGPU = rapid.SampledFrom([]int32{0, 0, 0, 300}).Draw(t, "milli")
	return job
}

// TestLegal lets the layer stand over every policy of the table in random worlds
// that random things happen to: sched.Decide refuses a plan that breaks a rule.
func TestLegal(t *testing.T) {
	var specs []string
	for _, name := range table.Names() {
		specs = append(specs, name+"@share")
	}
	for _, name := range []string{"antman", "fifo", "gandiva", "tiresias"} {
		specs = append(specs, name+"@share:jobs=3:slowdown=3:hold=1m")
	}
	for _, spec := range specs {
		t.Run(spec, func(t *testing.T) {
			t.Parallel()
			p := build(t, spec)
			rapid.Check(t, func(rt *rapid.T) {
				w := policytest.Random(rt)
				for step := range rapid.IntRange(1, 5).Draw(rt, "steps") {
					for k := range rapid.IntRange(0, 4).Draw(rt, "jobs") {
						if err := w.Submit(drawJob(rt, sched.JobID(fmt.Sprint("x", step, "-", k))), time.Hour); err != nil {
							rt.Fatal(err)
						}
					}
					report(rt, w)
					if _, _, err := w.Decide(p); err != nil {
						rt.Fatal(err)
					}
					w.Stir(rt)
				}
			})
		})
	}
}

// report lets some job say how much it is slowed.
func report(t *rapid.T, w *policytest.World) {
	for _, j := range w.State.Snapshot(w.Now).Jobs {
		if j.Phase == sched.Running && rapid.IntRange(0, 3).Draw(t, "reports") == 0 {
			slowdown := rapid.SampledFrom([]float64{1, 1.2, 4}).Draw(t, "slowdown")
			if err := w.Apply(sched.Event{Kind: sched.JobReported, Job: j.ID, Slowdown: slowdown}); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestBound: whatever sits together under the layer is expected to keep the bound,
// has room in memory with the margin, and is no more than the seats there are.
func TestBound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w, err := policytest.NewWorld([]sched.Node{{Name: "n0", GPUs: 4, Type: "h200", GPUMemory: 16 * gib}, {Name: "n1", GPUs: 2, Type: "h200", GPUMemory: 16 * gib}})
		if err != nil {
			t.Fatal(err)
		}
		jobs := rapid.IntRange(2, 3).Draw(t, "seats")
		p, err := table.New(fmt.Sprintf("fifo:greedy@share:jobs=%d", jobs))
		if err != nil {
			t.Fatal(err)
		}
		for step := range rapid.IntRange(1, 6).Draw(t, "steps") {
			for k := range rapid.IntRange(1, 5).Draw(t, "jobs") {
				job := drawJob(t, sched.JobID(fmt.Sprint("x", step, "-", k)))
				job.MilliGPU = 0 // the policy below puts parts together by itself
				if err := w.Submit(job, 0); err != nil {
					t.Fatal(err)
				}
			}
			if _, _, err := w.Decide(p); err != nil {
				t.Fatal(err)
			}
			checkGPUs(t, w.State.Snapshot(w.Now), jobs)
			w.Stir(t)
		}
	})
}

func checkGPUs(t *rapid.T, s *sched.Snapshot, most int) {
	model, err := interfere.Default("h200")
	if err != nil {
		t.Fatal(err)
	}
	on := map[[2]int][]*sched.Job{}
	for _, j := range s.Jobs {
		for _, slice := range j.Placement {
			for _, g := range slice.GPUs.Indexes() {
				on[[2]int{int(slice.Node), g}] = append(on[[2]int{int(slice.Node), g}], j)
			}
		}
	}
	for at, jobs := range on {
		if len(jobs) < 2 {
			continue
		}
		loads := make([]interfere.Load, len(jobs))
		memory := int64(500 << 20)
		for i, j := range jobs {
			loads[i].Util = j.GPUUtil
			memory += j.GPUMemory
			if !j.Shareable || j.GPUUtil == 0 || j.GPUMemory == 0 {
				t.Errorf("GPU %v: job %s shares it and may not", at, j.ID)
			}
		}
		if len(jobs) > most || memory > 16*gib || !model.Safe(interfere.TimeSlice, 1.15, loads) {
			t.Errorf("GPU %v has %d jobs with loads %v and %d bytes with the margin", at, len(jobs), loads, memory)
		}
	}
}
