// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package gavel_test

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/fairway-gpu/fairway/policy"
	"github.com/fairway-gpu/fairway/policy/gavel"
	"github.com/fairway-gpu/fairway/policy/interfere"
	"github.com/fairway-gpu/fairway/policy/policytest"
	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/place"
)

// packing is a spec of a policy that shares, and what its knobs say of two jobs
// on a GPU.
type packing struct {
	spec string
	gpu  sched.GPUType // whose model is asked; empty: that of the node
	mode interfere.Mode
	work float64 // that two jobs do together at least, as a multiple of that of one alone
}

var packings = []packing{
	{"gavel:packing", "", interfere.TimeSlice, gavel.Packing},
	{"gavel:packing:ftf", "", interfere.TimeSlice, gavel.Packing},
	{"gavel:packing:makespan:stick=2", "", interfere.TimeSlice, gavel.Packing},
	{"gavel:packing:cost:slo=2", "", interfere.TimeSlice, gavel.Packing},
	{"gavel:packing:sjf", "", interfere.TimeSlice, gavel.Packing},
	{"gavel:sharing=1:gpu=h200:mode=mps", "h200", interfere.MPS, 1},
}

// drawSharer draws a job of which most may share.
func drawSharer(t *rapid.T, id sched.JobID) sched.Spec {
	spec := policytest.DrawJob(t, id)
	spec.Shareable = rapid.IntRange(1, 4).Draw(t, "shares") > 1
	spec.GPUUtil = rapid.SampledFrom([]float64{0, 0.2, 0.3, 0.5, 0.7, 0.95}).Draw(t, "use")
	if spec.GPUMemory == 0 && rapid.Bool().Draw(t, "memory known") {
		spec.GPUMemory = 4 << 30
	}
	if rapid.IntRange(1, 8).Draw(t, "part") == 1 {
		spec.MilliGPU = 300
	}
	return spec
}

// TestPackingProperties: with sharing, plans are legal and a function of the world,
// no job waits beside free GPUs, and at most two are on a GPU, both of the kind
// that may be.
func TestPackingProperties(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := policytest.Random(rt)
		kind := rapid.SampledFrom(packings).Draw(rt, "policy")
		p, other := build(t, kind.spec), build(t, rapid.SampledFrom([]string{"gavel", "antman"}).Draw(rt, "other"))
		for step := range rapid.IntRange(1, 8).Draw(rt, "decisions") {
			for k := range rapid.IntRange(0, 5).Draw(rt, "jobs") {
				if err := w.Submit(drawSharer(rt, sched.JobID(fmt.Sprint("s", step, "-", k))), time.Hour); err != nil {
					rt.Fatal(err)
				}
			}
			w.Stir(rt)
			if rapid.IntRange(1, 6).Draw(rt, "another policy") == 1 {
				if _, _, err := w.Decide(other); err != nil {
					rt.Fatal(err)
				}
				continue
			}
			s := w.State.Snapshot(w.Now)
			plan := p.Schedule(s)
			for _, v := range sched.Check(s, plan) {
				rt.Errorf("%s", v)
			}
			kind.checkShared(rt, s, plan)
			checkFree(rt, s, plan)
			checkFunction(rt, build(t, kind.spec), s, plan)
			if _, _, err := w.Decide(p); err != nil {
				rt.Fatal(err)
			}
		}
	})
}

func build(t testing.TB, spec string) sched.Policy {
	t.Helper()
	p, err := policy.Builtin().New(spec)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// checkShared looks at jobs that the plan puts on GPUs anew.
func (kind packing) checkShared(t *rapid.T, s *sched.Snapshot, plan sched.Plan) {
	on := map[sched.Slice][]int{}
	for i, want := range plan.Want {
		if len(want) == 1 && want[0].Milli == 500 {
			on[want[0]] = append(on[want[0]], i)
		}
		j := s.Jobs[i]
		if len(want) == 0 || want.Equal(j.Placement) || !want.Shared() || j.MilliGPU > 0 {
			continue
		}
		if !place.Sharable(j) || len(want) > 1 || want[0].Milli != 500 {
			t.Errorf("job %s starts on %s; it is not one to share", j.ID, want.Text(s.Cluster))
		}
	}
	for _, jobs := range on {
		if len(jobs) != 2 {
			continue
		}
		a, b := s.Jobs[jobs[0]], s.Jobs[jobs[1]]
		if a.GPUs != b.GPUs && !a.Elastic() && !b.Elastic() {
			t.Errorf("jobs %s and %s share and are not of the same size", a.ID, b.ID)
		}
		want := plan.Want[jobs[0]]
		if goesOn := want.Equal(a.Placement) && want.Equal(b.Placement); goesOn || a.MilliGPU+b.MilliGPU > 0 {
			continue
		}
		if work := kind.together(t, s.Cluster.Nodes[want[0].Node].Type, a, b); work < kind.work-1e-6 {
			t.Errorf("jobs %s and %s begin to share, and do %.3g of the work of one; want %g", a.ID, b.ID, work, kind.work)
		}
	}
}

// together is the work that two jobs are expected to do on a GPU, as a multiple of
// that of one alone.
func (kind packing) together(t *rapid.T, on sched.GPUType, a, b *sched.Job) float64 {
	if kind.gpu != "" {
		on = kind.gpu
	}
	model, err := interfere.Default(string(on))
	if err != nil {
		t.Fatal(err)
	}
	slowdown := func(own, other *sched.Job) float64 {
		beside := []interfere.Load{{Util: other.GPUUtil}}
		return model.Slowdown(kind.mode, interfere.Load{Util: own.GPUUtil}, beside).Mean
	}
	return 1/slowdown(a, b) + 1/slowdown(b, a)
}

// checkFree looks for a job that waits although GPUs are free for it.
func checkFree(t *rapid.T, s *sched.Snapshot, plan sched.Plan) {
	free, quota := place.NewFree(s.Cluster), place.NewQuota(s)
	for i, j := range s.Jobs {
		free.Take(j, plan.Want[i])
		quota.AddMilli(j, plan.Want[i].Milli())
	}
	for i, j := range s.Jobs {
		if len(plan.Want[i]) > 0 || !j.Ready(s.Now) || quota.Left(j) < j.GPUs {
			continue
		}
		whole := *j
		whole.MilliGPU = 0
		mark := free.Mark()
		if p, ok := place.Consolidated(free, &whole, j.GPUs); ok {
			t.Errorf("job %s waits (%s) and could run on %s", j.ID, plan.Why[i].Text(s.Cluster), p.Text(s.Cluster))
		}
		free.Rollback(mark)
	}
}

// checkFunction asks another value of the policy, with the jobs in another order.
func checkFunction(t *rapid.T, p sched.Policy, s *sched.Snapshot, plan sched.Plan) {
	if again := p.Schedule(s); !reflect.DeepEqual(plan, again) {
		t.Errorf("the same snapshot gave another plan (-first +second):\n%s", cmp.Diff(plan, again))
	}
	shuffled, index := policytest.Shuffled(t, s)
	other := p.Schedule(shuffled)
	for i, from := range index {
		if !other.Want[i].Equal(plan.Want[from]) || other.Why[i] != plan.Why[from] || other.Notes[i] != plan.Notes[from] {
			t.Errorf("job %s: jobs in another order give %v %v %v; want %v %v %v", s.Jobs[from].ID,
				other.Want[i], other.Why[i], other.Notes[i], plan.Want[from], plan.Why[from], plan.Notes[from])
		}
	}
}
