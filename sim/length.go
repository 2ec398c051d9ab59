// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"math"
	"math/rand/v2"
)

// declare returns the work that a job says it will do, of what it really does. Jobs
// report what they have done in the same unit, so one that declared too little works on
// beyond what it declared.
func (r *run) declare(j *job, work float64) float64 {
	const stream = 0x6c656e677468 // apart from the other draws of the same seed
	switch {
	case r.NoLengths:
		return 0
	case r.LengthError > 0:
		rnd := rand.New(rand.NewPCG(r.Seed^stream, uint64(j.result)))
		return work * math.Exp(r.LengthError*rnd.NormFloat64())
	}
	return work
}
