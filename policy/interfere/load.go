// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package interfere

import (
	"fmt"
	"math"
)

// Load is what a job does to a GPU when it runs there alone.
type Load struct {
	Util float64 // share of the time in which the GPU works for it, 0 to 1; 0: unknown, taken for 1
	Step float64 // seconds of a training step; 0: unknown, the worst of the usual is assumed
	// Spread is how well Util is known: the standard deviation of its logarithm.
	// 0: measured.
	Spread float64
}

// Predicted returns a load whose utilisation was predicted, in percent, with the
// bounds that 90 % of such cases lie within, and the seconds of a step.
func Predicted(util, low, high, step float64) Load {
	const sigmas = 2 * 1.645 // of a 90 % interval
	return Load{Util: util / 100, Step: step, Spread: (math.Log1p(high) - math.Log1p(low)) / sigmas}
}

// Mode is how processes share a GPU.
type Mode uint8

// The ways to share a GPU.
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

// util returns a utilisation that one can reckon with.
func (l Load) util() float64 {
	if !(l.Util > 0 && l.Util <= 1) { // NaN too
		return 1
	}
	return max(l.Util, leastUtil)
}

// step returns the seconds of a step, or what to assume where they are unknown.
func (l Load) step(unknown float64) float64 {
	if l.Step > 0 {
		return within(l.Step, leastStep, mostStep)
	}
	return unknown
}

// What no training job is beyond; it keeps the arithmetic finite.
const (
	leastUtil           = 1e-3
	leastStep, mostStep = 1e-6, 1e4 // seconds
)

func within(x, low, high float64) float64 { return min(max(x, low), high) }

// raised returns the load with a higher utilisation than expected: so much that
// two loads with independent errors are both raised by what their sum is above
// in one case of twenty.
func (l Load) raised() Load {
	l.Util = min(1, l.util()*math.Exp(oneSided95/math.Sqrt2*l.Spread))
	return l
}

// oneSided95 is the 95th percentile of the standard normal distribution.
const oneSided95 = 1.6448536269514722
