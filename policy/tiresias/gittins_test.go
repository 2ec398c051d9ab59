// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package tiresias

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// slowIndex is the definition, read aloud: the best ratio over many amounts d.
func slowIndex(sample []float64, a float64) float64 {
	best := 0.0
	for _, x := range sample {
		if d := x - a; d > 0 {
			best = max(best, ratio(sample, a, d))
		}
	}
	return best
}

// ratio returns P(S - a <= d | S > a) / E[min(S - a, d) | S > a].
func ratio(sample []float64, a, d float64) float64 {
	ended, all, use := 0.0, 0.0, 0.0
	for _, x := range sample {
		if x <= a {
			continue
		}
		all++
		if x-a <= d {
			ended++
		}
		use += min(x-a, d)
	}
	return (ended / all) / (use / all)
}

func TestIndexAgainstDefinition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sample := rapid.SliceOfN(rapid.Float64Range(1, 1e6), 1, 30).Draw(t, "sample")
		a := rapid.Float64Range(0, 1.1e6).Draw(t, "attained")
		if rapid.Bool().Draw(t, "at a point") {
			a = rapid.SampledFrom(sample).Draw(t, "point")
		}
		g := newGittins(sample)
		got, want := g.exact(a), slowIndex(sample, a)
		if math.Abs(got-want) > 1e-6*want {
			t.Fatalf("exact(%g) = %g; want %g", a, got, want)
		}
		// No amount between the points of the sample does better.
		d := rapid.Float64Range(1, 1e6).Draw(t, "d")
		if slices.Max(sample) > a && ratio(sample, a, d) > got*(1+1e-6) {
			t.Fatalf("exact(%g) = %g; d = %g gives %g", a, got, d, ratio(sample, a, d))
		}
		// The index is the exact one at the last point of the sample.
		last := 0.0
		for _, x := range sample {
			if x <= a {
				last = max(last, x)
			}
		}
		if got, want := g.index(a), g.exact(last); got != want {
			t.Fatalf("index(%g) = %g; want %g, as at %g", a, got, want, last)
		}
	})
}

func TestIndex(t *testing.T) {
	// Three jobs of 100 and one of 10000 GPU-seconds, by hand.
	g := newGittins([]float64{10000, 100, 100, 100})
	for _, c := range []struct{ attained, want float64 }{
		{0, 3.0 / 400},     // d = 100: 3 of 4 end, all use 100
		{99, 3.0 / 400},    // no point of the sample has been passed
		{100, 1.0 / 9900},  // only the long one is left
		{9999, 1.0 / 9900}, // and still is
		{10000, 0},         // beyond the sample
		{1e9, 0},
	} {
		if got := g.index(c.attained); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("index(%g) = %g; want %g", c.attained, got, c.want)
		}
	}
}

func TestExact(t *testing.T) {
	g := newGittins([]float64{10000, 100, 100, 100})
	for _, c := range []struct{ attained, want float64 }{
		{50, 3.0 / 200},         // d = 50
		{99.5, 3.0 / (4 * 0.5)}, // half a second to go for three of four
		{9999, 1},               // one second to go
	} {
		if got := g.exact(c.attained); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("exact(%g) = %g; want %g", c.attained, got, c.want)
		}
	}
}

func TestDefaultSample(t *testing.T) {
	s := philly()
	if len(s) != 50 || !slices.IsSorted(s) {
		t.Errorf("the sample has %d values, sorted: %t; want 50 ascending ones", len(s), slices.IsSorted(s))
	}
	// The trace is heavy-tailed: the more a job has had, the more it still needs.
	g := newGittins(s)
	for _, pair := range [][2]float64{{100, 1000}, {1000, 10000}, {10000, 100000}} {
		if g.index(pair[0]) <= g.index(pair[1]) {
			t.Errorf("index(%g) = %g, index(%g) = %g; want the first to be larger", pair[0], g.index(pair[0]), pair[1], g.index(pair[1]))
		}
	}
}

func BenchmarkIndex(b *testing.B) {
	g := newGittins(philly())
	for b.Loop() {
		g.index(10)
	}
}
