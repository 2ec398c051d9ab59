// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package tune

import "math"

// shape is a family of learning curves with a given steepness: the value is a +
// b*at(x), where x is the completed share of the training.
type shape struct {
	family    family
	steepness float64
}

type family uint8

const (
	power       family = iota // x^-c
	exponential               // e^(-c x)
	hyperbolic                // 1/(x + c)
	logarithmic               // -log x
)

// shapes is the grid of curves to fit.
var shapes = []shape{
	{power, 0.25}, {power, 0.5}, {power, 1}, {power, 2},
	{exponential, 1}, {exponential, 2}, {exponential, 4}, {exponential, 8}, {exponential, 16}, {exponential, 32},
	{hyperbolic, 0.03}, {hyperbolic, 0.1}, {hyperbolic, 0.3}, {hyperbolic, 1},
	{logarithmic, 0},
}

// earliest avoids powers and logarithms of 0.
const earliest = 1e-6

func (s shape) at(x float64) float64 {
	x = max(x, earliest)
	switch s.family {
	case power:
		return math.Pow(x, -s.steepness)
	case exponential:
		return math.Exp(-s.steepness * x)
	case hyperbolic:
		return 1 / (x + s.steepness)
	}
	return -math.Log(x)
}

// fit is one curve fitted to readings by least squares.
type fit struct {
	shape
	a, b     float64
	variance float64 // of the readings around it
	n        float64
	mean     float64 // of at(x)
	spread   float64 // sum of squares around that mean
	weight   float64 // its likelihood among all fits
}

// forecast combines the fits.
type forecast []fit

// leastReadings is the number of readings that a forecast needs: every curve fits
// fewer of them exactly.
const leastReadings = 5

// extrapolate fits all shapes to readings; whole is the total number of iterations.
// It returns nil if there are too few readings.
func extrapolate(curve []Reading, whole float64) forecast {
	if len(curve) < leastReadings || !(whole > 0) {
		return nil
	}
	low, high := math.Inf(1), math.Inf(-1)
	for _, r := range curve {
		low, high = min(low, r.Value), max(high, r.Value)
	}
	// No metric is exact: a part of the range keeps a perfect fit from being certain.
	floor := math.Pow(1e-3*(high-low)+1e-9*max(math.Abs(low), math.Abs(high))+1e-300, 2)
	out := make(forecast, 0, len(shapes))
	best := math.Inf(-1)
	for _, s := range shapes {
		f, ok := fitShape(s, curve, whole)
		if !ok {
			continue
		}
		f.variance = max(f.variance, floor)
		f.weight = -f.n / 2 * math.Log(f.variance)
		best = max(best, f.weight)
		out = append(out, f)
	}
	sum := 0.0
	for i := range out {
		out[i].weight = math.Exp(out[i].weight - best)
		sum += out[i].weight
	}
	for i := range out {
		out[i].weight /= sum
	}
	if !(sum > 0) || !finite(sum) {
		return nil
	}
	return out
}

func fitShape(s shape, curve []Reading, whole float64) (fit, bool) {
	f := fit{shape: s, n: float64(len(curve))}
	meanY := 0.0
	for _, r := range curve {
		f.mean += s.at(r.Done/whole) / f.n
		meanY += r.Value / f.n
	}
	cross := 0.0
	for _, r := range curve {
		d := s.at(r.Done/whole) - f.mean
		f.spread += d * d
		cross += d * (r.Value - meanY)
	}
	if !(f.spread > 0) {
		return f, false
	}
	f.b = cross / f.spread
	f.a = meanY - f.b*f.mean
	for _, r := range curve {
		e := r.Value - f.a - f.b*s.at(r.Done/whole)
		f.variance += e * e / (f.n - 2)
	}
	return f, finite(f.a) && finite(f.b) && finite(f.variance)
}

// below returns the probability that the value is at most y when the share x of the
// training is complete.
func (fs forecast) below(y, x float64) float64 {
	p := 0.0
	for _, f := range fs {
		d := f.at(x) - f.mean
		sd := math.Sqrt(f.variance * (1 + 1/f.n + d*d/f.spread))
		p += f.weight * math.Erfc((f.a+f.b*f.at(x)-y)/sd/math.Sqrt2) / 2
	}
	if math.IsNaN(p) {
		return 0
	}
	return min(1, p)
}

// value returns the expected value when the share x of the training is complete.
func (fs forecast) value(x float64) float64 {
	y := 0.0
	for _, f := range fs {
		y += f.weight * (f.a + f.b*f.at(x))
	}
	return y
}

// when returns the share of the training at which the value is expected to be y
// or less; 1 if it never is.
func (fs forecast) when(y, from float64) float64 {
	const steps = 64
	for i := range steps {
		if x := from + (1-from)*float64(i)/steps; fs.value(x) <= y {
			return x
		}
	}
	return 1
}
