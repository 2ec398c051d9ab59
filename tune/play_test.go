// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package tune

import (
	"math"
	"testing"
)

// failer is what a test and a property have in common.
type failer interface {
	Helper()
	Fatalf(format string, args ...any)
}

// game plays an app whose trials follow known curves.
type game struct {
	t      failer
	tuner  *Tuner
	app    App
	value  func(trial int, done float64) float64
	work   float64
	demand int
	// pace returns the iterations that a trial does in a round; nil: 1.
	pace     func(trial int) float64
	used     float64              // iterations of all trials
	promoted map[int]map[int]bool // by rung: trials that went on
}

func newTuner(t failer, c Config) *Tuner {
	t.Helper()
	u, err := New(c)
	if err != nil {
		t.Fatalf("%v", err)
	}
	return u
}

// round takes one plan and lets the trials run.
func (g *game) round() Plan {
	g.t.Helper()
	p := g.tuner.Plan(g.app)
	g.check(p)
	for _, s := range p.Stop {
		g.app.Jobs[s.Job].State = Stopped
		g.app.Jobs[s.Job].Held = 0
	}
	for _, u := range p.Promote {
		if g.promoted == nil {
			g.promoted = map[int]map[int]bool{}
		}
		for k := g.app.Jobs[u.Job].Rung + 1; k <= u.Rung; k++ { // one far beyond its rung may pass several
			if g.promoted[k] == nil {
				g.promoted[k] = map[int]bool{}
			}
			g.promoted[k][u.Job] = true
		}
		g.app.Jobs[u.Job].Rung = u.Rung
	}
	for range p.Start {
		g.app.Jobs = append(g.app.Jobs, Job{Number: len(g.app.Jobs), Work: g.work, Demand: max(1, g.demand)})
	}
	for i, n := range p.Share {
		g.app.Jobs[i].Held = n
		if n > 0 {
			g.run(i)
		}
	}
	return p
}

func (g *game) run(i int) {
	j := &g.app.Jobs[i]
	pace := 1.0
	if g.pace != nil {
		pace = g.pace(i)
	}
	for range int(min(pace, j.Work-j.Done)) {
		j.Done++
		g.used++
		j.Curve = append(j.Curve, Reading{j.Done, g.value(i, j.Done)})
	}
	if j.Done >= j.Work {
		j.State, j.Held = Finished, 0
	}
}

// check is what every plan has to keep.
func (g *game) check(p Plan) {
	g.t.Helper()
	sum, running := 0, 0
	for i, n := range p.Share {
		j := g.app.Jobs[i]
		sum += n
		if n > 0 {
			running++
		}
		if n < 0 || n > max(1, j.Demand) || n > 0 && j.State != Active {
			g.t.Fatalf("job %d in state %d gets %d GPUs of a demand of %d", i, j.State, n, j.Demand)
		}
	}
	for _, s := range p.Stop {
		if g.app.Jobs[s.Job].State != Active || p.Share[s.Job] != 0 || s.Why == "" {
			g.t.Fatalf("job %d in state %d is stopped with %d GPUs, because %q", s.Job, g.app.Jobs[s.Job].State, p.Share[s.Job], s.Why)
		}
	}
	switch {
	case len(p.Share) != len(g.app.Jobs):
		g.t.Fatalf("%d shares for %d jobs", len(p.Share), len(g.app.Jobs))
	case sum > g.app.GPUs:
		g.t.Fatalf("%d GPUs are given of %d", sum, g.app.GPUs)
	case g.app.AtOnce > 0 && running+p.Start > max(running, g.app.AtOnce), g.app.AtOnce > 0 && running > g.app.AtOnce:
		g.t.Fatalf("%d trials run and %d start; want at most %d at once", running, p.Start, g.app.AtOnce)
	case p.Start < 0 || len(g.app.Jobs)+p.Start > g.app.Trials:
		g.t.Fatalf("%d trials and %d to start; the budget is %d", len(g.app.Jobs), p.Start, g.app.Trials)
	}
}

// play goes on until the best model is known.
func (g *game) play() Plan {
	g.t.Helper()
	const most = 100_000
	for range most {
		p := g.round()
		if p.Done && !g.anyActive() {
			return p
		}
	}
	g.t.Fatalf("no end after %d rounds: %+v", most, g.app)
	return Plan{}
}

func (g *game) anyActive() bool {
	for _, j := range g.app.Jobs {
		if j.State == Active {
			return true
		}
	}
	return false
}

// in returns the numbers of the trials in a state.
func (g *game) in(s State) []int {
	var out []int
	for _, j := range g.app.Jobs {
		if j.State == s {
			out = append(out, j.Number)
		}
	}
	return out
}

// falling is a learning curve that falls from 1 towards an end of its own.
func falling(end func(trial int) float64) func(int, float64) float64 {
	return func(trial int, done float64) float64 { return end(trial) + (1-end(trial))*math.Exp(-done/8) }
}

func testGame(t *testing.T, c Config) *game {
	return &game{t: t, tuner: newTuner(t, c), work: 27, app: App{GPUs: 3, AtOnce: 3, Trials: 9},
		value: falling(func(i int) float64 { return float64((i*4+5)%9) / 10 })} // trial 1 is the best, then 3, 5, 7
}
