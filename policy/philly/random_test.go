// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package philly

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/fairway-gpu/fairway/policy/policytest"
	"github.com/fairway-gpu/fairway/sched"
)

// TestRandomWorlds lets random things happen in random clusters. No plan may be
// refused, and neither the order of the jobs nor what a policy value has seen
// before may change it.
func TestRandomWorlds(t *testing.T) {
	for _, spec := range []string{"philly", "philly:preempt_above=0:retries_per_rung=1", "philly:relax=off:preempt_above=0.5", "philly:gather=true:preempt_above=0.5"} {
		t.Run(spec, rapid.MakeCheck(func(t *rapid.T) {
			w := policytest.Random(t)
			p := &twice{t: t, spec: spec}
			for range rapid.IntRange(1, 25).Draw(t, "steps") {
				w.Stir(t)
				if _, _, err := w.Decide(p); err != nil {
					t.Fatal(err)
				}
			}
		}))
	}
}

// twice asks a policy, and another of the same spec that has no caches and gets
// the jobs in reverse order: both must say the same.
type twice struct {
	t interface {
		Fatalf(format string, args ...any)
	}
	spec string
	sched.Policy
}

func (p *twice) Schedule(s *sched.Snapshot) sched.Plan {
	if p.Policy == nil {
		p.Policy = p.build()
	}
	plan := p.Policy.Schedule(s)
	other := *s
	other.Jobs = slices.Clone(s.Jobs)
	slices.Reverse(other.Jobs)
	again := p.build().Schedule(&other)
	for _, parallel := range []func(){
		func() { slices.Reverse(again.Want) }, func() { slices.Reverse(again.Why) }, func() { slices.Reverse(again.Notes) },
	} {
		parallel()
	}
	if diff := cmp.Diff(plan, again); diff != "" {
		p.t.Fatalf("the jobs in reverse order give another plan (-this +other):\n%s", diff)
	}
	return plan
}

func (p *twice) build() sched.Policy {
	policy, err := build(p.spec)
	if err != nil {
		p.t.Fatalf("%v", err)
	}
	return policy
}
