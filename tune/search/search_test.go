// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package search

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// problem is a function to be minimised.
type problem struct {
	name  string
	space Space
	loss  func(Params) float64
}

func problems() []problem {
	square := func(x float64) float64 { return x * x }
	return []problem{
		{"sphere", Space{
			{Name: "a", Low: -5, High: 10}, {Name: "b", Low: -5, High: 10},
			{Name: "c", Low: -5, High: 10}, {Name: "d", Low: -5, High: 10},
		}, func(p Params) float64 {
			return square(p[0]-1) + square(p[1]-2) + square(p[2]+3) + square(p[3])
		}},
		{"branin", Space{{Name: "x", Low: -5, High: 10}, {Name: "y", Low: 0, High: 15}}, func(p Params) float64 {
			x, y := p[0], p[1]
			return square(y-5.1/(4*math.Pi*math.Pi)*x*x+5/math.Pi*x-6) + 10*(1-1/(8*math.Pi))*math.Cos(x) + 10
		}},
		{"logarithmic", Space{
			{Name: "lr", Kind: LogFloat, Low: 1e-6, High: 1e2}, {Name: "decay", Kind: LogFloat, Low: 1e-8, High: 1},
		}, func(p Params) float64 {
			return square(math.Log10(p[0])+2) + square(math.Log10(p[1])+5)
		}},
		{"mixed", Space{
			{Name: "layers", Kind: Int, Low: 1, High: 40}, {Name: "rate", Kind: Float, Low: 0, High: 1},
			{Name: "kind", Kind: Choice, Choices: []string{"a", "b", "c", "d", "e"}},
		}, func(p Params) float64 {
			return math.Abs(p[0]-17)/4 + 10*square(p[1]-0.3) + 2*math.Abs(p[2]-3)
		}},
	}
}

const trials = 100

// minimise returns the best loss that TPE finds, and that random search does.
func minimise(t testing.TB, p problem, seed uint64) (tpe, random float64) {
	t.Helper()
	s, err := New(p.space, Default(seed))
	if err != nil {
		t.Fatal(err)
	}
	dice := rand.New(rand.NewPCG(seed, 99))
	random = math.Inf(1)
	for range trials {
		x := s.Suggest()
		if err := s.Observe(x, p.loss(x)); err != nil {
			t.Fatal(err)
		}
		random = min(random, p.loss(p.space.Random(dice)))
	}
	_, tpe, _ = s.Best()
	return tpe, random
}

// Over 200 seeds TPE wins 84, 88, 96 and 80 % of the time; the bound leaves room
// for the luck of 20.
func TestBeatsRandomSearch(t *testing.T) {
	const seeds = 20
	for _, p := range problems() {
		t.Run(p.name, func(t *testing.T) {
			wins, sumTPE, sumRandom := 0, 0.0, 0.0
			for seed := range uint64(seeds) {
				tpe, random := minimise(t, p, seed)
				if tpe < random {
					wins++
				}
				sumTPE += tpe / seeds
				sumRandom += random / seeds
			}
			t.Logf("best of %d trials, mean of %d seeds: TPE %.4g, random %.4g; TPE wins %d", trials, seeds, sumTPE, sumRandom, wins)
			if wins <= seeds*3/5 || sumTPE > 0.7*sumRandom {
				t.Errorf("TPE wins for %d of %d seeds, mean best loss %.4g against %.4g of random search; want more than 12 wins and at most 0.7 of the loss",
					wins, seeds, sumTPE, sumRandom)
			}
		})
	}
}

func TestSameSeedSameSuggestions(t *testing.T) {
	p := problems()[3]
	play := func(seed uint64) []Params {
		s, err := New(p.space, Default(seed))
		if err != nil {
			t.Fatal(err)
		}
		var out, running []Params
		for range 60 { // four at a time
			x := s.Suggest()
			out, running = append(out, x), append(running, x)
			if len(running) == 4 {
				if err := s.Observe(running[0], p.loss(running[0])); err != nil {
					t.Fatal(err)
				}
				running = running[1:]
			}
		}
		return out
	}
	if diff := cmp.Diff(play(3), play(3)); diff != "" {
		t.Errorf("two searches of the same seed differ:\n%s", diff)
	}
	if cmp.Equal(play(3), play(4)) {
		t.Error("searches of two seeds are the same")
	}
}

// Suggestions are points of the space, whatever was observed.
func TestSuggestionsAreInTheSpace(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		space := make(Space, rapid.IntRange(1, 4).Draw(t, "dimensions"))
		for i := range space {
			d := Dimension{Name: "x", Kind: rapid.SampledFrom([]Kind{Float, LogFloat, Int, Choice}).Draw(t, "kind")}
			d.Low = float64(rapid.IntRange(-50, 50).Draw(t, "low"))
			if d.Kind == LogFloat {
				d.Low = rapid.Float64Range(1e-9, 10).Draw(t, "low")
			}
			d.High = d.Low + float64(rapid.IntRange(1, 100).Draw(t, "span"))
			d.Choices = []string{"p", "q", "r"}
			space[i] = d
		}
		s, err := New(space, Config{Seed: rapid.Uint64().Draw(t, "seed"), Startup: 2, Gamma: 0.25, MostGood: 25, Candidates: 4})
		if err != nil {
			t.Fatal(err)
		}
		for range 30 {
			p := s.Suggest()
			if !space.Contains(p) {
				t.Fatalf("suggests %v in %+v", p, space)
			}
			// Equal losses, losses without end, and everything at the edges.
			if rapid.Bool().Draw(t, "edge") {
				for i, d := range space {
					if p[i] = d.Low; d.Kind == Choice {
						p[i] = 0
					}
				}
			}
			loss := rapid.SampledFrom([]float64{0, 1, math.Inf(1), math.Inf(-1)}).Draw(t, "loss")
			if err := s.Observe(p, loss); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// A density is one: it has mass 1 over the range of its dimension.
func TestDensitiesHaveMassOne(t *testing.T) {
	for _, d := range []Dimension{
		{Name: "float", Kind: Float, Low: -2, High: 3},
		{Name: "log", Kind: LogFloat, Low: 1e-4, High: 10},
		{Name: "int", Kind: Int, Low: 1, High: 9},
		{Name: "choice", Kind: Choice, Choices: []string{"a", "b", "c"}},
	} {
		r := rand.New(rand.NewPCG(1, 2))
		for n := range 8 {
			var values []float64
			for range n {
				values = append(values, Space{d}.Random(r)[0])
			}
			e := d.estimate(values)
			sum := 0.0
			switch d.Kind {
			case Choice:
				for i := range d.Choices {
					sum += math.Exp(e.log(float64(i)))
				}
			case Int:
				for v := d.Low; v <= d.High; v++ {
					sum += math.Exp(e.log(v))
				}
			default:
				low, high := d.bounds()
				const parts = 2000
				for i := range parts {
					x := low + (high-low)*(float64(i)+0.5)/parts
					if d.Kind == LogFloat {
						x = math.Exp(x)
					}
					// log leaves out the constant of the normal distribution.
					sum += math.Exp(e.log(x)) / math.Sqrt(2*math.Pi) * (high - low) / parts
				}
			}
			if math.Abs(sum-1) > 1e-3 {
				t.Errorf("%s with %d observations has mass %g, want 1", d.Name, n, sum)
			}
		}
	}
}

func TestDrawsFollowTheDensity(t *testing.T) {
	d := Dimension{Name: "x", Kind: Int, Low: 0, High: 5}
	e := d.estimate([]float64{1, 1, 4})
	r := rand.New(rand.NewPCG(5, 6))
	const draws = 50_000
	seen := make([]float64, 6)
	for range draws {
		seen[int(e.draw(r))] += 1.0 / draws
	}
	for v, share := range seen {
		if want := math.Exp(e.log(float64(v))); math.Abs(share-want) > 0.01 {
			t.Errorf("%d is drawn with share %.3f, its mass is %.3f", v, share, want)
		}
	}
}

func TestBadInput(t *testing.T) {
	ok := Space{{Name: "x", Low: 0, High: 1}}
	for _, tc := range []struct {
		space Space
		edit  func(*Config)
		want  string
	}{
		{Space{}, nil, "no dimensions"},
		{Space{{Low: 0, High: 1}}, nil, "name is empty"},
		{Space{{Name: "x", Low: 1, High: 1}}, nil, "low below high"},
		{Space{{Name: "x", Low: math.NaN(), High: 1}}, nil, "low below high"},
		{Space{{Name: "x", Kind: LogFloat, Low: 0, High: 1}}, nil, "logarithm"},
		{Space{{Name: "x", Kind: Int, Low: 0.5, High: 3}}, nil, "whole numbers"},
		{Space{{Name: "x", Kind: Choice, Choices: []string{"a"}}}, nil, "two or more"},
		{Space{{Name: "x", Kind: 9}}, nil, "kind = 9"},
		{ok, func(c *Config) { c.Startup = 0 }, "startup"},
		{ok, func(c *Config) { c.Gamma = 1 }, "gamma"},
		{ok, func(c *Config) { c.MostGood = 0 }, "most good"},
		{ok, func(c *Config) { c.Candidates = 0 }, "candidates"},
	} {
		c := Default(1)
		if tc.edit != nil {
			tc.edit(&c)
		}
		if _, err := New(tc.space, c); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("error %v, want one about %q", err, tc.want)
		}
	}
	s, err := New(ok, Default(1))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range []Params{nil, {2}, {0.5, 0.5}, {math.NaN()}} {
		if s.Observe(p, 0) == nil {
			t.Errorf("observing %v is accepted", p)
		}
	}
	if s.Observe(Params{0.5}, math.NaN()) == nil {
		t.Error("a loss that is not a number is accepted")
	}
}

// The surface is what its comment says: the best five of a hundred trials, as
// in the Pollux paper, are near 95.5 %, and a random trial is worse.
func TestSurfaceOfCIFAR10(t *testing.T) {
	surface := CIFAR10()
	if err := surface.Validate(); err != nil {
		t.Fatal(err)
	}
	if (Surface{}).Validate() == nil {
		t.Error("a surface with nothing in it is accepted")
	}
	best := Params{0.1, 0.9, 5e-4, 96, 2}
	if !surface.Space.Contains(best) {
		t.Fatalf("%v is not in the space", best)
	}
	if loss := surface.Loss(best); loss > 1e-4 {
		t.Errorf("loss at %s is %g, want the optimum", surface.Space.Text(best), loss)
	}
	if pace := surface.Pace(Params{0.1, 0.9, 5e-4, 64, 2}); pace != 1 {
		t.Errorf("a step at the usual width takes %g of the usual time", pace)
	}
	dice := rand.New(rand.NewPCG(1, 1))
	sum := 0.0
	for i := range uint64(1000) {
		q := surface.Quality(surface.Space.Random(dice), 7, i)
		if q < surface.Floor-1 || q > surface.Peak+1 {
			t.Fatalf("quality %g; want %g to %g", q, surface.Floor, surface.Peak)
		}
		sum += q / 1000
	}
	if sum > 92 {
		t.Errorf("a random trial reaches %.1f %% on average; want it to be well below the best", sum)
	}
	if a, b := surface.Quality(best, 1, 2), surface.Quality(best, 1, 2); a != b {
		t.Errorf("the same trial reaches %g and %g", a, b)
	}
	if a, b := surface.Quality(best, 1, 2), surface.Quality(best, 1, 3); a == b {
		t.Error("two trials draw the same noise")
	}
}
