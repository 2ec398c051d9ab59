// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/fairway-gpu/fairway/policy"
	"github.com/fairway-gpu/fairway/policy/policytest"
	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/goodput"
)

// TestFreshPolicy lets a policy that was just made decide about jobs whose agents have
// reported, as it does after a restart of the daemon and in forecasts.
func TestFreshPolicy(t *testing.T) {
	w, err := policytest.NewWorld([]sched.Node{{Name: "n0", GPUs: 4, Type: "t4"}, {Name: "n1", GPUs: 4, Type: "t4"}})
	if err != nil {
		t.Fatal(err)
	}
	must := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	for i := range 4 {
		job := sched.Spec{ID: sched.JobID(fmt.Sprint("j", i)), GPUs: 1, Work: 1e4}
		if i > 0 {
			job.MinGPUs, job.MaxGPUs = 1, 8
		}
		must(w.Submit(job, 0))
	}
	for i := range 3 {
		at := sched.Placement{{Node: 0, GPUs: 1 << i, Milli: sched.WholeGPU}}
		must(w.Apply(sched.Event{Kind: sched.JobStarted, Job: sched.JobID(fmt.Sprint("j", i)), Placement: at}))
		must(w.Apply(sched.Event{Kind: sched.JobReported, Job: sched.JobID(fmt.Sprint("j", i)), Done: 100, Rate: 1, Can: sched.Resizes, Perf: &goodput.Report{
			Params: map[string]goodput.Params{"t4": {AlphaGrad: 0.05, BetaGrad: 0.002, AlphaLocal: 0.05, BetaLocal: 0.001, AlphaNode: 0.2, BetaNode: 0.005, Gamma: 2}},
			Noise:  5000, Limits: goodput.Limits{Initial: 128, Max: 8192, LocalMin: 32, LocalMax: 256}, MostGPUs: 4, UsableGPUs: 64,
		}}))
	}
	w.Now = w.Now.Add(10 * time.Minute)
	s := w.State.Snapshot(w.Now)
	each(t, 0, func(t *testing.T, spec string, _ policy.Promises) {
		for _, v := range sched.Check(s, build(t, spec).Schedule(s)) {
			t.Error(v)
		}
	})
}
