// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package interfere

import (
	"fmt"
	"math"
)

// Load is what a job does to a GPU when it runs there alone.
type Load struct {
	Util float64 // fraction of the time in which the GPU works for it, 0 to 1; 0: unknown, assumed to be 1
	Step float64 // seconds of a training step; 0: unknown, a short one is assumed
	// Spread is the uncertainty of Util: the standard deviation of its logarithm.
	// 0: measured.
	Spread float64
}

// Predicted returns a load from a predicted utilisation, in percent, with the
// bounds of its 90 % interval, and the seconds of a step.
func Predicted(util, low, high, step float64) Load {
	const sigmas = 2 * 1.645 // of a 90 % interval
	return Load{Util: util / 100, Step: step, Spread: (math.Log1p(high) - math.Log1p(low)) / sigmas}
}

// Mode is how processes share a GPU.
type Mode uint8

// The modes of sharing a GPU.
const (
	TimeSlice Mode = iota // the processes take turns
	MPS                   // NVIDIA's multi-process service: their kernels run side by side
)

var modeNames = [...]string{TimeSlice: "time-slice", MPS: "mps"}

func (m Mode) String() string {
	if int(m) < len(modeNames) {
		return modeNames[m]
	}
	return fmt.Sprintf("mode %d", uint8(m))
}

// ParseMode reads the name of a mode.
func ParseMode(name string) (Mode, error) {
	for m, n := range modeNames {
		if n == name {
			return Mode(m), nil
		}
	}
	return 0, fmt.Errorf("mode %q; want time-slice or mps", name)
}

// util returns the utilisation to compute with.
func (l Load) util() float64 {
	if !(l.Util > 0 && l.Util <= 1) { // NaN too
		return 1
	}
	return max(l.Util, leastUtil)
}

// step returns the seconds of a step, or the assumed value if they are unknown.
func (l Load) step(unknown float64) float64 {
	if l.Step > 0 {
		return within(l.Step, leastStep, mostStep)
	}
	return unknown
}

// Limits that no training job exceeds; they keep the arithmetic finite.
const (
	leastUtil           = 1e-3
	leastStep, mostStep = 1e-6, 1e4 // seconds
)

func within(x, low, high float64) float64 { return min(max(x, low), high) }

// raised returns the load with a higher utilisation than expected, such that the
// sum of two loads with independent errors, both raised, is exceeded in one case of
// twenty.
func (l Load) raised() Load {
	l.Util = min(1, l.util()*math.Exp(oneSided95/math.Sqrt2*l.Spread))
	return l
}

// oneSided95 is the 95th percentile of the standard normal distribution.
const oneSided95 = 1.6448536269514722
