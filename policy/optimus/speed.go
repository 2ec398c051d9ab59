// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package optimus

import (
	"math"
	"slices"
)

// Speed is the speed model of a synchronous all-reduce job with a fixed batch: a
// step on w workers takes Compute/w + Fixed + Sync*w seconds, none of the three
// negative. Compute is the time for the gradient of the whole batch on one worker,
// Fixed is independent of the workers, Sync grows with them.
type Speed struct {
	Compute float64
	Fixed   float64
	Sync    float64
}

// Sample is a measured step time.
type Sample struct {
	Workers  int
	StepTime float64 // seconds
}

// FitSpeed fits the model to samples; ok is false if none of them is usable. What
// the samples leave open is assumed in favour of the job: a single number of
// workers gives perfect scaling, two give no Sync, so that a third is tried where
// the second has helped.
func FitSpeed(samples []Sample) (speed Speed, ok bool) {
	var sizes [terms]int // distinct ones, as far as they matter
	s := system{n: terms}
	distinct := 0
	for _, x := range samples {
		if w := float64(x.Workers); w > 0 && x.StepTime > 0 && !math.IsInf(x.StepTime, 1) {
			s.add(vector{1 / w, 1, w}, x.StepTime, 1)
			if distinct < terms && !slices.Contains(sizes[:distinct], x.Workers) {
				sizes[distinct] = x.Workers
				distinct++
			}
		}
	}
	if distinct == 0 {
		return Speed{}, false
	}
	s.n = distinct
	x := s.solve()
	return Speed{Compute: x[0], Fixed: x[1], Sync: x[2]}, true
}

// StepTime returns the time of a step on w workers, in seconds.
func (s Speed) StepTime(w int) float64 {
	return s.Compute/float64(w) + s.Fixed + s.Sync*float64(w)
}
