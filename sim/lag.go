// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"cmp"
	"math"

	"github.com/fairway-gpu/fairway/sched/goodput"
)

// noiseMemory is the weight that an agent's averages keep over one batch of the
// initial size; a larger batch counts as several. It is that of the live agent
// (python/src/fairway/noise.py), which has it from AdaptDL.
const noiseMemory = 0.999

// average holds gradient statistics as an agent knows them: averages over the last
// thousand or so batches. They lag behind the truth, and a checkpoint keeps them.
type average struct {
	sqr, variance, weight float64
	done                  float64 // work at the last observation
}

// add takes in what has been true since the last observation, and returns what the
// agent knows now. Nil knows the truth.
func (a *average) add(o observation, s setting, l goodput.Limits, done float64) observation {
	if a == nil {
		return o
	}
	batch := s.config.Batch(s.replicas())
	steps := max(0, done-a.done) / o.gain(batch, l)
	keep := math.Pow(noiseMemory, steps*float64(batch)/float64(cmp.Or(o.base, l.Initial)))
	a.done = done
	a.sqr = keep*a.sqr + (1-keep)*o.sqr
	a.variance = keep*a.variance + (1-keep)*o.variance
	a.weight = keep*a.weight + (1 - keep)
	if a.weight > 0 {
		o.sqr, o.variance = a.sqr/a.weight, a.variance/a.weight
	}
	return o
}
