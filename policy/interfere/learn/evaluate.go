// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package learn

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/fairway-gpu/fairway/policy/interfere"
)

// Split is how pairs are kept out of the fit that predicts them.
type Split string

// The splits.
const (
	ByModel Split = "models" // no model of the pair occurs in its fit
	ByPair  Split = "pairs"  // the pair is not in its fit, but its models may be
	InFit   Split = "none"   // the pair is in its fit, as with the model that ships
)

// Options say how to evaluate.
type Options struct {
	Limit float64 // slowdown that is safe; 0: interfere.DefaultLimit
	Folds int     // 0: 8
	Seed  uint64  // of the folds
	// Loads replaces loads measured alone by predicted ones, on the host where jobs
	// were measured alone; the fits keep the measured ones. Nil: as measured.
	Loads map[Key]interfere.Load
	// OursOnly leaves out the methods for comparison.
	OursOnly bool
}

// Score is how well a method did on pairs that its fit had not seen.
type Score struct {
	Mode   string `json:"mode"`
	Method string `json:"method"`
	Split  Split  `json:"split"`
	Inputs string `json:"inputs"` // where utilisations and step times are from: measured, blurred, predicted
	Pairs  int    `json:"pairs"`
	// AbsError is the mean of |predicted - measured| slowdown over all jobs,
	// AbsLog that of their logarithms, Bias the mean of ln(measured/predicted).
	AbsError float64 `json:"mean_abs_error"`
	AbsLog   float64 `json:"mean_abs_log_error"`
	Bias     float64 `json:"bias"`
	Covered  float64 `json:"covered"` // share of jobs below the 95 % bound
	Safe     int     `json:"safe"`    // pairs that are safe
	Called   int     `json:"called"`  // pairs that are called safe: both bounds below the limit
	Right    int     `json:"right"`   // pairs that are called safe and are safe
	Hopeful  int     `json:"hopeful"` // pairs that would be called safe by their means
	Kept     int     `json:"kept"`    // ... and are safe
	// Faster counts the pairs called safe in which a job was measured to be faster
	// together than alone by as much as the limit. Sharing cannot do that: it shows
	// how often measurement noise would make a pair look unsafe.
	Faster int `json:"faster"`
}

// Precision is the fraction of the pairs called safe that are safe; NaN if none is
// called safe.
func (s Score) Precision() float64 { return float64(s.Right) / float64(s.Called) }

// Recall is the fraction of the safe pairs that are called safe.
func (s Score) Recall() float64 { return float64(s.Right) / float64(s.Safe) }

// Guess is a prediction for a job of a pair that its fit had not seen.
type Guess struct {
	Own, Other interfere.Load // what was predicted from
	Measured   float64
	interfere.Estimate
}

// Evaluate compares methods on the pairs of one mode, and returns the guesses of
// the first, two for each pair.
func Evaluate(pairs []Pair, split Split, o Options) ([]Score, []Guess, error) {
	if o.Limit == 0 {
		o.Limit = interfere.DefaultLimit
	}
	if o.Folds == 0 {
		o.Folds = 8
	}
	if len(pairs) == 0 {
		return nil, nil, fmt.Errorf("evaluate interference: no pairs")
	}
	parts := folds(pairs, split, o)
	var scores []Score
	var first []Guess
	for _, m := range methods() {
		if o.OursOnly && first != nil {
			break
		}
		guesses := make([]Guess, 2*len(pairs))
		for _, part := range parts {
			predict, err := m.fit(part.train)
			if err != nil {
				return nil, nil, fmt.Errorf("%s, %d pairs held out: %w", m.name, len(part.test), err)
			}
			for _, i := range part.test {
				a, b := pairs[i].Sides[0], pairs[i].Sides[1]
				x, y := o.load(pairs[i], a), o.load(pairs[i], b)
				guesses[2*i] = Guess{x, y, a.Slowdown, predict(x, y)}
				guesses[2*i+1] = Guess{y, x, b.Slowdown, predict(y, x)}
			}
		}
		score := judge(guesses, o.Limit)
		score.Mode, score.Method, score.Split = pairs[0].Mode.String(), m.name, split
		scores = append(scores, score)
		if first == nil {
			first = guesses
		}
	}
	return scores, first, nil
}

// load returns what the predictor is told about a job.
func (o Options) load(p Pair, s Side) interfere.Load {
	if l, ok := o.Loads[s.Key]; ok {
		return p.onHost(l)
	}
	return s.Load
}

// part is a set of test pairs, and those that may be used to predict them.
type part struct {
	test  []int // indices
	train []Pair
}

func folds(pairs []Pair, split Split, o Options) []part {
	rng := rand.New(rand.NewPCG(o.Seed, 0))
	if split == InFit {
		return []part{{test: rng.Perm(len(pairs)), train: pairs}}
	}
	if split == ByPair {
		order := rng.Perm(len(pairs))
		n := min(o.Folds, len(pairs))
		out := make([]part, n)
		for at, i := range order {
			for f := range out {
				if f == at%n {
					out[f].test = append(out[f].test, i)
				} else {
					out[f].train = append(out[f].train, pairs[i])
				}
			}
		}
		return out
	}
	var models []string
	for _, p := range pairs {
		models = append(models, p.Sides[0].Model, p.Sides[1].Model)
	}
	slices.Sort(models)
	models = slices.Compact(models)
	fold := map[string]int{}
	for at, i := range rng.Perm(len(models)) {
		fold[models[i]] = at % o.Folds
	}
	var out []part
	for f := range o.Folds {
		for g := f; g < o.Folds; g++ {
			var p part
			for i, pair := range pairs {
				a, b := fold[pair.Sides[0].Model], fold[pair.Sides[1].Model]
				switch {
				case min(a, b) == f && max(a, b) == g:
					p.test = append(p.test, i)
				case a != f && a != g && b != f && b != g:
					p.train = append(p.train, pair)
				}
			}
			if len(p.test) > 0 {
				out = append(out, p)
			}
		}
	}
	return out
}

// judge compares predictions, two for each pair, with the measurements.
func judge(all []Guess, limit float64) Score {
	s := Score{Pairs: len(all) / 2}
	n := float64(len(all))
	for _, g := range all {
		off := math.Log(g.Measured / g.Mean)
		s.AbsError += math.Abs(g.Measured-g.Mean) / n
		s.AbsLog += math.Abs(off) / n
		s.Bias += off / n
		if g.Measured <= g.High {
			s.Covered += 1 / n
		}
	}
	for i := 0; i < len(all); i += 2 {
		a, b := all[i], all[i+1]
		safe := a.Measured < limit && b.Measured < limit
		called := a.High < limit && b.High < limit
		hopeful := a.Mean < limit && b.Mean < limit
		s.Safe += count(safe)
		s.Called += count(called)
		s.Right += count(safe && called)
		s.Hopeful += count(hopeful)
		s.Faster += count(called && min(a.Measured, b.Measured) < 1/limit)
		s.Kept += count(safe && hopeful)
	}
	return s
}

func count(yes bool) int {
	if yes {
		return 1
	}
	return 0
}
