// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package shockwave

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

func drawProblem(t *rapid.T, sizes []int) problem {
	p := problem{
		window: rapid.IntRange(1, 4).Draw(t, "window"), capacity: rapid.IntRange(0, 12).Draw(t, "capacity"),
		makespan: rapid.SampledFrom([]float64{0, 1, 10}).Draw(t, "makespan"),
	}
	for range rapid.IntRange(1, 4).Draw(t, "jobs") {
		p.jobs = append(p.jobs, job{
			gpus: rapid.SampledFrom(sizes).Draw(t, "gpus"),
			done: float64(rapid.IntRange(0, 20).Draw(t, "done")), left: float64(rapid.IntRange(0, 20).Draw(t, "left")),
			weight: rapid.Float64Range(1, 30).Draw(t, "weight"),
		})
	}
	return p
}

// bruteForce returns the best value, of the whole or of progress alone within a
// bound of the longest time left, over all plans.
func (p problem) bruteForce(bound float64, value func(rounds []int) float64) float64 {
	best := math.Inf(-1)
	rounds := make([]int, len(p.jobs))
	var try func(k, left int)
	try = func(k, left int) {
		if k == len(p.jobs) {
			best = max(best, value(rounds))
			return
		}
		for n := p.jobs[k].least(bound, p.window); n <= p.jobs[k].most(p.window) && n*p.jobs[k].gpus <= left; n++ {
			rounds[k] = n
			try(k+1, left-n*p.jobs[k].gpus)
		}
	}
	try(0, p.capacity)
	return best
}

func (p problem) used(rounds []int) int {
	sum := 0
	for k, n := range rounds {
		sum += n * p.jobs[k].gpus
	}
	return sum
}

// TestWithinIsOptimal: for jobs of one size, the plan within a bound is the best
// there is.
func TestWithinIsOptimal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawProblem(t, []int{1})
		bound := float64(rapid.IntRange(0, 20).Draw(t, "bound"))
		progress := func(rounds []int) float64 {
			sum := 0.0
			for k := range p.jobs {
				sum += p.jobs[k].value(rounds[k])
			}
			return sum
		}
		want := p.bruteForce(bound, progress)
		rounds, ok := p.within(bound)
		if ok != !math.IsInf(want, -1) {
			t.Fatalf("found a plan: %t; there is one: %t", ok, !ok)
		}
		if ok && (p.used(rounds) > p.capacity || progress(rounds) < want-1e-9) {
			t.Errorf("rounds %v use %d of %d for %g; the best has %g", rounds, p.used(rounds), p.capacity, progress(rounds), want)
		}
	})
}

// TestSolveIsOptimal: for jobs of one size whose times are whole rounds, in a
// window in which every bound is tried, the plan is the best there is.
func TestSolveIsOptimal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawProblem(t, []int{1})
		p.window = 4
		now := longest(p.jobs, nil)
		best := p.bruteForce(math.Inf(1), func(rounds []int) float64 { return p.value(rounds, now) })
		if rounds := p.solve(); p.value(rounds, now) < best-1e-9 {
			t.Errorf("rounds %v for %g; the best has %g", rounds, p.value(rounds, now), best)
		}
	})
}

// TestSolveGangs: plans for mixed sizes fit, and nobody could have a round more.
func TestSolveGangs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawProblem(t, []int{1, 2, 4})
		for k := range p.jobs {
			p.jobs[k].left += rapid.Float64Range(0, 1).Draw(t, "part")
		}
		rounds := p.solve()
		left := p.capacity - p.used(rounds)
		if left < 0 {
			t.Fatalf("rounds %v use %d of %d", rounds, p.used(rounds), p.capacity)
		}
		for k, n := range rounds {
			if most := p.jobs[k].most(p.window); n < 0 || n > most || (n < most && p.jobs[k].gpus <= left && p.gain(k, n) > 0) {
				t.Errorf("job %d has %d rounds of the %d that it can use; %d GPU-rounds are left", k, n, most, left)
			}
		}
	})
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
