// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package goodput

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"
)

// With many samples the estimate is the truth, however the batch is made up.
func TestEstimatorFindsTheTruth(t *testing.T) {
	const width, initial = 20, 4 // length of the gradient, examples
	r := rand.New(rand.NewPCG(3, 4))
	truth := make([]float64, width) // gradient of squared length 5
	for i := range truth {
		truth[i] = 0.5
	}
	const variance = 4 // of one number of the gradient of one example
	gradient := func(examples int) []float64 {
		g := make([]float64, width)
		for i := range g {
			g[i] = truth[i] + math.Sqrt(variance/float64(examples))*r.NormFloat64()
		}
		return g
	}
	for _, tc := range []struct {
		name            string
		examples, count int
	}{
		{"two replicas", 2, 2}, {"sixteen replicas", 1, 16}, {"larger batch", 8, 8}, {"one GPU", 4, 1},
	} {
		var e Estimator
		before := gradient(tc.examples)
		for range 4000 {
			scale := float64(tc.examples*tc.count) / initial
			if tc.count == 1 {
				now := gradient(tc.examples)
				e.AddPair(square(before), square(now), square(middle(before, now)), scale)
				before = now
				continue
			}
			var all [][]float64
			local := 0.0
			for range tc.count {
				g := gradient(tc.examples)
				local += square(g) / float64(tc.count)
				all = append(all, g)
			}
			e.Add(Lengths{Local: local, Total: square(middle(all...)), Count: tc.count, Scale: scale})
		}
		n, ok := e.Noise()
		if !ok || e.Biased != (tc.count == 1) {
			t.Errorf("%s: ok %v, biased %v", tc.name, ok, e.Biased)
		}
		// Of a batch of the initial size: 20*4/4 = 20; 4 examples * 20/5 = 16.
		if math.Abs(n.Sqr/5-1) > 0.1 || math.Abs(n.Var/20-1) > 0.1 || math.Abs(n.Scale(initial)/16-1) > 0.15 {
			t.Errorf("%s: %+v, scale %g; want 5, 20 and 16", tc.name, n, n.Scale(initial))
		}
	}
}

func TestEstimatorSkips(t *testing.T) {
	good := Lengths{Local: 3, Total: 2, Count: 2, Scale: 1}
	var e Estimator
	if _, ok := e.Noise(); ok {
		t.Error("an estimate from nothing")
	}
	e.Add(good)
	before := e
	for name, change := range map[string]func(*Lengths){
		"local not a number": func(l *Lengths) { l.Local = math.NaN() },
		"total infinite":     func(l *Lengths) { l.Total = math.Inf(1) },
		"negative":           func(l *Lengths) { l.Local = -1 },
		"one gradient":       func(l *Lengths) { l.Count = 1 },
		"no scale":           func(l *Lengths) { l.Scale = 0 },
		"scale infinite":     func(l *Lengths) { l.Scale = math.Inf(1) },
		"overflow":           func(l *Lengths) { l.Total = math.MaxFloat64; l.Count = 1000 },
	} {
		l := good
		change(&l)
		if e.Add(l) || e != before {
			t.Errorf("%s: used", name)
		}
	}
	if e.AddPair(math.NaN(), 1, 1, 1) || e.AddPair(1, 1, math.Inf(1), 1) || e != before {
		t.Error("used a bad pair")
	}
}

// A bad batch does not make the estimator forget what pairs have told it.
func TestEstimatorResetsOnlyForGoodBatches(t *testing.T) {
	var e Estimator
	e.AddPair(4, 4, 3, 1)
	before := e
	if e.Add(Lengths{Local: math.NaN(), Total: 1, Count: 2, Scale: 1}) || e != before || !e.Biased {
		t.Errorf("got %+v, want %+v", e, before)
	}
	e.Add(Lengths{Local: 9, Total: 6, Count: 2, Scale: 1})
	if n, _ := e.Noise(); !near(n.Sqr, 3) || !near(n.Var, 3) || e.Biased {
		t.Errorf("after a reset: %+v, biased %v; want 3, 3", n, e.Biased)
	}
}

func TestNoiseScale(t *testing.T) {
	for _, tc := range []struct {
		n    Noise
		want float64
	}{
		{Noise{Sqr: 2, Var: 6}, 300}, {Noise{Sqr: 0, Var: 1}, math.MaxFloat64},
		{Noise{Sqr: 0, Var: 0}, 0}, {Noise{Sqr: 1, Var: 0}, 0}, {Noise{Sqr: 1e-300, Var: 1e300}, math.MaxFloat64},
	} {
		got := tc.n.Scale(100)
		if got != tc.want {
			t.Errorf("%+v: %g, want %g", tc.n, got, tc.want)
		}
		if _, err := json.Marshal(got); err != nil {
			t.Error(err)
		}
		if e := Efficiency(got, 100, 200); !(e >= 0.5 && e <= 1) {
			t.Errorf("%+v: efficiency %g", tc.n, e)
		}
	}
}

func TestEstimatorJSON(t *testing.T) {
	var e, back Estimator
	e.AddPair(4, 5, 3, 2)
	data, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &back); err != nil || back != e {
		t.Errorf("%+v came back as %+v: %v", e, back, err)
	}
}

// Whatever is fed in, what comes out can be used.
func TestEstimatorProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var e Estimator
		for range rapid.IntRange(1, 20).Draw(t, "steps") {
			l := Lengths{
				Local: rapid.Float64().Draw(t, "local"), Total: rapid.Float64().Draw(t, "total"),
				Count: rapid.IntRange(-1, 64).Draw(t, "count"), Scale: rapid.Float64Range(0, 1000).Draw(t, "scale"),
			}
			if rapid.Bool().Draw(t, "pair") {
				e.AddPair(l.Local, l.Total, l.Local, l.Scale)
			} else {
				e.Add(l)
			}
			n, ok := e.Noise()
			if !ok {
				continue
			}
			if !(n.Sqr >= 0 && n.Var >= leastVar) || !finite(n.Sqr) || !finite(n.Var) || !finite(n.Scale(128)) {
				t.Fatalf("%+v gives %+v, scale %g", e, n, n.Scale(128))
			}
			for name, rule := range Rules() {
				if f := rule(4, n); !(f >= 1-1e-12 && f <= 4+1e-12) {
					t.Fatalf("%s: factor %g for four times the batch, with %+v", name, f, n)
				}
			}
		}
	})
}

func TestRules(t *testing.T) {
	for _, tc := range []struct {
		rule  string
		scale float64
		noise Noise
		want  float64
	}{
		{"adascale", 4, Noise{Sqr: 1, Var: 0}, 1},
		{"adascale", 4, Noise{Sqr: 0, Var: 1}, 4},
		{"adascale", 4, Noise{Sqr: 1, Var: 1}, 1.6}, // 2/(1/4+1)
		{"adascale", 4, Noise{}, 1},
		{"adascale", 4, Noise{Sqr: math.MaxFloat64, Var: math.MaxFloat64}, 1.6},
		{"sqrt", 4, Noise{Sqr: 1, Var: 1}, 2},
		{"linear", 4, Noise{Sqr: 1, Var: 1}, 4},
	} {
		if got := Rules()[tc.rule](tc.scale, tc.noise); !near(got, tc.want) {
			t.Errorf("%s(%g, %+v) = %g, want %g", tc.rule, tc.scale, tc.noise, got, tc.want)
		}
	}
}
