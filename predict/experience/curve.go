// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package experience

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// Cells is the number of equal parts of training in which the noise scale is
// averaged.
const Cells = 20

// Bounds of the noise scale, in examples: below the least a larger batch gains
// nothing, above the most it loses nothing.
const (
	leastNoise = 1e-3
	mostNoise  = 1e12
)

// Curve is the gradient noise scale over the course of training: a point for
// each cell in which it was measured, in order of cells. The zero value is an
// empty curve.
type Curve []Point

// Point is the noise scale in one cell.
type Point struct {
	Cell  int     `json:"cell"`  // training from Cell/Cells to (Cell+1)/Cells
	Noise float64 `json:"noise"` // geometric mean, in examples
	// Count is the number of measurements in the mean; in a record, of jobs.
	Count float64 `json:"count"`
}

// Add adds a measurement to the mean of its cell. frac is the completed part of the
// training, from 0 to 1. noise is in examples, 0 or more, including +Inf.
func (c *Curve) Add(frac, noise float64) error {
	switch {
	case !(frac >= 0 && frac <= 1):
		return fmt.Errorf("add noise: frac = %g; want 0 to 1", frac)
	case !(noise >= 0):
		return fmt.Errorf("add noise: noise = %g; want 0 or more", noise)
	}
	c.add(Point{Cell: min(int(frac*Cells), Cells-1), Noise: clip(noise), Count: 1})
	return nil
}

func (c *Curve) add(p Point) {
	i, found := slices.BinarySearchFunc(*c, p, func(a, b Point) int { return cmp.Compare(a.Cell, b.Cell) })
	if !found {
		*c = slices.Insert(*c, i, p)
		return
	}
	old := &(*c)[i]
	old.Count += p.Count
	old.Noise = clip(old.Noise * math.Pow(p.Noise/old.Noise, p.Count/old.Count))
}

func clip(noise float64) float64 { return min(max(noise, leastNoise), mostNoise) }

// At returns the noise scale at a point of training: interpolated linearly in its
// logarithm between the middles of the cells, and constant before the first measured
// cell. After the last one it is unknown, and ok is false, because past jobs did not
// get there.
func (c Curve) At(frac float64) (noise float64, ok bool) {
	if len(c) == 0 || !(frac >= 0 && frac <= 1) {
		return 0, false
	}
	x := frac*Cells - 0.5
	i := slices.IndexFunc(c, func(p Point) bool { return float64(p.Cell) >= x })
	switch {
	case i == 0:
		return c[0].Noise, true
	case i < 0:
		last := c[len(c)-1]
		return last.Noise, x <= float64(last.Cell)+0.5
	}
	a, b := c[i-1], c[i]
	share := (x - float64(a.Cell)) / float64(b.Cell-a.Cell)
	return a.Noise * math.Pow(b.Noise/a.Noise, share), true
}

// with returns the curve with one more job.
func (c Curve) with(job Curve) Curve {
	next := slices.Clone(c)
	for _, p := range job {
		p.Count = 1
		next.add(p)
	}
	for i := range next {
		next[i].Count = min(next[i].Count, memory)
	}
	return next
}

// validate reports the first point of the curve of a record that is out of
// range.
func (c Curve) validate() error {
	for i, p := range c {
		switch {
		case p.Cell < 0 || p.Cell >= Cells:
			return fmt.Errorf("noise[%d]: cell = %d; want 0 to %d", i, p.Cell, Cells-1)
		case i > 0 && p.Cell <= c[i-1].Cell:
			return fmt.Errorf("noise[%d]: cell = %d after cell %d; want ascending cells", i, p.Cell, c[i-1].Cell)
		case !(p.Noise >= leastNoise && p.Noise <= mostNoise):
			return fmt.Errorf("noise[%d]: noise = %g; want %g to %g examples", i, p.Noise, leastNoise, mostNoise)
		case !(p.Count > 0 && p.Count <= memory):
			return fmt.Errorf("noise[%d]: count = %g; want more than 0 and at most %d", i, p.Count, memory)
		}
	}
	return nil
}
