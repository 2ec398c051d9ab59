// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package tune

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/fairway-gpu/fairway/tune/search"
)

// Method names a source of trials.
type Method string

// The methods.
const (
	Random Method = "random"
	Grid   Method = "grid"
	TPE    Method = "tpe"
)

// Methods returns all methods.
func Methods() []Method { return []Method{Random, Grid, TPE} }

// Outcome is the result of a trial.
type Outcome struct {
	Params search.Params
	Value  float64 // of the metric
}

// Source chooses the hyper-parameters of trials. It is stateless too: the same number
// and outcomes give the same trial.
type Source interface {
	// Next returns the parameters of the trial with a number, from 0; ok is false
	// if there is no such trial.
	Next(number int, seen []Outcome) (p search.Params, ok bool)
}

// SourceConfig is the input of NewSource.
type SourceConfig struct {
	Method Method
	Space  search.Space
	Goal   Goal
	Seed   uint64
	Trials int // of the search: TPE draws a part of them at random
	// Steps is the number of values that Grid tries for each dimension with a range;
	// 0, or none: 3. A range of whole numbers has no more values than it contains.
	Steps []int
}

// NewSource returns a source.
func NewSource(c SourceConfig) (Source, error) {
	if err := c.Space.Validate(); err != nil {
		return nil, err
	}
	switch c.Method {
	case Random:
		return random{c.Space, c.Seed}, nil
	case Grid:
		return newGrid(c), nil
	case TPE:
		return tpe{c, min(20, max(2, c.Trials/3))}, nil
	}
	return nil, fmt.Errorf("method = %.20q; want one of %v", c.Method, Methods())
}

// trialStream separates the random numbers of sources from others of the same seed.
const trialStream = 0x747269616c << 20

type random struct {
	space search.Space
	seed  uint64
}

func (r random) Next(number int, _ []Outcome) (search.Params, bool) {
	return r.space.Random(rand.New(rand.NewPCG(r.seed, trialStream+uint64(number)))), true
}

// grid tries every combination, the last dimension changing fastest.
type grid [][]float64 // values of each dimension

func newGrid(c SourceConfig) grid {
	g := make(grid, len(c.Space))
	for i, d := range c.Space {
		steps := 3
		if i < len(c.Steps) && c.Steps[i] > 0 {
			steps = c.Steps[i]
		}
		g[i] = gridValues(d, steps)
	}
	return g
}

func gridValues(d search.Dimension, steps int) []float64 {
	var out []float64
	if d.Kind == search.Choice {
		for i := range d.Choices {
			out = append(out, float64(i))
		}
		return out
	}
	for i := range steps {
		part := 0.5
		if steps > 1 {
			part = float64(i) / float64(steps-1)
		}
		x := d.Low + part*(d.High-d.Low)
		switch d.Kind {
		case search.LogFloat:
			x = math.Exp(math.Log(d.Low) + part*(math.Log(d.High)-math.Log(d.Low)))
		case search.Int:
			x = math.Round(x)
		}
		out = append(out, min(max(x, d.Low), d.High))
	}
	return slices.Compact(out)
}

// GridSize returns the number of trials of a grid, or most if it has more.
func GridSize(c SourceConfig, most int) int {
	n := 1
	for _, values := range newGrid(c) {
		if n *= len(values); n >= most {
			return most
		}
	}
	return n
}

func (g grid) Next(number int, _ []Outcome) (search.Params, bool) {
	p := make(search.Params, len(g))
	for i, values := range slices.Backward(g) {
		p[i] = values[number%len(values)]
		number /= len(values)
	}
	return p, number == 0
}

// tpe builds a new search.TPE for each trial.
type tpe struct {
	c       SourceConfig
	startup int // trials that are drawn at random
}

func (t tpe) Next(number int, seen []Outcome) (search.Params, bool) {
	random := random{t.c.Space, t.c.Seed}
	if number < t.startup {
		return random.Next(number, nil)
	}
	config := search.Default(t.c.Seed ^ uint64(number)<<32)
	config.Startup = 1
	s, err := search.New(t.c.Space, config)
	if err != nil {
		return random.Next(number, nil) // unreachable: the space was checked
	}
	for _, o := range seen {
		value := o.Value
		if t.c.Goal == Maximise {
			value = -value
		}
		_ = s.Observe(o.Params, value) // invalid outcomes are ignored
	}
	s.Suggest() // skip the one drawn at random
	return s.Suggest(), true
}
