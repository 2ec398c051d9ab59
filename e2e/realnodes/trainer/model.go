// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
)

// The network has one hidden layer. A step consists of partsOfStep parts, which are
// divided among the ranks.
const (
	inputs, hidden = 4, 8
	weights        = hidden*(inputs+1) + hidden + 1
	partsOfStep    = 8
	partExamples   = 16
	rate           = 0.05
	seed           = 7
)

const (
	checkpointName = "checkpoint.json"
	ledgerName     = "ledger.txt"
)

// checkpoint is the state of the training.
type checkpoint struct {
	Step    int
	Loss    float64 // of the last step
	Weights [weights]float64
}

// part is the sum of the gradients and losses of some examples.
type part struct {
	Index    int32
	Gradient [weights]float64
	Loss     float64
}

// fresh returns the state before the first step.
func fresh() checkpoint {
	var c checkpoint
	r := rand.New(rand.NewPCG(seed, 0))
	for i := range c.Weights {
		c.Weights[i] = r.NormFloat64() / 2
	}
	return c
}

// example returns one example: a point and a wavy function of it.
func example(r *rand.Rand) (x [inputs]float64, y float64) {
	for i := range x {
		x[i] = 2*r.Float64() - 1
	}
	return x, math.Sin(3*x[0]) + x[1]*x[2] - x[3]
}

// part computes one part of the next step. Its data depend only on the step and the
// part.
func (c *checkpoint) part(index int) part {
	out := part{Index: int32(index)}
	r := rand.New(rand.NewPCG(seed, uint64(1+c.Step*partsOfStep+index)))
	for range partExamples {
		x, y := example(r)
		out.add(&c.Weights, x, y)
	}
	return out
}

// add adds the gradient and the loss of one example.
func (p *part) add(w *[weights]float64, x [inputs]float64, y float64) {
	const row, second = inputs + 1, hidden * (inputs + 1)
	var h [hidden]float64
	got := w[weights-1]
	for j := range hidden {
		sum := w[j*row+inputs]
		for i := range inputs {
			sum += w[j*row+i] * x[i]
		}
		h[j] = math.Tanh(sum)
		got += w[second+j] * h[j]
	}
	off := got - y
	p.Loss += off * off
	p.Gradient[weights-1] += off
	for j := range hidden {
		p.Gradient[second+j] += off * h[j]
		back := off * w[second+j] * (1 - h[j]*h[j])
		p.Gradient[j*row+inputs] += back
		for i := range inputs {
			p.Gradient[j*row+i] += back * x[i]
		}
	}
}

// sum adds up the parts of a step, in order.
func sum(parts []part) (part, error) {
	var byIndex [partsOfStep]*part
	for i := range parts {
		at := parts[i].Index
		if at < 0 || at >= partsOfStep || byIndex[at] != nil {
			return part{}, fmt.Errorf("add up a step: part %d is there twice, or is none of it", at)
		}
		byIndex[at] = &parts[i]
	}
	var total part
	for i, p := range byIndex {
		if p == nil {
			return part{}, fmt.Errorf("add up a step: part %d is missing", i)
		}
		for k, g := range p.Gradient {
			total.Gradient[k] += g
		}
		total.Loss += p.Loss
	}
	return total, nil
}

// take makes a step.
func (c *checkpoint) take(total part) {
	const examples = partsOfStep * partExamples
	for i, g := range total.Gradient {
		c.Weights[i] -= rate * g / examples
	}
	c.Loss = total.Loss / examples
	c.Step++
}

// save replaces the saved state atomically.
func (c *checkpoint) save(folder string) error {
	text, err := json.Marshal(c) // prints numbers exactly
	if err != nil {
		return fmt.Errorf("save: %w", err)
	}
	path := filepath.Join(folder, checkpointName)
	if err := os.WriteFile(path+".new", text, 0o644); err != nil {
		return fmt.Errorf("save: %w", err)
	}
	return os.Rename(path+".new", path)
}

// load reads the last checkpoint, or returns the state before the first step.
func load(folder string) (checkpoint, error) {
	text, err := os.ReadFile(filepath.Join(folder, checkpointName))
	if errors.Is(err, fs.ErrNotExist) {
		return fresh(), nil
	}
	var c checkpoint
	if err == nil {
		err = json.Unmarshal(text, &c)
	}
	if err != nil {
		return c, fmt.Errorf("load checkpoint: %w", err)
	}
	return c, nil
}

func appendFile(folder, name, line string) error {
	f, err := os.OpenFile(filepath.Join(folder, name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("write ledger: %w", err)
	}
	defer f.Close()
	if _, err := f.WriteString(line); err != nil {
		return fmt.Errorf("write ledger: %w", err)
	}
	return nil
}
