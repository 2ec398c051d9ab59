// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package pairing

import "github.com/fairway-gpu/fairway/sched"

// Outcomes remembers what was measured of two kinds of jobs on one GPU. A policy
// that restarts has forgotten it, and tries once more. The zero value is empty.
type Outcomes struct{ of map[[2]string]float64 }

// mostOutcomes bounds the number of remembered pairs.
const mostOutcomes = 4096

// Kind identifies a job in the memory: what it trains, if that is known.
func Kind(j *sched.Job) string {
	if j.Model != "" {
		return "model " + j.Model
	}
	return "job " + string(j.ID)
}

// Put remembers the outcome of a pair.
func (o *Outcomes) Put(a, b *sched.Job, outcome float64) {
	if o.of == nil || len(o.of) >= mostOutcomes {
		o.of = map[[2]string]float64{}
	}
	o.of[pairOf(a, b)] = outcome
}

// Get returns the outcome of a pair, if there is one.
func (o *Outcomes) Get(a, b *sched.Job) (outcome float64, known bool) {
	if len(o.of) == 0 {
		return 0, false
	}
	outcome, known = o.of[pairOf(a, b)]
	return outcome, known
}

// Empty reports whether nothing is remembered.
func (o *Outcomes) Empty() bool { return len(o.of) == 0 }

// pairOf returns two kinds of jobs in alphabetical order.
func pairOf(a, b *sched.Job) [2]string {
	x, y := Kind(a), Kind(b)
	if y < x {
		x, y = y, x
	}
	return [2]string{x, y}
}
