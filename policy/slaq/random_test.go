// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package slaq_test

import (
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/fairway-gpu/fairway/policy/policytest"
	"github.com/fairway-gpu/fairway/policy/slaq"
	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/goodput"
)

// TestReportsOfAnyKind lets jobs report what they like: plans keep the rules of
// the house, and depend on nothing but the snapshot.
func TestReportsOfAnyKind(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := policytest.Random(t)
		p, err := slaq.New(slaq.Default())
		if err != nil {
			t.Fatal(err)
		}
		for range rapid.IntRange(1, 8).Draw(t, "decisions") {
			w.Stir(t)
			for _, j := range w.State.Snapshot(w.Now).Jobs {
				if !rapid.Bool().Draw(t, "reports") {
					continue
				}
				if err := w.Apply(sched.Event{Kind: sched.JobReported, Job: j.ID, Perf: drawReport(t)}); err != nil {
					t.Fatal(err)
				}
			}
			s := w.State.Snapshot(w.Now)
			fresh, err := slaq.New(slaq.Default())
			if err != nil {
				t.Fatal(err)
			}
			if a, b := p.Schedule(s), fresh.Schedule(s); !reflect.DeepEqual(a, b) {
				t.Fatalf("a policy that remembers fits decides otherwise than a new one:\n%s", cmp.Diff(b, a))
			}
			if _, _, err := w.Decide(p); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func drawReport(t *rapid.T) *goodput.Report {
	r := &goodput.Report{MostGPUs: rapid.IntRange(0, 24).Draw(t, "most")}
	number := rapid.Float64Range(0, 1e6)
	for range rapid.IntRange(0, 6).Draw(t, "losses") {
		r.Losses = append(r.Losses, goodput.LossPoint{Step: number.Draw(t, "step"), Loss: number.Draw(t, "loss") - 10})
	}
	for range rapid.IntRange(0, 3).Draw(t, "times") {
		n := rapid.IntRange(1, 16).Draw(t, "gpus")
		r.StepTimes = append(r.StepTimes, goodput.StepTime{
			Type: rapid.SampledFrom([]string{"t4", "h200", ""}).Draw(t, "type"), Nodes: 1, GPUs: n, Batch: 1,
			Time: rapid.Float64Range(1e-6, 1e6).Draw(t, "seconds"),
		})
	}
	return r
}
