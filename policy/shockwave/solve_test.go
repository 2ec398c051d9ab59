// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package shockwave

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/fairway-gpu/fairway/sched/goodput"
)

func drawProblem(t *rapid.T) *problem {
	p := &problem{
		window: rapid.IntRange(1, 4).Draw(t, "window"), capacity: rapid.IntRange(0, 12).Draw(t, "capacity"),
		makespan: rapid.SampledFrom([]float64{0, 0.1, 1, 100}).Draw(t, "makespan"),
	}
	for range rapid.IntRange(1, 4).Draw(t, "jobs") {
		p.jobs = append(p.jobs, job{
			gpus:     rapid.SampledFrom([]int{1, 2, 3, 4}).Draw(t, "gpus"),
			progress: rapid.Float64Range(0, 1).Draw(t, "progress"),
			left:     float64(rapid.IntRange(0, 20).Draw(t, "left")) + rapid.SampledFrom([]float64{0, 0.3}).Draw(t, "part"),
			must:     rapid.SampledFrom([]int{0, 0, 0, 1, 3}).Draw(t, "must"),
			weight:   rapid.Float64Range(1, 30).Draw(t, "weight"),
		})
	}
	p.prepare()
	return p
}

// bruteForce returns the value of the best of all plans.
func (p *problem) bruteForce() float64 {
	best := math.Inf(-1)
	rounds := make([]int, len(p.jobs))
	var try func(k, left int)
	try = func(k, left int) {
		if k == len(p.jobs) {
			best = max(best, p.worthOf(rounds))
			return
		}
		for n := p.jobs[k].must; n <= p.jobs[k].most && n*p.jobs[k].gpus <= left; n++ {
			rounds[k] = n
			try(k+1, left-n*p.jobs[k].gpus)
		}
	}
	try(0, p.capacity)
	return best
}

func (p *problem) worthOf(rounds []int) float64 {
	return p.progress(rounds) - p.makespan*longest(p.jobs, rounds)
}

// check is what every plan has to keep: it fits, no job has more than it can use or
// less than it must have, and its value is the one stated.
func (p *problem) check(t *rapid.T, a answer) {
	left := p.capacity
	for k, n := range a.rounds {
		if n < p.jobs[k].must || n > p.jobs[k].most {
			t.Errorf("job %d has %d rounds; want %d to %d", k, n, p.jobs[k].must, p.jobs[k].most)
		}
		left -= n * p.jobs[k].gpus
	}
	if left < 0 || math.Abs(a.value-p.worthOf(a.rounds)) > tiny(a.value) {
		t.Errorf("rounds %v are worth %g, not %g, and leave %d GPU-rounds", a.rounds, p.worthOf(a.rounds), a.value, left)
	}
}

// TestSolveIsOptimal: in small windows the plan is the best there is.
func TestSolveIsOptimal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawProblem(t)
		a := p.solve()
		p.check(t, a)
		if best := p.bruteForce(); a.gap != 0 || a.value < best-tiny(best) {
			t.Errorf("rounds %v for %g, gap %g; the best has %g", a.rounds, a.value, a.gap, best)
		}
	})
}

// A short job that gets nothing may be the one with the longest time left, once the
// longest has had its rounds.
func TestSolveBoundsByIdleJobs(t *testing.T) {
	p := &problem{window: 2, capacity: 8, makespan: 0.1, jobs: []job{
		{gpus: 2, progress: 0.03125, left: 2, weight: 1},
		{gpus: 1, progress: 1, left: 6, weight: 1},
		{gpus: 3, progress: 0.0078125, left: 7.3, weight: 1},
	}}
	p.prepare()
	if a, best := p.solve(), p.bruteForce(); a.value < best-tiny(best) {
		t.Errorf("rounds %v for %g; the best has %g", a.rounds, a.value, best)
	}
}

// TestDivideIsNearlyOptimal: where there is too much to choose from for the exact
// search, the best plan is within the upper limit, and the limit is above the plan by
// no more than a round of one gang is worth.
func TestDivideIsNearlyOptimal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawProblem(t)
		p.makespan = 0
		rounds := make([]int, len(p.jobs))
		most := 0.0
		for k := range p.jobs {
			x := &p.jobs[k]
			rounds[k] = x.least(math.Inf(1))
			if n := rounds[k]; n < x.most {
				most = max(most, x.value(n+1)-x.value(n))
			}
		}
		best := p.bruteForce()
		limit := p.bisect(rounds)
		p.finish(rounds)
		p.check(t, answer{rounds: rounds, value: p.worthOf(rounds)})
		if got := p.progress(rounds); limit < best-tiny(best) || got < best-most-1e-3 {
			t.Errorf("rounds %v for %g; the best has %g, the limit is %g, a round is worth %g", rounds, got, best, limit, most)
		}
	})
}

// TestSolveLarge: in a large window the plan is within the stated gap of what the
// bounds allow, and the gap is small.
func TestSolveLarge(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := &problem{window: 20, capacity: 20 * 32, makespan: rapid.SampledFrom([]float64{0, 1, 300}).Draw(t, "makespan")}
		for range rapid.IntRange(50, 120).Draw(t, "jobs") {
			p.jobs = append(p.jobs, job{
				gpus: rapid.SampledFrom([]int{1, 1, 1, 2, 4}).Draw(t, "gpus"), progress: rapid.Float64Range(0, 1).Draw(t, "progress"),
				left: rapid.Float64Range(0, 150).Draw(t, "left"), weight: rapid.Float64Range(1, 3).Draw(t, "weight"),
			})
		}
		p.prepare()
		a := p.solve()
		p.check(t, a)
		if a.gap < 0 || a.gap > 0.01*math.Abs(a.value) {
			t.Errorf("a plan worth %g with a gap of %g; want at most 1 %%", a.value, a.gap)
		}
	})
}

// TestPosterior: at first all regimes are as likely; work in one of them makes more of
// it likely, and the rest is never more than there is.
func TestPosterior(t *testing.T) {
	slow, fast := goodput.Regime{Batch: 32, Time: 60, Current: true}, goodput.Regime{Batch: 256, Time: 20}
	spent, left := posterior([]goodput.Regime{slow, fast}, 100, 0)
	if spent != 0 || math.Abs(left-100*40) > 1e-9 {
		t.Errorf("new: %g s spent, %g s left; want 0 and 4000", spent, left)
	}
	// 30 epochs, all slow: of 100, (50+30)/130 are expected to be.
	spent, left = posterior([]goodput.Regime{slow, fast}, 100, 30)
	slowLeft := 100*80.0/130 - 30
	if want := slowLeft*60 + (70-slowLeft)*20; spent != 30*60 || math.Abs(left-want) > 1e-9 {
		t.Errorf("after 30 slow epochs: %g s spent, %g s left; want 1800 and %g", spent, left, want)
	}
	slow.Done, slow.Current, fast.Current = 30, false, true
	if spent, left = posterior([]goodput.Regime{slow, fast}, 100, 100); spent != 30*60+70*20 || left != 0 {
		t.Errorf("at the end: %g s spent, %g s left; want 3200 and 0", spent, left)
	}
}

func TestBadKnobs(t *testing.T) {
	for _, c := range []struct {
		change func(*Config)
		want   string
	}{
		{func(c *Config) { c.Round = 0 }, "round = 0s; want 1s or more"},
		{func(c *Config) { c.Window = 0 }, "window = 0; want 1 to 1000 rounds"},
		{func(c *Config) { c.Makespan = -1 }, "makespan = -1; want 0 to 1e6"},
		{func(c *Config) { c.RhoMax = 0 }, "rho_max = 0; want more than 0"},
		{func(c *Config) { c.Lambda = -1 }, "lambda = -1; want 0 to 100"},
		{func(c *Config) { c.Stick = 0 }, "stick = 0; want 1 or more"},
	} {
		config := Default()
		c.change(&config)
		if _, err := New(config); err == nil || err.Error() != c.want {
			t.Errorf("error %v; want %s", err, c.want)
		}
	}
}
