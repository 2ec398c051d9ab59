// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package experience

import (
	"cmp"
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
	times   RunTimes
	ended   [bases][]outcome // newest last
	running [bases][]outcome
}

// outcome is how long a job ran, compared with what was expected.
type outcome struct {
	expected float64 // seconds; Anything: 1
	ratio    float64 // run time over expected
	running  bool    // so far
}

// keepRatios bounds what is stored of each kind: the newest.
const keepRatios = 1000

// Learn adds a job that has ended: what its user had estimated (0: nothing), and how
// long it ran.
func (l *Lengths) Learn(k JobKey, estimate, ran time.Duration) {
	if ran <= 0 {
		return
	}
	for b, o := range l.outcomes(k, estimate, ran) {
		if l.ended[b] = append(l.ended[b], o); len(l.ended[b]) >= 2*keepRatios {
			l.ended[b] = slices.Clone(l.ended[b][keepRatios:])
		}
	}
	l.times.Learn(k, ran)
}

// Watch adds a job that runs. Without those, the jobs that have ended would look typical,
// and long ones be missing among them.
func (l *Lengths) Watch(k JobKey, estimate, ran time.Duration) {
	for b, o := range l.outcomes(k, estimate, ran) {
		o.running = true
		l.running[b] = append(l.running[b], o)
	}
}

// outcomes returns a run time by what it is compared with.
func (l *Lengths) outcomes(k JobKey, estimate, ran time.Duration) map[Basis]outcome {
	out := map[Basis]outcome{Anything: {1, ran.Seconds(), false}}
	if estimate > 0 {
		out[Estimated] = outcome{estimate.Seconds(), ran.Seconds() / estimate.Seconds(), false}
	}
	if similar := l.times.Estimate(k).Seconds(); similar > 0 {
		out[Similar] = outcome{similar, ran.Seconds() / similar, false}
	}
	return out
}

// Expect returns the expected run time of a job, and what it is based on.
func (l *Lengths) Expect(k JobKey, estimate time.Duration) (time.Duration, Basis) {
	if estimate > 0 {
		return estimate, Estimated
	}
	if similar := l.times.Estimate(k); similar > 0 {
		return similar, Similar
	}
	if all := slices.Clone(l.ended[Anything]); len(all) > 0 {
		slices.SortFunc(all, func(a, b outcome) int { return cmp.Compare(a.ratio, b.ratio) })
		return time.Duration(all[len(all)/2].ratio * float64(time.Second)), Anything
	}
	return 0, Nothing
}

// Future returns a function that draws run times of jobs that have already run for a
// time, from how far expectations of the same basis were off before. All draws of one
// future share what nobody knows: how typical the jobs are that have ended so far (a
// bootstrap), and by how much jobs of one kind are off together.
func (l *Lengths) Future(r *rand.Rand) func(k JobKey, estimate, ran time.Duration) (time.Duration, Basis) {
	var past [bases][]outcome
	for b, all := range l.ended {
		all = slices.Concat(all[max(0, len(all)-bootstrap):], l.running[b])
		for range all {
			past[b] = append(past[b], all[r.IntN(len(all))])
		}
	}
	kinds := map[JobKey]float64{}
	return func(k JobKey, estimate, ran time.Duration) (time.Duration, Basis) {
		expected, basis := l.Expect(k, estimate)
		if basis == Nothing {
			return 0, basis
		}
		kind := JobKey{Tenant: k.Tenant, User: k.User, Model: k.Model}
		shared, known := kinds[kind]
		if !known {
			shared = math.Exp(together * r.NormFloat64())
			kinds[kind] = shared
		}
		d := draw{r, past[basis], basis, expected.Seconds(), shared}
		return time.Duration(d.after(ran.Seconds()) * float64(time.Second)), basis
	}
}

// draw draws the run time of one job.
type draw struct {
	*rand.Rand
	past     []outcome
	basis    Basis
	expected float64
	shared   float64
}

// after returns a run time of more than ran, in seconds.
func (d draw) after(ran float64) float64 {
	for range tries {
		var total float64
		// With few jobs behind it, experience is not trusted alone.
		if n := float64(len(d.past)); d.Float64()*(n+prior) < n {
			total = d.pick()
		} else if d.basis == Estimated {
			total = d.expected * maxRatio * (1 - d.Float64())
		} else {
			total = d.expected * math.Exp(unsure*d.NormFloat64())
		}
		if total *= d.shared * math.Exp(smooth*d.NormFloat64()); total > ran {
			return total
		}
	}
	return d.beyond(ran)
}

// pick returns the run time of a past job of which about as much was expected. One that
// still runs stands for those that ran longer than it has so far.
func (d draw) pick() float64 {
	unit := d.expected
	if d.basis == Anything {
		unit = 1
	}
	best := d.past[d.IntN(len(d.past))]
	for range contest - 1 {
		if o := d.past[d.IntN(len(d.past))]; math.Abs(math.Log(o.expected/unit)) < math.Abs(math.Log(best.expected/unit)) {
			best = o
		}
	}
	if !best.running {
		return best.ratio * unit
	}
	for range tries {
		if o := d.past[d.IntN(len(d.past))]; !o.running && o.ratio > best.ratio {
			return o.ratio * unit
		}
	}
	return d.beyond(best.ratio * unit)
}

// beyond returns the run time of a job that has run longer than nearly all others: the
// longer it has, the longer it will.
func (d draw) beyond(ran float64) float64 { return ran * math.Pow(1-d.Float64(), -1/tail) }

const (
	tries     = 100
	contest   = 4   // jobs of which the most similar is picked
	bootstrap = 300 // the newest jobs count
	prior     = 5   // what is assumed weighs as much as so many jobs
	smooth    = 0.1 // run times differ a little from those seen before
	together  = 0.4 // standard deviation of the logarithm by which jobs of one kind are off together
	tail      = 1.5 // exponent of the power law
	// unsure is the standard deviation of the logarithm of run time over expectation
	// that is assumed before any is known. Users estimate too much: their jobs run for
	// a part of it, spread about evenly (Mu'alem and Feitelson, TPDS'01).
	unsure   = 0.7
	maxRatio = 1.2
)

// ReportSpread is the standard deviation of the logarithm of the time that is left, by
// the rate that an agent reports.
const ReportSpread = 0.1
