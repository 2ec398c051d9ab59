// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package tune

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestNone(t *testing.T) {
	g := testGame(t, Config{Rule: None})
	p := g.play()
	if got := g.in(Finished); len(got) != 9 || p.Best != 1 || g.used != 9*27 {
		t.Errorf("%v finished after %g iterations, the best is %d; want all nine after 243, and 1", got, g.used, p.Best)
	}
}

// One job is an app too.
func TestSingleJob(t *testing.T) {
	u := newTuner(t, Config{Rule: None})
	a := App{Jobs: []Job{{Work: 100, Done: 30, Demand: 4}}, GPUs: 6, Trials: 1}
	p := u.Plan(a)
	if diff := cmp.Diff(Plan{Share: []int{4}, Best: -1}, p); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]Phase{{Jobs: 1, Iterations: 70, Demand: 4}}, u.Phases(a)); diff != "" {
		t.Error(diff)
	}
	a.Jobs[0].State = Finished
	if p := u.Plan(a); !p.Done || p.Start != 0 {
		t.Errorf("after its end: %+v; want it done", p)
	}
}

func TestHalvingSurvivors(t *testing.T) {
	g := testGame(t, Config{Rule: Halving, Min: 3, Max: 27, Eta: 3})
	p := g.play()
	// Nine trials of 3 iterations, three of 9, one of 27.
	if got := g.in(Finished); !slices.Equal(got, []int{1}) || p.Best != 1 {
		t.Errorf("%v finished, the best is %d; want 1", got, p.Best)
	}
	if g.used != 9*3+3*6+18 {
		t.Errorf("%g iterations; want 63", g.used)
	}
	if n := len(g.promoted[1]); n != 3 {
		t.Errorf("%d went on at the first rung; want 3", n)
	}
}

// HyperBand's brackets of R = 27, eta = 3: 27 trials from 1 iteration on, 12 from
// 3, 6 from 9, 4 to the end.
func TestHyperBandBrackets(t *testing.T) {
	brackets := hyperBrackets(Config{Min: 1, Max: 27, Eta: 3})
	var got []int
	var firsts []float64
	for _, b := range brackets(49) {
		got = append(got, b.trials)
		if len(b.levels) > 0 {
			firsts = append(firsts, math.Round(b.levels[0]*1e6)/1e6)
		}
	}
	if !slices.Equal(got, []int{27, 12, 6, 4}) || !slices.Equal(firsts, []float64{1, 3, 9}) {
		t.Errorf("brackets of %v trials from %v iterations; want 27, 12, 6, 4 from 1, 3, 9", got, firsts)
	}
	if n := len(brackets(50)); n != 5 {
		t.Errorf("50 trials make %d brackets; want 5", n)
	}
	g := testGame(t, Config{Rule: HyperBand, Min: 3, Max: 27, Eta: 3})
	g.app.Trials = 22 // 9 + 5 + 3, and 5 of the next round
	g.value = falling(func(i int) float64 { return float64((i*7+3)%22) / 30 })
	p := g.play()
	want := 0
	for i := range 22 {
		if (i*7+3)%22 == 0 {
			want = i
		}
	}
	if p.Best != want || g.app.Jobs[want].State != Finished {
		t.Errorf("the best is %d in state %d; want %d finished", p.Best, g.app.Jobs[p.Best].State, want)
	}
	if n := len(g.in(Finished)); n < 5 || n > 8 {
		t.Errorf("%d finished: %v; want one or more of every bracket", n, g.in(Finished))
	}
}

// ASHA goes on without waiting, and ends with the best.
func TestASHADoesNotWait(t *testing.T) {
	g := testGame(t, Config{Rule: ASHA, Min: 3, Max: 27, Eta: 3})
	for range 4 {
		g.round()
	}
	// Three trials have reached 3 iterations. The best of them may continue at once.
	p := g.tuner.Plan(g.app)
	if len(p.Promote) != 1 || p.Promote[0].Job != 1 {
		t.Errorf("%+v; want trial 1 promoted", p)
	}
	best := g.play().Best
	if best != 1 || g.app.Jobs[1].State != Finished {
		t.Errorf("the best is %d, trial 1 in state %d; want 1 finished", best, g.app.Jobs[1].State)
	}
	if g.used > 120 {
		t.Errorf("%g iterations; want at most half of the 243 of all trials", g.used)
	}
}

func TestMedian(t *testing.T) {
	g := testGame(t, Config{Rule: Median, Min: 5})
	p := g.play()
	if p.Best != 1 || g.app.Jobs[1].State != Finished {
		t.Errorf("the best is %d, in state %d; want 1 finished", p.Best, g.app.Jobs[1].State)
	}
	stopped := g.in(Stopped)
	if len(stopped) < 2 {
		t.Errorf("%v were stopped; want the bad half", stopped)
	}
	for _, i := range stopped {
		if d := g.app.Jobs[i].Done; d < 5 || (i*4+5)%9 < 3 {
			t.Errorf("trial %d was stopped after %g iterations", i, d)
		}
	}
}

func TestPOPClasses(t *testing.T) {
	u := newTuner(t, Config{Rule: POP, Goal: Maximise, Min: 5, Max: 100})
	curve := func(end, rate float64, n int) []Reading {
		var out []Reading
		for i := 1; i <= n; i++ {
			noise := 0.004 * math.Sin(float64(i)*5)
			out = append(out, Reading{float64(i), end*(1-math.Exp(-rate*float64(i))) + noise})
		}
		return out
	}
	a := App{GPUs: 8, Trials: 4, Jobs: []Job{
		{Number: 0, Work: 100, Demand: 4, Curve: curve(0.9, 0.08, 40)},  // leads
		{Number: 1, Work: 100, Demand: 4, Curve: curve(0.3, 0.2, 40)},   // levelled off far below
		{Number: 2, Work: 100, Demand: 4, Curve: curve(0.95, 0.06, 25)}, // behind, but rising
		{Number: 3, Work: 100, Demand: 4, Curve: curve(0.3, 0.2, 3)},    // too young
	}}
	for i, o := range u.rule.(pop).expectations(u.look(a)) {
		if poor := o.class == Poor; poor != (i == 1) {
			t.Errorf("trial %d: poor is %t; want only the second poor", i, poor)
		}
	}
	p := u.Plan(a)
	if len(p.Stop) != 1 || p.Stop[0].Job != 1 || !strings.Contains(p.Stop[0].Why, "beat the best") {
		t.Errorf("stops %+v; want the second", p.Stop)
	}
	if p.Share[0] != 4 {
		t.Errorf("shares %v; want all 4 for the good one", p.Share)
	}
	sum := 0
	for _, n := range p.Share {
		sum += n
	}
	if sum != 8 {
		t.Errorf("shares %v; want all 8 GPUs used", p.Share)
	}
	// With a target that only the leader can reach, its end is the phase's.
	target := 0.85
	far := newTuner(t, Config{Rule: POP, Goal: Maximise, Target: &target, Max: 100})
	a.Jobs[0].Curve = curve(0.9, 0.04, 40)
	phases := far.Phases(a)
	if len(phases) != 1 || phases[0].Jobs != 4 || phases[0].Iterations < 20 || phases[0].Iterations > 97 {
		t.Errorf("phases %+v; want the longest forecast of the four", phases)
	}
}

// Curves that continue as their family says are foreseen.
func TestExtrapolate(t *testing.T) {
	for _, c := range []struct {
		name string
		at   func(x float64) float64
	}{
		{"power", func(x float64) float64 { return 0.2 + 0.1*math.Pow(x, -0.5) }},
		{"exponential", func(x float64) float64 { return 0.1 + 2*math.Exp(-4*x) }},
		{"hyperbolic", func(x float64) float64 { return 0.1 / (x + 0.1) }},
		{"logarithmic", func(x float64) float64 { return 1 - 0.2*math.Log(x) }},
		{"flat", func(float64) float64 { return 0.7 }},
	} {
		var curve []Reading
		for i := 1; i <= 30; i++ {
			curve = append(curve, Reading{float64(i), c.at(float64(i) / 100)})
		}
		fs := extrapolate(curve, 100)
		if got, want := fs.value(1), c.at(1); math.Abs(got-want) > 0.02*math.Abs(want) {
			t.Errorf("%s: %g is foreseen at the end; want %g", c.name, got, want)
		}
		if p := fs.below(c.at(1)+0.1, 1); p < 0.9 {
			t.Errorf("%s: the chance to be below %g is %g; want it near 1", c.name, c.at(1)+0.1, p)
		}
		if p := fs.below(c.at(1)-0.1, 1); p > 0.1 {
			t.Errorf("%s: the chance to be below %g is %g; want it near 0", c.name, c.at(1)-0.1, p)
		}
	}
	if extrapolate(make([]Reading, leastReadings-1), 100) != nil || extrapolate(make([]Reading, 9), 0) != nil {
		t.Error("too little to go by gives a forecast")
	}
}

func TestTargetEndsTheApp(t *testing.T) {
	target := 0.25
	for _, rule := range Rules() {
		g := testGame(t, Config{Rule: rule, Target: &target, Min: 3, Max: 27})
		p := g.play()
		if p.Best < 0 || g.app.Jobs[p.Best].State == Failed {
			t.Fatalf("%s: %+v", rule, p)
		}
		j := g.app.Jobs[p.Best]
		if v := g.value(j.Number, j.Done); v > target {
			t.Errorf("%s: the best is trial %d at %g; want the target", rule, j.Number, v)
		}
		if rule == None && len(g.in(Stopped)) == 0 {
			t.Errorf("%s: nobody was stopped when the target was reached", rule)
		}
	}
}

// The example of the Themis paper: 4, 2 and 1 jobs with 8, 16 and 36 iterations.
func TestPhases(t *testing.T) {
	u := newTuner(t, Config{Rule: Halving, Eta: 2, Levels: []float64{8, 24}, Max: 60})
	a := App{GPUs: 4, Trials: 4, Jobs: []Job{
		{Number: 0, Demand: 8, IterTime: 80}, {Number: 1, Demand: 8, IterTime: 100}, {Number: 2, Demand: 8, IterTime: 100}, {Number: 3, Demand: 8, IterTime: 120},
	}}
	want := []Phase{{4, 8, 8}, {2, 16, 8}, {1, 36, 8}}
	if diff := cmp.Diff(want, u.Phases(a)); diff != "" {
		t.Error(diff)
	}
	// In the middle of the first phase its slowest job counts.
	for i := range a.Jobs {
		a.Jobs[i].Curve = []Reading{{float64(3 + i), 0.5}}
	}
	want[0].Iterations = 5
	if diff := cmp.Diff(want, u.Phases(a)); diff != "" {
		t.Error(diff)
	}
	// Two have reached the rung: two are left in the phase.
	a.Jobs[2].Curve, a.Jobs[3].Curve = []Reading{{8, 0.1}}, []Reading{{8, 0.2}}
	want[0] = Phase{2, 5, 8}
	if diff := cmp.Diff(want, u.Phases(a)); diff != "" {
		t.Error(diff)
	}
	// Trials to come are a separate phase where trials do not wait.
	u = newTuner(t, Config{Rule: Median})
	a = App{Trials: 5, Jobs: []Job{{Work: 50, Done: 10, Demand: 2}, {Number: 1, Work: 50, Done: 30, Demand: 2}}}
	if diff := cmp.Diff([]Phase{{2, 40, 2}, {3, 50, 2}}, u.Phases(a)); diff != "" {
		t.Error(diff)
	}
}

func TestBadConfig(t *testing.T) {
	nan := math.NaN()
	for _, c := range []struct {
		Config
		want string
	}{
		{Config{Rule: "best"}, "rule"},
		{Config{Rule: None, Goal: 2}, "goal"},
		{Config{Rule: None, Target: &nan}, "target"},
		{Config{Rule: None, Min: -1}, "min"},
		{Config{Rule: None, Min: math.Inf(1)}, "min"},
		{Config{Rule: None, Max: nan}, "max"},
		{Config{Rule: ASHA, Eta: 1.5, Max: 9}, "eta"},
		{Config{Rule: ASHA}, "iterations of a whole trial"},
		{Config{Rule: Halving, Max: 9, Levels: []float64{3, 3}}, "ascending"},
		{Config{Rule: Halving, Max: 9, Levels: []float64{9}}, "below max"},
		{Config{Rule: Halving, Min: 1e-300, Max: 1e300, Eta: 2}, "rungs"},
	} {
		if _, err := New(c.Config); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v; want an error about %q", c.Config, err, c.want)
		}
	}
}
