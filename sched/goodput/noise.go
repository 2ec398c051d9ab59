// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package goodput

import "math"

// Noise is what is known of the gradient of a job: the square of its length,
// and the variance of its estimate from one batch of the initial size, both in
// the same unit.
type Noise struct {
	Sqr float64 `json:"sqr"`
	Var float64 `json:"var"`
}

// Scale returns the gradient noise scale in examples (equation 5). Where no
// gradient can be seen in the noise, it is the largest float64 rather than
// infinite, so that it can be written as JSON.
func (n Noise) Scale(initial int) float64 {
	if n.Var == 0 {
		return 0
	}
	return min(float64(initial)*(n.Var/n.Sqr), math.MaxFloat64)
}

// leastVar is the smallest variance that Estimator.Noise returns.
const leastVar = 1e-6

// memory is the weight that an average keeps over one batch of the initial
// size. A larger batch counts as several.
const memory = 0.999

// Estimator estimates the noise of a gradient from the squared lengths of
// gradients over parts of a batch, smoothed over time. The zero value has seen
// nothing. All of its state is exported: it lives on in a job's checkpoint.
type Estimator struct {
	// Sqr and Var are smoothed sums; divided by Weight, the equally smoothed
	// sum of ones, they are the averages.
	Sqr    float64 `json:"sqr"`
	Var    float64 `json:"var"`
	Weight float64 `json:"weight"`
	// Biased says that the last sample came from AddPair.
	Biased bool `json:"biased"`
}

// Lengths are squared lengths of the gradients that make up one batch: one for
// each replica and each accumulated gradient.
type Lengths struct {
	Local float64 // mean over the gradients of their squared length
	Total float64 // squared length of the mean of the gradients
	Count int     // number of gradients, at least 2
	Scale float64 // batch size over the initial batch size
}

// Add takes in a batch of several gradients. What was learned from AddPair is
// forgotten with the first of these. Add reports whether it could use the
// batch: gradients that are infinite or not a number are skipped, as training
// with loss scaling has them.
func (e *Estimator) Add(l Lengths) bool {
	next := *e
	if e.Biased {
		next = Estimator{}
	}
	if !next.add(l) {
		return false
	}
	*e = next
	return true
}

// AddPair takes in two successive batches of one gradient each: the squared
// lengths of the gradient before, of the one now, and of their mean. That is
// all that one GPU without accumulation can offer. The parameters moved in
// between, so the estimate is biased.
func (e *Estimator) AddPair(before, now, mean, scale float64) bool {
	next := *e
	if !next.add(Lengths{Local: before/2 + now/2, Total: mean, Count: 2, Scale: 2 * scale}) {
		return false
	}
	*e = next
	e.Biased = true
	return true
}

func (e *Estimator) add(l Lengths) bool {
	if !(l.Local >= 0 && l.Total >= 0 && l.Count >= 2 && l.Scale > 0) {
		return false
	}
	n := float64(l.Count)
	sqr := (n*l.Total - l.Local) / (n - 1)
	variance := (l.Local - l.Total) * l.Scale / (n - 1)
	if !finite(sqr) || !finite(variance) {
		return false
	}
	keep := math.Pow(memory, l.Scale)
	e.Sqr = keep*e.Sqr + (1-keep)*sqr
	e.Var = keep*e.Var + (1-keep)*variance
	e.Weight = keep*e.Weight + (1 - keep)
	return true
}

func finite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }

// Noise returns the estimate; ok is false while nothing was seen. Single
// samples may well be negative, their averages only by bad luck: Sqr is at
// least 0 and Var a little more than that.
func (e *Estimator) Noise() (n Noise, ok bool) {
	if !(e.Weight > 0) {
		return Noise{}, false
	}
	return Noise{Sqr: max(0, e.Sqr/e.Weight), Var: max(leastVar, e.Var/e.Weight)}, true
}
