// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package search

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
)

// Kind is the kind of values of a parameter.
type Kind uint8

// The kinds of parameter.
const (
	Float    Kind = iota // any number from Low to High
	LogFloat             // the same, on a logarithmic scale; Low > 0
	Int                  // whole numbers from Low to High
	Choice               // one of Choices
)

// Dimension is one hyper-parameter.
type Dimension struct {
	Name      string
	Kind      Kind
	Low, High float64
	Choices   []string
}

// Space is the space to search.
type Space []Dimension

// Params is a point of a space: a value for each of its dimensions, in order.
// The value of a Choice is its index in Choices.
type Params []float64

// Validate reports the first invalid dimension.
func (s Space) Validate() error {
	if len(s) == 0 {
		return fmt.Errorf("space: no dimensions; want at least one")
	}
	for i, d := range s {
		if err := d.validate(); err != nil {
			return fmt.Errorf("dimension %d (%s): %w", i, d.Name, err)
		}
	}
	return nil
}

func (d Dimension) validate() error {
	finite := func(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }
	switch {
	case d.Name == "":
		return fmt.Errorf("name is empty; want a name")
	case d.Kind > Choice:
		return fmt.Errorf("kind = %d; want 0 (float) to %d (choice)", d.Kind, Choice)
	case d.Kind == Choice && len(d.Choices) < 2:
		return fmt.Errorf("choices = %q; want two or more", d.Choices)
	case d.Kind == Choice:
		return nil
	case !finite(d.Low) || !finite(d.High) || d.Low >= d.High:
		return fmt.Errorf("low = %g, high = %g; want low below high", d.Low, d.High)
	case d.Kind == LogFloat && d.Low <= 0:
		return fmt.Errorf("low = %g; want a positive number, because the search uses its logarithm", d.Low)
	case d.Kind == Int && (d.Low != math.Trunc(d.Low) || d.High != math.Trunc(d.High)):
		return fmt.Errorf("low = %g, high = %g; want whole numbers", d.Low, d.High)
	}
	return nil
}

// Contains reports whether p is a point of the space.
func (s Space) Contains(p Params) bool {
	if len(p) != len(s) {
		return false
	}
	for i, d := range s {
		low, high := d.Low, d.High
		if d.Kind == Choice {
			low, high = 0, float64(len(d.Choices)-1)
		}
		if !(p[i] >= low && p[i] <= high) || (d.Kind >= Int && p[i] != math.Trunc(p[i])) {
			return false
		}
	}
	return true
}

// Text prints a point: "lr=0.1 momentum=0.9".
func (s Space) Text(p Params) string {
	parts := make([]string, len(s))
	for i, d := range s {
		value := strconv.FormatFloat(p[i], 'g', 4, 64)
		if d.Kind == Choice {
			value = d.Choices[int(p[i])]
		}
		parts[i] = d.Name + "=" + value
	}
	return strings.Join(parts, " ")
}

// Random draws a point: uniform in every dimension, on a logarithmic scale for
// LogFloat.
func (s Space) Random(r *rand.Rand) Params {
	p := make(Params, len(s))
	for i, d := range s {
		if d.Kind == Choice {
			p[i] = float64(r.IntN(len(d.Choices)))
			continue
		}
		low, high := d.bounds()
		p[i] = d.value(low + (high-low)*r.Float64())
	}
	return p
}

// bounds returns the range of a dimension that is not a Choice, on the scale of the
// search. The range of whole numbers has a margin of one half, so that each of them
// has the same share of it.
func (d Dimension) bounds() (low, high float64) {
	switch d.Kind {
	case LogFloat:
		return math.Log(d.Low), math.Log(d.High)
	case Int:
		return d.Low - 0.5, d.High + 0.5
	}
	return d.Low, d.High
}

// value converts a number on the scale of the search into a value.
func (d Dimension) value(x float64) float64 {
	switch d.Kind {
	case LogFloat:
		x = math.Exp(x)
	case Int:
		x = math.Round(x)
	}
	return min(max(x, d.Low), d.High)
}

// scaled is the inverse of value.
func (d Dimension) scaled(v float64) float64 {
	if d.Kind == LogFloat {
		return math.Log(v)
	}
	return v
}
