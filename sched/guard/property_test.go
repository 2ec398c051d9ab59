// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package guard_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/fairway-gpu/fairway/policy"
	"github.com/fairway-gpu/fairway/policy/policytest"
	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/guard"
)

// TestProperties lets real policies plan in random worlds under a guard.
func TestProperties(t *testing.T) {
	registry := policy.Builtin()
	rapid.Check(t, func(t *rapid.T) {
		spec := rapid.SampledFrom([]string{"fifo", "las", "tiresias", "srtf", "pollux", "srsf", "drf", "gandiva"}).Draw(t, "policy")
		// Three of the same policy, each with its own caches: one without a guard,
		// and two that must agree.
		var policies [3]sched.Policy
		for i := range policies {
			p, err := registry.New(spec)
			if err != nil {
				t.Fatal(err)
			}
			policies[i] = p
		}
		config := guard.Config{
			Bound:  rapid.IntRange(0, 2).Draw(t, "bound"),
			Window: sched.Duration(rapid.SampledFrom([]time.Duration{0, time.Minute, time.Hour}).Draw(t, "window")),
			Margin: rapid.SampledFrom([]float64{0, 1, 2}).Draw(t, "margin"),
		}
		var guards [2]*guard.Guard
		for i := range guards {
			g, err := guard.New(config)
			if err != nil {
				t.Fatal(err)
			}
			guards[i] = g
		}
		w := policytest.Random(t)
		for range rapid.IntRange(1, 12).Draw(t, "steps") {
			for range rapid.IntRange(1, 3).Draw(t, "events") {
				w.Stir(t)
			}
			s := w.State.Snapshot(w.Now)
			plain := policies[0].Schedule(s)
			first, second := guards[0].Over(policies[1]).Schedule(s), guards[1].Over(policies[2]).Schedule(s)
			checkGuarded(t, s, guarded{config: config, plain: plain, plan: first, vetoes: guards[0].Vetoes()})
			if diff := cmp.Diff(first, second); diff != "" {
				t.Fatalf("two guards disagree:\n%s", diff)
			}
			guards[0].Carried(s, first)
			guards[1].Carried(s, second)
			if _, _, err := w.Decide(fixed{first}); err != nil {
				t.Fatal(err)
			}
		}
	})
}

type fixed struct{ plan sched.Plan }

func (f fixed) Schedule(*sched.Snapshot) sched.Plan { return f.plan }

type guarded struct {
	config      guard.Config
	plain, plan sched.Plan
	vetoes      []guard.Veto
}

func checkGuarded(t *rapid.T, s *sched.Snapshot, g guarded) {
	if v := sched.Check(s, g.plain); len(v) > 0 {
		t.Fatalf("a bug of the policy, not of the guard: its plan breaks %v", v)
	}
	if v := sched.Check(s, g.plan); len(v) > 0 {
		t.Fatalf("the guarded plan breaks %v; vetoes %v", v, g.vetoes)
	}
	if len(g.vetoes) == 0 {
		if diff := cmp.Diff(g.plain, g.plan); diff != "" {
			t.Fatalf("no veto, but the plan changed (-policy +guarded):\n%s", diff)
		}
	}
	if g.config == (guard.Config{}) && len(g.vetoes) > 0 {
		t.Fatalf("a guard without rules vetoes %v", g.vetoes)
	}
	at := map[sched.JobID]int{}
	for i, j := range s.Jobs {
		at[j.ID] = i
		bound := g.config.Bound > 0 && j.Preemptions >= g.config.Bound
		if bound && j.Phase == sched.Running && len(g.plan.Want[i]) == 0 && keepable(s, i) {
			t.Fatalf("job %s was preempted %d times and is stopped again, though it could stay; vetoes %v", j.ID, j.Preemptions, g.vetoes)
		}
	}
	for _, v := range g.vetoes {
		i, ok := at[v.Job]
		if !ok || v.Rule != "cheaper-victim" && !g.plan.Want[i].Equal(s.Jobs[i].Placement) {
			t.Fatalf("veto %+v, but the plan says %v", v, g.plan.Want)
		}
	}
}

// keepable reports whether job i could stay if every other job stayed as it is:
// then nothing but the guard decides that it may not.
func keepable(s *sched.Snapshot, i int) bool {
	plan := sched.NewPlan(s)
	for k, j := range s.Jobs {
		if j.Phase == sched.Running {
			plan.Want[k] = j.Placement
		} else {
			plan.Why[k] = sched.Reason{Code: sched.Behind}
		}
	}
	for _, v := range sched.Check(s, plan) {
		if v.Job == s.Jobs[i].ID || v.Job == "" || v.Rule == "capacity" {
			return false
		}
	}
	return true
}
