// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package search

import (
	"math"
	"math/rand/v2"
	"slices"
	"sort"
)

// density estimates the distribution of observations along one dimension.
type density interface {
	draw(*rand.Rand) float64   // a value
	log(value float64) float64 // of the density there, up to a constant that all densities of the dimension share
}

// estimate returns the density of the observed values.
func (d Dimension) estimate(values []float64) density {
	if d.Kind == Choice {
		return newCounts(values, len(d.Choices))
	}
	return newMixture(d, values)
}

// mixture is a Parzen estimate: equal parts of normal distributions, truncated at the
// bounds of the dimension.
type mixture struct {
	d         Dimension
	low, high float64
	mean, sd  []float64 // ascending in mean
	within    []float64 // mass of each within the bounds
}

// narrowest is the least width of a normal distribution, as a share of the range: it
// avoids spikes where many observations are close together.
const narrowest = 1.0 / 100

func newMixture(d Dimension, values []float64) *mixture {
	low, high := d.bounds()
	m := &mixture{d: d, low: low, high: high}
	span := high - low
	for _, v := range values {
		m.mean = append(m.mean, d.scaled(v))
	}
	slices.Sort(m.mean)
	// The prior: as wide as the range, in its middle.
	middle := (low + high) / 2
	prior := sort.SearchFloat64s(m.mean, middle)
	m.mean = slices.Insert(m.mean, prior, middle)
	least := span * max(narrowest, 1/float64(1+len(m.mean)))
	for i, mean := range m.mean {
		left, right := low, high
		if i > 0 {
			left = m.mean[i-1]
		}
		if i+1 < len(m.mean) {
			right = m.mean[i+1]
		}
		sd := min(span, max(least, mean-left, right-mean))
		if i == prior {
			sd = span
		}
		m.sd = append(m.sd, sd)
		m.within = append(m.within, mass(mean, sd, low, high))
	}
	return m
}

func (m *mixture) draw(r *rand.Rand) float64 {
	i := r.IntN(len(m.mean))
	for {
		if x := m.mean[i] + m.sd[i]*r.NormFloat64(); x >= m.low && x <= m.high {
			return m.d.value(x)
		}
	}
}

func (m *mixture) log(value float64) float64 {
	x := m.d.scaled(value)
	sum := 0.0
	for i, mean := range m.mean {
		if m.d.Kind == Int {
			sum += mass(mean, m.sd[i], x-0.5, x+0.5) / m.within[i]
			continue
		}
		z := (x - mean) / m.sd[i]
		sum += math.Exp(-z*z/2) / (m.sd[i] * m.within[i])
	}
	return math.Log(sum / float64(len(m.mean)))
}

// mass returns the part of a normal distribution between two points.
func mass(mean, sd, low, high float64) float64 {
	cdf := func(x float64) float64 { return 0.5 * math.Erfc((mean-x)/(sd*math.Sqrt2)) }
	return cdf(high) - cdf(low)
}

// counts is the estimate for a choice: the count of each value plus one.
type counts []float64 // shares

func newCounts(values []float64, choices int) counts {
	c := make(counts, choices)
	for i := range c {
		c[i] = 1
	}
	for _, v := range values {
		c[int(v)]++
	}
	for i := range c {
		c[i] /= float64(len(values) + choices)
	}
	return c
}

func (c counts) draw(r *rand.Rand) float64 {
	u := r.Float64()
	for i, share := range c {
		if u -= share; u < 0 {
			return float64(i)
		}
	}
	return float64(len(c) - 1)
}

func (c counts) log(value float64) float64 { return math.Log(c[int(value)]) }
