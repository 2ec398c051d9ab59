// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package experience

import (
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

// Basis is what the expected run time of a job is based on.
type Basis int

// The kinds of basis, best first.
const (
	Nothing   Basis = iota // no job has ended yet
	Estimated              // its user's estimate
	Similar                // the run times of similar jobs that have ended
	Anything               // the run times of all jobs that have ended
	bases
)

// Lengths stores how long jobs ran and how far that was from what was expected, to draw
// the run time of another. The zero value is empty.
type Lengths struct {
	times  RunTimes
	ratios [bases][]float64 // run time over the expected one; Anything: seconds; newest last
}

// keepRatios bounds what is stored of each kind: the newest.
const keepRatios = 1000

// Learn adds a job that has ended: what its user had estimated (0: nothing), and how
// long it ran.
func (l *Lengths) Learn(k JobKey, estimate, ran time.Duration) {
	if ran <= 0 {
		return
	}
	add := func(b Basis, ratio float64) {
		l.ratios[b] = append(l.ratios[b], ratio)
		if n := len(l.ratios[b]); n >= 2*keepRatios {
			l.ratios[b] = slices.Clone(l.ratios[b][n-keepRatios:])
		}
	}
	if estimate > 0 {
		add(Estimated, ran.Seconds()/estimate.Seconds())
	}
	if similar := l.times.Estimate(k); similar > 0 {
		add(Similar, ran.Seconds()/similar.Seconds())
	}
	add(Anything, ran.Seconds())
	l.times.Learn(k, ran)
}

// Expect returns the expected run time of a job, and what it is based on.
func (l *Lengths) Expect(k JobKey, estimate time.Duration) (time.Duration, Basis) {
	if estimate > 0 {
		return estimate, Estimated
	}
	if similar := l.times.Estimate(k); similar > 0 {
		return similar, Similar
	}
	if all := l.ratios[Anything]; len(all) > 0 {
		sorted := slices.Sorted(slices.Values(all))
		return time.Duration(sorted[len(sorted)/2] * float64(time.Second)), Anything
	}
	return 0, Nothing
}

// Draw draws a run time of a job that has already run for a time, from how far
// expectations of the same basis were off before.
func (l *Lengths) Draw(k JobKey, estimate, ran time.Duration, r *rand.Rand) (time.Duration, Basis) {
	expected, basis := l.Expect(k, estimate)
	if basis == Nothing {
		return 0, basis
	}
	ratios, unit := l.ratios[basis], expected.Seconds()
	if basis == Anything {
		unit = 1
	}
	var total float64
	least := ran.Seconds() / unit
	for range tries {
		// With few jobs behind it, experience is not trusted alone.
		if n := float64(len(ratios)); r.Float64()*(n+prior) < n {
			total = ratios[r.IntN(len(ratios))] * math.Exp(smooth*r.NormFloat64())
		} else {
			total = expected.Seconds() / unit * math.Exp(spreadOf[basis]*r.NormFloat64())
		}
		if total > least {
			return time.Duration(total * unit * float64(time.Second)), basis
		}
	}
	// It has run longer than nearly all others: the longer it has, the longer it will.
	return time.Duration(ran.Seconds() * math.Pow(1-r.Float64(), -1/tail) * float64(time.Second)), basis
}

const (
	tries  = 100
	prior  = 5   // what is assumed weighs as much as so many jobs
	smooth = 0.1 // run times differ a little from those seen before
	tail   = 1.5 // exponent of the power law
)

// spreadOf is the standard deviation of the logarithm of run time over expectation
// that is assumed before any is known.
var spreadOf = [bases]float64{Estimated: 0.5, Similar: 0.7, Anything: 1.2}
