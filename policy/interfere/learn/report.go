// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package learn

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/fairway-gpu/fairway/policy/interfere"
)

// Report is how well slowdowns are predicted, from measured utilisations and step
// times and from less accurate ones.
type Report struct {
	Limit  float64 `json:"limit"` // slowdown that is safe
	Scores []Score `json:"scores"`
	// Ways are the time-sliced pairs as measured, predicted by our method with the
	// models split in other ways: they show how much of a score is chance.
	Ways []Score `json:"ways"`
	// Cuts are the same pairs, split by models, called safe by stricter limits.
	Cuts []Cut `json:"cuts"`
	// Triples are the predictions of three jobs on a GPU, if any were measured.
	Triples []TripleScore `json:"triples,omitempty"`
	// Guesses are those of our method, split by models, by mode, from the measured
	// loads.
	Guesses map[interfere.Mode][]Guess `json:"-"`
}

// The sources of the loads.
const (
	Measured  = "measured"
	Noisy     = "blurred"
	Predicted = "predicted"
)

// The standard deviations of the logarithms of utilisation and step time with which
// loads are blurred. The former is as good as the best predictor that Horus
// reports.
const (
	BlurUtil = 0.133
	BlurStep = 0.3
)

// Compare evaluates all modes that have enough pairs. predicted, if not nil, has
// each job's load as predicted from its graph.
func Compare(pairs []Pair, predicted map[Key]interfere.Load) (*Report, error) {
	r := &Report{Limit: interfere.DefaultLimit, Guesses: map[interfere.Mode][]Guess{}}
	for _, mode := range []interfere.Mode{interfere.TimeSlice, interfere.MPS} {
		of := OfMode(pairs, mode)
		if len(of) < leastToCompare {
			continue
		}
		type trial struct {
			inputs string
			split  Split
			o      Options
		}
		trials := []trial{
			{Measured, ByModel, Options{}},
			{Measured, ByPair, Options{OursOnly: true}},
			{Measured, InFit, Options{OursOnly: true}},
			{Noisy, ByModel, Options{OursOnly: true, Loads: Blurred(of, BlurUtil, BlurStep, 1)}},
		}
		if predicted != nil {
			trials = append(trials, trial{Predicted, ByModel, Options{OursOnly: true, Loads: predicted}})
		}
		for _, t := range trials {
			t.o.Limit = r.Limit
			scores, guesses, err := Evaluate(of, t.split, t.o)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", mode, err)
			}
			for i := range scores {
				scores[i].Inputs = t.inputs
			}
			r.Scores = append(r.Scores, scores...)
			if t.inputs == Measured && t.split == ByModel {
				r.Guesses[mode] = guesses
				if mode == interfere.TimeSlice {
					r.Cuts = cuts(guesses, r.Limit)
				}
			}
		}
	}
	if err := r.divideAnew(OfMode(pairs, interfere.TimeSlice)); err != nil {
		return nil, err
	}
	if len(r.Scores) == 0 {
		return nil, errors.New("compare interference models: too few pairs; measure more with lab/profiling/measure.py pairs")
	}
	return r, nil
}

// cuts returns what our bound calls safe by the limits that are not above the one
// that pairs are judged by.
func cuts(all []Guess, limit float64) []Cut {
	var out []Cut
	for _, l := range cautious {
		if l > limit {
			continue
		}
		c := Cut{Method: Ours, Limit: l}
		for i := 0; i < len(all); i += 2 {
			if a, b := all[i], all[i+1]; a.High < l && b.High < l {
				c.Called++
				c.Right += count(a.Measured < limit && b.Measured < limit)
			}
		}
		out = append(out, c)
	}
	return out
}

// ways is the number of other ways to split the models.
const ways = 5

func (r *Report) divideAnew(pairs []Pair) error {
	if len(pairs) < leastToCompare {
		return nil
	}
	for seed := range uint64(ways) {
		s, _, err := Evaluate(pairs, ByModel, Options{Limit: r.Limit, OursOnly: true, Seed: seed + 1})
		if err != nil {
			return err
		}
		s[0].Inputs = Measured
		r.Ways = append(r.Ways, s[0])
	}
	return nil
}

// AllWays aggregates the ways: lowest and highest precision, overall precision, and
// the fraction of the pairs called safe with a job that is as much faster
// (Score.Faster).
func (r *Report) AllWays() (low, high, all, faster float64) {
	low, high = math.Inf(1), math.Inf(-1)
	var called, right, fast int
	for _, s := range r.Ways {
		low, high = min(low, s.Precision()), max(high, s.Precision())
		called, right, fast = called+s.Called, right+s.Right, fast+s.Faster
	}
	return low, high, float64(right) / float64(called), float64(fast) / float64(called)
}

// leastToCompare is how many pairs a mode needs so that some can be kept out of the
// fit.
const leastToCompare = 3 * leastPairs

// Model fits every mode that has enough pairs.
func Model(pairs []Pair, gpu, source string) (*interfere.Model, error) {
	m := &interfere.Model{GPU: gpu, Source: source}
	var err error
	if m.TimeSlice, err = sharing(pairs, interfere.TimeSlice); err != nil {
		return nil, err
	}
	if len(OfMode(pairs, interfere.MPS)) < leastToCompare {
		return m, nil
	}
	m.MPS, err = sharing(pairs, interfere.MPS)
	return m, err
}

// sharing fits a mode, and adds the error on models that the fit has not seen.
func sharing(pairs []Pair, mode interfere.Mode) (*interfere.Sharing, error) {
	of := OfMode(pairs, mode)
	if len(of) < leastToCompare {
		return nil, fmt.Errorf("fit %s: %d pairs; want at least %d", mode, len(of), leastToCompare)
	}
	s, err := Sharing(of)
	if err != nil {
		return nil, err
	}
	scores, _, err := Evaluate(of, ByModel, Options{OursOnly: true})
	if err != nil {
		return nil, err
	}
	s.AbsError = digits(scores[0].AbsError)
	return s, nil
}

// Blurred returns loads as a predictor with these standard deviations of
// logarithmic error would give them, by seed.
func Blurred(pairs []Pair, util, step float64, seed uint64) map[Key]interfere.Load {
	rng := rand.New(rand.NewPCG(seed, 1))
	loads := map[Key]interfere.Load{}
	for _, p := range pairs {
		for _, s := range p.Sides {
			if _, ok := loads[s.Key]; ok {
				continue
			}
			l := s.Load
			if l.Util < hostBound { // as on the host of the solo measurements
				l.Util, l.Step = min(1, l.Util*p.HostSlower), l.Step/p.HostSlower
			}
			l.Util = min(1, l.Util*math.Exp(util*rng.NormFloat64()))
			l.Step *= math.Exp(step * rng.NormFloat64())
			l.Spread = util
			loads[s.Key] = l
		}
	}
	return loads
}
