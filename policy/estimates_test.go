// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"github.com/fairway-gpu/fairway/policy/policytest"
	"github.com/fairway-gpu/fairway/sched"
)

// TestEstimatesAreDeclared: a policy that does not say that it uses estimates
// decides the same without them.
func TestEstimatesAreDeclared(t *testing.T) {
	for _, spec := range append(everySetting(), "fifo@screen") {
		if table.About(spec).Estimates {
			continue
		}
		t.Run(spec, func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(rt *rapid.T) {
				w := policytest.Random(rt)
				p := build(t, spec)
				for range rapid.IntRange(1, 8).Draw(rt, "decisions") {
					for range rapid.IntRange(1, 3).Draw(rt, "events") {
						w.Stir(rt)
					}
					s := w.State.Snapshot(w.Now)
					with := build(t, spec).Schedule(s)
					without := build(t, spec).Schedule(withoutEstimates(s))
					if !reflect.DeepEqual(with.Want, without.Want) || !with.Wake.Equal(without.Wake) {
						rt.Fatalf("estimates change the plan from %v to %v; declare Needs.Estimates", without.Want, with.Want)
					}
					if _, _, err := w.Decide(p); err != nil {
						rt.Fatal(err)
					}
				}
			})
		})
	}
}

// TestEstimatesMatter: a policy that says so does look at estimates. In some worlds they
// make no difference, so it tries many, the same ones in every run, up to the first in
// which they do.
func TestEstimatesMatter(t *testing.T) {
	const worlds = 2000
	for _, spec := range []string{
		"carbyne", "fifo:backfill", "gavel:ftf", "gavel:makespan", "gavel:sjf", "shockwave", "srsf", "srtf", "themis",
	} {
		if !table.About(spec).Estimates {
			t.Errorf("%s does not say that it uses estimates", spec)
		}
		t.Run(spec, func(t *testing.T) {
			t.Parallel()
			matter := rapid.Custom(func(rt *rapid.T) bool {
				w := policytest.Random(rt)
				p := build(t, spec)
				for range rapid.IntRange(1, 8).Draw(rt, "decisions") {
					for range rapid.IntRange(1, 3).Draw(rt, "events") {
						w.Stir(rt)
					}
					s := w.State.Snapshot(w.Now)
					with := build(t, spec).Schedule(s)
					without := build(t, spec).Schedule(withoutEstimates(s))
					if !reflect.DeepEqual(with.Want, without.Want) {
						return true
					}
					if _, _, err := w.Decide(p); err != nil {
						rt.Fatal(err)
					}
				}
				return false
			})
			for seed := range worlds {
				if matter.Example(seed) {
					return
				}
			}
			t.Errorf("%s says that it uses estimates, and decides the same without them in %d worlds", spec, worlds)
		})
	}
}

func withoutEstimates(s *sched.Snapshot) *sched.Snapshot {
	out := *s
	out.Jobs = make([]*sched.Job, len(s.Jobs))
	for i, j := range s.Jobs {
		k := *j
		k.Estimate = 0
		out.Jobs[i] = &k
	}
	return &out
}
