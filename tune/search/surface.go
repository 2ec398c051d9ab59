// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package search

import (
	"fmt"
	"math"
	"math/rand/v2"
)

// Surface is an analytic substitute for training: the quality of a trial as a smooth
// function of its hyper-parameters, with a little noise. It does not depend on
// scheduling, so that searches under different schedulers differ only in which trials
// they ask for, and when.
type Surface struct {
	Space Space
	// Quality at the optimum, and far away from it, in percent.
	Peak, Floor float64
	// Noise is the standard deviation between two trainings with the same
	// hyper-parameters, in percent.
	Noise float64
	// Loss is 0 at the optimum, and 1 where quality has fallen by 1-1/e of the
	// difference between Peak and Floor.
	Loss func(Params) float64
	// Pace is the factor on the step time of the known model; nil: 1.
	Pace func(Params) float64
	// Epochs of a whole trial.
	Epochs int
	// Steepness says how early a trial learns: after a part x of the training, what is
	// missing to its final quality has fallen to about e^(-steepness x). Nil: 5.
	Steepness func(Params) float64
}

// Dimensions implements Problem.
func (s Surface) Dimensions() Space { return s.Space }

// Length implements Problem.
func (s Surface) Length() int { return s.Epochs }

// Open implements Problem.
func (s Surface) Open(seed uint64) func(Params) Trial {
	n := uint64(0)
	return func(p Params) Trial {
		final, steep, pace := s.Quality(p, seed, n), 5.0, 1.0
		n++
		if s.Steepness != nil {
			steep = s.Steepness(p)
		}
		if s.Pace != nil {
			pace = s.Pace(p)
		}
		return Trial{Params: p, Pace: pace, Quality: func(epoch int) float64 {
			learnt := math.Expm1(-steep*float64(epoch)/float64(s.Epochs)) / math.Expm1(-steep)
			return min(s.Floor, final) + max(0, final-s.Floor)*learnt
		}}
	}
}

// CIFAR10 is the response surface of ResNet-18 on CIFAR-10 over the hyper-parameters
// of the search in the Pollux paper: learning rate and its annealing, momentum,
// weight decay and the width of the network. The shape is an assumption, not a
// measurement: the effective learning rate is lr/(1-momentum), weight decay trades
// off against it, wider is better and saturates, annealing by steps or by a cosine
// beats none. Peak and Noise are chosen so that the best of a hundred trials reach
// what the paper reports, about 95.5 %. Half of the step time does not depend on the
// width, half grows with its square; the usual width is 64.
func CIFAR10() Surface {
	return Surface{
		Space: Space{
			{Name: "lr", Kind: LogFloat, Low: 1e-3, High: 1},
			{Name: "momentum", Kind: Float, Low: 0.5, High: 0.99},
			{Name: "weight_decay", Kind: LogFloat, Low: 1e-6, High: 1e-2},
			{Name: "width", Kind: Int, Low: 16, High: 96},
			{Name: "annealing", Kind: Choice, Choices: []string{"none", "step", "cosine"}},
		},
		Peak: 95.6, Floor: 10, Noise: 0.2,
		Loss: func(p Params) float64 {
			rate := math.Log10(p[0] / (1 - p[1])) // best at 0: 0.1 at momentum 0.9
			decay := math.Log10(p[2]) + 3.3       // best at 5e-4
			steady := (p[1] - 0.9) / 0.4
			narrow := math.Log2(96 / p[3])
			anneal := [...]float64{0.012, 0.003, 0}[int(p[4])]
			return 0.06*rate*rate + 0.008*(decay+0.5*rate)*(decay+0.5*rate) + 0.02*steady*steady + 0.0015*narrow*narrow + anneal
		},
		Pace:   func(p Params) float64 { return 0.5 + 0.5*(p[3]/64)*(p[3]/64) },
		Epochs: 81,
		// A learning rate that falls later learns more slowly at first.
		Steepness: func(p Params) float64 { return [...]float64{9, 6, 4}[int(p[4])] },
	}
}

// Validate reports the first field that is missing or out of range.
func (s Surface) Validate() error {
	switch {
	case s.Loss == nil:
		return fmt.Errorf("surface: loss is missing")
	case !(s.Floor >= 0 && s.Floor < s.Peak && s.Peak <= 100):
		return fmt.Errorf("surface: floor = %g, peak = %g; want percentages, floor below peak", s.Floor, s.Peak)
	case s.Epochs < 1:
		return fmt.Errorf("surface: epochs = %d; want 1 or more", s.Epochs)
	case !(s.Noise >= 0 && s.Noise < 100):
		return fmt.Errorf("surface: noise = %g; want 0 to below 100 percent", s.Noise)
	}
	return s.Space.Validate()
}

// Quality returns the quality of a trial in percent. Trials of the same seed
// and number draw the same noise.
func (s Surface) Quality(p Params, seed, trial uint64) float64 {
	const noiseStream = 0x7175616c << 32
	noise := rand.New(rand.NewPCG(seed, noiseStream+trial)).NormFloat64() * s.Noise
	q := s.Floor + (s.Peak-s.Floor)*math.Exp(-s.Loss(p))
	return min(100, max(0, q+noise))
}
