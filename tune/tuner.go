// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package tune

import (
	"fmt"
	"math"
	"slices"
)

// Rule names an early-stopping rule.
type Rule string

// The rules; see the package comment.
const (
	None      Rule = "none"
	Median    Rule = "median"
	Halving   Rule = "halving"
	HyperBand Rule = "hyperband"
	ASHA      Rule = "asha"
	POP       Rule = "pop"
)

// Rules returns all rules.
func Rules() []Rule { return []Rule{None, Median, Halving, HyperBand, ASHA, POP} }

// Rungs reports whether the rule compares trials at rungs, and so makes them wait.
func (r Rule) Rungs() bool { return r == Halving || r == HyperBand || r == ASHA }

// Config is the configuration of a tuner.
type Config struct {
	Rule Rule
	Goal Goal
	// Target is a value of the metric that is good enough; nil: find the best.
	Target *float64
	// Min is the number of iterations before which no trial is stopped, and the first
	// rung; 0: 1.
	Min float64
	// Max is the total number of iterations of a trial. Rules with rungs need it; POP
	// extrapolates curves to it, and uses the trial's own work if it is 0.
	Max float64
	// Eta: one in Eta trials continues at a rung; 0: 3.
	Eta float64
	// Levels replaces the rungs Min, Min*Eta, ... of Halving and ASHA.
	Levels []float64
}

// Tuner implements Scheduler.
type Tuner struct {
	Config
	rule rule
}

var _ Scheduler = (*Tuner)(nil)

// rule judges the curves; everything else is common to all rules.
type rule interface {
	judge(*view)
	phases(*view) []Phase
}

// maxRungs bounds the rungs of a search.
const maxRungs = 60

// New returns a tuner.
func New(c Config) (*Tuner, error) {
	c.Min, c.Eta = orDefault(c.Min, 1), orDefault(c.Eta, 3)
	switch {
	case !slices.Contains(Rules(), c.Rule):
		return nil, fmt.Errorf("rule = %.20q; want one of %v", c.Rule, Rules())
	case c.Goal > Maximise:
		return nil, fmt.Errorf("goal = %d; want %d (minimise) or %d (maximise)", c.Goal, Minimise, Maximise)
	case c.Target != nil && !finite(*c.Target):
		return nil, fmt.Errorf("target = %g; want a finite number", *c.Target)
	case !(c.Min > 0) || !finite(c.Min):
		return nil, fmt.Errorf("min = %g; want a number of iterations above 0", c.Min)
	case !(c.Max >= 0) || !finite(c.Max):
		return nil, fmt.Errorf("max = %g; want a number of iterations", c.Max)
	case !(c.Eta >= 2 && c.Eta <= 100):
		return nil, fmt.Errorf("eta = %g; want 2 to 100", c.Eta)
	case c.Rule.Rungs() && c.Max < c.Min:
		return nil, fmt.Errorf("max = %g, min = %g; rule %s needs max, the iterations of a whole trial, at least min", c.Max, c.Min, c.Rule)
	}
	if err := checkLevels(c); err != nil {
		return nil, err
	}
	t := &Tuner{Config: c}
	switch c.Rule {
	case Halving, ASHA:
		t.rule = &rungs{eta: c.Eta, max: c.Max, async: c.Rule == ASHA, brackets: oneBracket(c)}
	case HyperBand:
		t.rule = &rungs{eta: c.Eta, max: c.Max, brackets: hyperBrackets(c)}
	case Median:
		t.rule = median{grace: c.Min}
	case POP:
		t.rule = pop{grace: c.Min, max: c.Max, target: t.towards(c.Target)}
	default:
		t.rule = toTheEnd{}
	}
	return t, nil
}

func checkLevels(c Config) error {
	if len(c.Levels) > maxRungs {
		return fmt.Errorf("levels has %d entries; want at most %d", len(c.Levels), maxRungs)
	}
	for i, l := range c.Levels {
		if !(l > 0 && l < c.Max) || i > 0 && l <= c.Levels[i-1] {
			return fmt.Errorf("levels = %v; want ascending numbers of iterations above 0 and below max = %g", c.Levels, c.Max)
		}
	}
	if n := math.Log(c.Max/c.Min) / math.Log(c.Eta); c.Rule.Rungs() && n > maxRungs {
		return fmt.Errorf("min = %g, max = %g, eta = %g make %.0f rungs; want at most %d", c.Min, c.Max, c.Eta, n, maxRungs)
	}
	return nil
}

func orDefault(v, standard float64) float64 {
	if v == 0 {
		return standard
	}
	return v
}

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// towards negates a value if more is better: internally, less is better.
func (t *Tuner) towards(v *float64) *float64 {
	if v == nil || t.Goal == Minimise {
		return v
	}
	turned := -*v
	return &turned
}

// Plan implements Scheduler.
func (t *Tuner) Plan(a App) Plan {
	v := t.look(a)
	if winner := v.reached(t.towards(t.Target)); winner >= 0 {
		v.done = true
		for i := range v.jobs {
			if i != winner {
				v.stop(i, fmt.Sprintf("trial %d has reached the target", v.jobs[winner].Number))
			}
		}
	} else {
		t.rule.judge(v)
	}
	return v.plan()
}

// Phases implements Scheduler.
func (t *Tuner) Phases(a App) []Phase {
	v := t.look(a)
	if v.reached(t.towards(t.Target)) >= 0 {
		return nil
	}
	return slices.DeleteFunc(t.rule.phases(v), func(p Phase) bool { return p.Jobs <= 0 || !(p.Iterations > 0) })
}

// toTheEnd is the rule None.
type toTheEnd struct{}

func (toTheEnd) judge(*view) {}

func (toTheEnd) phases(v *view) []Phase {
	return v.together(func(i int) float64 { return v.jobs[i].Work - v.jobs[i].Done })
}
