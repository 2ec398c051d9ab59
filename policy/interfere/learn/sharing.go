// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package learn

import (
	"fmt"
	"math"

	"github.com/fairway-gpu/fairway/policy/interfere"
	"github.com/fairway-gpu/fairway/sched/num"
)

// leastPairs is how many pairs a mode needs to be fitted.
const leastPairs = 8

// sample is one measured job of a pair.
type sample struct {
	own      interfere.Load
	others   []interfere.Load
	slowdown float64
}

// samples returns both jobs of every pair.
func samples(pairs []Pair) []sample {
	out := make([]sample, 0, 2*len(pairs))
	for _, p := range pairs {
		for i, s := range p.Sides {
			out = append(out, sample{s.Load, []interfere.Load{p.Sides[1-i].Load}, s.Slowdown})
		}
	}
	return out
}

// Sharing fits the pairs of one mode. Jobs that take turns get the form fair-share.
// Under MPS, kernels run side by side, and what is known about a job says little
// beyond how busy the GPU is: the form overload.
func Sharing(pairs []Pair) (*interfere.Sharing, error) {
	if len(pairs) < leastPairs {
		return nil, fmt.Errorf("fit interference: %d pairs; want at least %d", len(pairs), leastPairs)
	}
	s := samples(pairs)
	shape, start := turns(s)
	if pairs[0].Mode == interfere.MPS {
		shape, start = sideBySide()
	}
	best := shape(minimise(func(x []float64) float64 { return loss(shape(x), s) }, start, 0.3))
	best.Pairs = len(pairs)
	for _, v := range []*float64{&best.Capacity, &best.Corner, &best.Turn, &best.ShortStep, &best.Knee, &best.Slope} {
		*v = digits(*v)
	}
	best.Spread = spread(of(best), pairs)
	return best, nil
}

// shaped makes a model from unconstrained parameters.
type shaped func(x []float64) *interfere.Sharing

// turns is the form fair-share, and its starting point.
func turns(s []sample) (shaped, []float64) {
	short := shortStep(s)
	return func(x []float64) *interfere.Sharing {
		return &interfere.Sharing{
			Form: interfere.FairShare, Capacity: within(math.Exp(x[0]), 0.5, 2), Corner: within(1+math.Exp(x[1]), 1.5, 50),
			Turn: within(math.Exp(x[2]), 1e-5, 0.05), ShortStep: short, Spread: exact,
		}
	}, []float64{math.Log(0.9), math.Log(8), math.Log(1e-3)}
}

// sideBySide is the form overload, and its starting point.
func sideBySide() (shaped, []float64) {
	return func(x []float64) *interfere.Sharing {
		return &interfere.Sharing{
			Form: interfere.Overload, Knee: within(math.Exp(x[0]), 0.2, 2), Slope: within(math.Exp(x[1]), 0.01, 2), Spread: exact,
		}
	}, []float64{math.Log(0.9), math.Log(0.3)}
}

// exact is the spread of a model that has none yet.
var exact = []interfere.Spread{{At: 1, High: 1}}

// tail is the error of ln(slowdown) above which it counts linearly, not by its
// square: a few pairs behave in ways that utilisation cannot explain.
const tail = 0.1

// loss is what the fit minimises.
func loss(s *interfere.Sharing, all []sample) float64 {
	m := interfere.Model{TimeSlice: s}
	sum := 0.0
	for _, x := range all {
		r := math.Log(x.slowdown / m.Slowdown(interfere.TimeSlice, x.own, x.others).Mean)
		sum += math.Sqrt(1+r*r/(tail*tail)) - 1
	}
	return sum / float64(len(all))
}

// shortStep returns the tenth percentile of step times.
func shortStep(all []sample) float64 {
	steps := make([]float64, len(all))
	for i, x := range all {
		steps[i] = x.own.Step
	}
	return num.Quantile(steps, 0.1)
}

func within(x, low, high float64) float64 { return min(max(x, low), high) }

// digits keeps four significant digits, so that the file is the same on every
// machine.
func digits(x float64) float64 {
	if x == 0 {
		return 0
	}
	unit := math.Pow(10, 3-math.Floor(math.Log10(math.Abs(x))))
	return math.Round(x*unit) / unit
}
