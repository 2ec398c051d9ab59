// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package tune

import (
	"math"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// drawGame makes an app of trials whose curves never cross, so that there is one
// that is the best at every moment. ends holds each trial's rank.
func drawGame(t *rapid.T, rule Rule) (g *game, best int) {
	n := rapid.IntRange(1, 16).Draw(t, "trials")
	ranks := rapid.Permutation(seq(n)).Draw(t, "ranks")
	goal := rapid.SampledFrom([]Goal{Minimise, Maximise}).Draw(t, "goal")
	sign := 1.0
	if goal == Maximise {
		sign = -1
	}
	c := Config{
		Rule: rule, Goal: goal, Eta: float64(rapid.IntRange(2, 4).Draw(t, "eta")),
		Min: float64(rapid.IntRange(1, 6).Draw(t, "min")), Max: 40,
	}
	shared := falling(func(i int) float64 { return float64(ranks[i]) / float64(n+1) })
	g = &game{
		t: t, tuner: newTuner(t, c), work: 40, demand: rapid.IntRange(1, 4).Draw(t, "demand"),
		app:   App{GPUs: rapid.IntRange(1, 12).Draw(t, "gpus"), AtOnce: rapid.IntRange(0, 8).Draw(t, "at once"), Trials: n},
		value: func(i int, done float64) float64 { return sign * shared(i, done) },
	}
	if rapid.Bool().Draw(t, "uneven") { // trials at different speeds, some beyond their rungs
		g.pace = func(i int) float64 { return float64(1 + (i*5)%7) }
	}
	return g, slices.Index(ranks, 0)
}

func seq(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	return out
}

// TestWhatEveryRuleKeeps: whatever the rule and the pace, a trial that is always the
// best runs to its end and is found; no trial is stopped before the grace; the budget, of trials and of work, is respected (and that of GPUs in
// every round).
func TestWhatEveryRuleKeeps(t *testing.T) {
	for _, rule := range Rules() {
		t.Run(string(rule), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				g, best := drawGame(t, rule)
				p := g.play()
				if p.Best != best || g.app.Jobs[best].State != Finished {
					t.Fatalf("the best is trial %d, in state %d; trial %d was found", best, g.app.Jobs[best].State, p.Best)
				}
				if len(g.app.Jobs) != g.app.Trials || g.used > 40*float64(g.app.Trials) {
					t.Fatalf("%d trials of %d, %g iterations", len(g.app.Jobs), g.app.Trials, g.used)
				}
				for _, j := range g.app.Jobs {
					if j.State == Stopped && j.Done < g.tuner.Min {
						t.Fatalf("trial %d was stopped after %g iterations; grace is %g", j.Number, j.Done, g.tuner.Min)
					}
				}
			})
		})
	}
}

// TestPromotesOneOfEta: of the trials of a bracket, no more than one of eta go on
// at each rung, and at least one does.
func TestPromotesOneOfEta(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g, _ := drawGame(t, Halving)
		g.play()
		there := g.app.Trials
		for k := range ladder(g.tuner.Min, 40, g.tuner.Eta) {
			went := len(g.promoted[k+1])
			if most := max(1, int(float64(there)/g.tuner.Eta)); went > most {
				t.Fatalf("%d of %d went on at rung %d; want at most %d", went, there, k, most)
			}
			there = max(1, went)
		}
	})
}

// TestASHAPromotesTheTop: every trial that goes on is at that moment among the
// best of eta, and when all come at once the survivors are those of Halving.
func TestASHAPromotesTheTop(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g, _ := drawGame(t, ASHA)
		rule := g.tuner.rule.(*rungs)
		for range 10_000 {
			p := g.tuner.Plan(g.app)
			v := g.tuner.look(g.app)
			for _, u := range p.Promote {
				v.promote[u.Job] = u.Rung
			}
			for _, s := range p.Stop {
				v.stop(s.Job, s.Why)
			}
			for _, u := range p.Promote {
				levels := rule.brackets(g.app.Trials)[0].levels
				table, coming := v.table(seq(len(v.jobs)), u.Rung-1, levels[u.Rung-1])
				coming += v.left()
				rank := slices.IndexFunc(table, func(p place) bool { return p.job == u.Job })
				if quota := rule.survivors(len(table)); rank >= quota && !(rank == 0 && coming == 0) {
					t.Fatalf("rank %d of %d goes on; the quota is %d, %d may come", rank, len(table), quota, coming)
				}
			}
			if g.round(); !g.anyActive() && len(g.app.Jobs) == g.app.Trials {
				return
			}
		}
	})
	rapid.Check(t, func(t *rapid.T) {
		a, _ := drawGame(t, ASHA)
		a.app.GPUs, a.app.AtOnce, a.pace = 30, 0, nil // all at once, at the same speed
		b := *a
		b.tuner = newTuner(t, Config{Rule: Halving, Goal: a.tuner.Goal, Eta: a.tuner.Eta, Min: a.tuner.Min, Max: 40})
		b.app.Jobs = nil
		a.play()
		b.play()
		if diff := cmp.Diff(b.promoted, a.promoted); diff != "" {
			t.Fatalf("ASHA and halving promote others:\n%s", diff)
		}
		if a.used != b.used {
			t.Fatalf("ASHA used %g iterations, halving %g", a.used, b.used)
		}
	})
}

// The same facts give the same plan.
func TestDeterministic(t *testing.T) {
	for _, rule := range Rules() {
		g := testGame(t, Config{Rule: rule, Min: 3, Max: 27})
		for range 60 {
			a, b := g.tuner.Plan(g.app), newTuner(t, g.tuner.Config).Plan(g.app)
			if diff := cmp.Diff(a, b); diff != "" {
				t.Fatalf("%s: %s", rule, diff)
			}
			g.round()
		}
	}
}

// FuzzPlan: nonsense in the reports is no report, and breaks nothing.
func FuzzPlan(f *testing.F) {
	f.Add(uint8(2), 0.5, 1.0, 7.0, -1.0, uint8(4))
	f.Add(uint8(3), math.NaN(), math.Inf(1), 3.0, 0.0, uint8(9))
	f.Add(uint8(5), math.Inf(-1), 1e308, -1e308, math.NaN(), uint8(1))
	f.Add(uint8(1), 0.1, 0.2, 0.3, 0.4, uint8(0))
	f.Fuzz(func(t *testing.T, rule uint8, a, b, c, d float64, n uint8) {
		u := newTuner(t, Config{Rule: Rules()[int(rule)%len(Rules())], Min: 2, Max: 20, Eta: 2})
		values := []float64{a, b, c, d}
		good := App{GPUs: 8, Trials: 12}
		for i := range int(n) % 12 {
			j := Job{Number: i, Work: 20, Demand: 2}
			for k := 1; k <= 4+i; k++ {
				j.Curve = append(j.Curve, Reading{float64(k), float64((i*7)%12) - float64(k)/10})
			}
			good.Jobs = append(good.Jobs, j)
		}
		odd := good
		odd.Jobs = slices.Clone(good.Jobs)
		for i := range odd.Jobs {
			curve := slices.Clone(odd.Jobs[i].Curve)
			for k, v := range values {
				if math.IsNaN(v) || math.IsInf(v, 0) { // no report
					curve = slices.Insert(curve, min(k+1, len(curve)), Reading{float64(k) + 1.5, v}, Reading{v, 1})
				}
			}
			odd.Jobs[i].Curve = curve
		}
		want := u.Plan(good)
		if diff := cmp.Diff(want, u.Plan(odd)); diff != "" {
			t.Errorf("readings that are not numbers change the plan:\n%s", diff)
		}
		for i := range odd.Jobs { // wild, but numbers
			odd.Jobs[i].Curve = append(odd.Jobs[i].Curve, Reading{a, b}, Reading{b, c}, Reading{c, d}, Reading{30, a})
			odd.Jobs[i].Done, odd.Jobs[i].Work = c, d
		}
		g := &game{t: t, tuner: u, app: odd}
		p := u.Plan(odd)
		g.check(p)
		for _, phase := range u.Phases(odd) {
			if !finite(phase.Iterations) || phase.Iterations <= 0 || phase.Jobs <= 0 || phase.Jobs > 12 {
				t.Errorf("phase %+v", phase)
			}
		}
		if len(odd.Jobs) > 0 && len(p.Stop) == len(odd.Jobs) {
			t.Error("all trials are stopped")
		}
	})
}
