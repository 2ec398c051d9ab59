// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package search

import (
	"fmt"
	"math"
	"slices"
	"strconv"
)

// Table is a problem whose trials were all trained before: the learning curve of every
// point that was measured.
type Table struct {
	space  Space
	length int
	rows   []row
}

type row struct {
	params Params
	pace   float64
	curve  []float64 // quality by epoch
}

// Dimensions implements Problem.
func (t *Table) Dimensions() Space { return t.space }

// Length implements Problem.
func (t *Table) Length() int { return t.length }

// Rows returns the number of points.
func (t *Table) Rows() int { return len(t.rows) }

// Best returns the best quality that any trial of the table reaches.
func (t *Table) Best() float64 {
	best := math.Inf(-1)
	for _, r := range t.rows {
		best = max(best, slices.Max(r.curve))
	}
	return best
}

// Open implements Problem: the trial with a point is that of the nearest row which the
// search has not had yet.
func (t *Table) Open(uint64) func(Params) Trial {
	had := make([]bool, len(t.rows))
	left := len(t.rows)
	return func(p Params) Trial {
		if left == 0 { // all have been tried
			clear(had)
			left = len(t.rows)
		}
		at, least := -1, math.Inf(1)
		for i := range t.rows {
			if d := t.space.distance(p, t.rows[i].params); !had[i] && (at < 0 || d < least) {
				at, least = i, d
			}
		}
		had[at] = true
		left--
		r := &t.rows[at]
		return Trial{Params: r.params, Pace: r.pace, Quality: func(epoch int) float64 { return r.curve[min(max(epoch, 1), len(r.curve))-1] }}
	}
}

// distance returns how far two points are apart: each dimension counts by its range.
func (s Space) distance(a, b Params) float64 {
	sum := 0.0
	for i, d := range s {
		if d.Kind == Choice {
			if a[i] != b[i] {
				sum++
			}
			continue
		}
		low, high := d.bounds()
		x := (d.scaled(a[i]) - d.scaled(b[i])) / (high - low)
		sum += x * x
	}
	return sum
}

// Entry is one measured trial, as a file has it.
type Entry struct {
	Values  []string  // of the hyper-parameters
	Seconds float64   // of an epoch; 0: not measured
	Curve   []float64 // quality by epoch, in percent; more is better
}

// The ratio of the largest to the smallest value from which a range is searched on a
// logarithmic scale.
const logRatio = 50

// NewTable returns the table of measured trials, whose space it finds. Columns with one
// value are left out.
func NewTable(columns []string, entries []Entry) (*Table, error) {
	if len(entries) == 0 {
		return nil, fmt.Errorf("no trials; want at least one")
	}
	t := &Table{length: len(entries[0].Curve), rows: make([]row, len(entries))}
	mean, n := 0.0, 0.0
	for i, e := range entries {
		if len(e.Curve) != t.length || t.length == 0 {
			return nil, fmt.Errorf("trial %d has %d epochs; want %d as the first, and at least one", i+1, len(e.Curve), t.length)
		}
		t.rows[i].curve = e.Curve
		if e.Seconds > 0 {
			mean += e.Seconds
			n++
		}
	}
	for i, e := range entries {
		t.rows[i].pace = 1
		if e.Seconds > 0 {
			t.rows[i].pace = e.Seconds / (mean / n)
		}
	}
	for c, name := range columns {
		texts := make([]string, len(entries))
		for i, e := range entries {
			texts[i] = e.Values[c]
		}
		d, values := dimensionOf(name, texts)
		if len(values) == 0 {
			continue
		}
		t.space = append(t.space, d)
		for i := range t.rows {
			t.rows[i].params = append(t.rows[i].params, values[i])
		}
	}
	return t, t.space.Validate()
}

// dimensionOf returns the dimension of a column and its values; none if they are all
// the same.
func dimensionOf(name string, texts []string) (Dimension, []float64) {
	d := Dimension{Name: name, Kind: Int, Low: math.Inf(1), High: math.Inf(-1)}
	values := make([]float64, len(texts))
	numbers := true
	for i, text := range texts {
		v, err := strconv.ParseFloat(text, 64)
		if err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
			numbers = false
			break
		}
		values[i], d.Low, d.High = v, min(d.Low, v), max(d.High, v)
		if v != math.Trunc(v) {
			d.Kind = Float
		}
	}
	if !numbers {
		d = Dimension{Name: name, Kind: Choice, Choices: slices.Compact(slices.Sorted(slices.Values(texts)))}
		for i, text := range texts {
			values[i] = float64(slices.Index(d.Choices, text))
		}
		if len(d.Choices) < 2 {
			return d, nil
		}
		return d, values
	}
	if d.Low == d.High {
		return d, nil
	}
	if d.Low > 0 && d.High/d.Low >= logRatio {
		d.Kind = LogFloat
	}
	return d, values
}
