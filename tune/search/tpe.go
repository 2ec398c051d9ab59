// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package search

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
)

// Config is the configuration of a TPE.
type Config struct {
	Seed       uint64
	Startup    int     // trials drawn at random before the first estimate
	Gamma      float64 // share of the trials that count as good
	MostGood   int     // most trials that count as good
	Candidates int     // drawn for each suggestion
}

// Default returns the usual constants.
func Default(seed uint64) Config {
	return Config{Seed: seed, Startup: 20, Gamma: 0.25, MostGood: 25, Candidates: 24}
}

func (c Config) validate() error {
	switch {
	case c.Startup < 1:
		return fmt.Errorf("startup = %d; want 1 trial or more", c.Startup)
	case !(c.Gamma > 0 && c.Gamma < 1):
		return fmt.Errorf("gamma = %g; want above 0 and below 1", c.Gamma)
	case c.MostGood < 1:
		return fmt.Errorf("most good = %d; want 1 or more", c.MostGood)
	case c.Candidates < 1:
		return fmt.Errorf("candidates = %d; want 1 or more", c.Candidates)
	}
	return nil
}

// TPE suggests hyper-parameters; see the package comment.
type TPE struct {
	space     Space
	c         Config
	rand      *rand.Rand
	suggested int
	observed  []observation // by loss, then by order
}

type observation struct {
	params Params
	loss   float64
}

// stream separates the random numbers of a search from others of the same seed.
const stream = 0x747065

// New returns a search of a space.
func New(s Space, c Config) (*TPE, error) {
	if err := s.Validate(); err != nil {
		return nil, fmt.Errorf("search: %w", err)
	}
	if err := c.validate(); err != nil {
		return nil, fmt.Errorf("search: %w", err)
	}
	return &TPE{space: s, c: c, rand: rand.New(rand.NewPCG(c.Seed, stream))}, nil
}

// Suggest returns the parameters of the next trial.
func (t *TPE) Suggest() Params {
	t.suggested++
	if t.suggested <= t.c.Startup || len(t.observed) < 2 {
		return t.space.Random(t.rand)
	}
	good := min(t.c.MostGood, int(math.Ceil(t.c.Gamma*float64(len(t.observed)))))
	p := make(Params, len(t.space))
	for i, d := range t.space {
		l, g := d.estimate(column(t.observed[:good], i)), d.estimate(column(t.observed[good:], i))
		best := math.Inf(-1)
		for range t.c.Candidates {
			v := l.draw(t.rand)
			if score := l.log(v) - g.log(v); score > best {
				p[i], best = v, score
			}
		}
	}
	return p
}

func column(o []observation, i int) []float64 {
	out := make([]float64, len(o))
	for k := range o {
		out[k] = o[k].params[i]
	}
	return out
}

// Observe adds the outcome of a trial. Smaller losses are better.
func (t *TPE) Observe(p Params, loss float64) error {
	if !t.space.Contains(p) {
		return fmt.Errorf("observe %v: not a point of the space", p)
	}
	if math.IsNaN(loss) {
		return fmt.Errorf("observe %s: loss = %g; want a number", t.space.Text(p), loss)
	}
	at, _ := slices.BinarySearchFunc(t.observed, loss, func(o observation, loss float64) int {
		if o.loss == loss {
			return -1 // after equal ones
		}
		return cmp.Compare(o.loss, loss)
	})
	t.observed = slices.Insert(t.observed, at, observation{slices.Clone(p), loss})
	return nil
}

// Best returns the best trial observed; ok is false if there is none.
func (t *TPE) Best() (p Params, loss float64, ok bool) {
	if len(t.observed) == 0 {
		return nil, 0, false
	}
	return slices.Clone(t.observed[0].params), t.observed[0].loss, true
}
