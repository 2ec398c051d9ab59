// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package forecast

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/fairway-gpu/fairway/sched"
)

// fewestArrivals is the number of jobs from which others can be foreseen.
const fewestArrivals = 5

// Again foresees that what was submitted in the recent past is submitted again: in each
// future from another moment of the past on, so that a busy hour stays one. The jobs
// come oldest first. It is nil if they are too few to tell.
func Again(recent []sched.Spec, now time.Time) func(r *rand.Rand) Arrivals {
	if len(recent) < fewestArrivals {
		return nil
	}
	first := recent[0].Submitted
	span := now.Sub(first)
	if span < time.Minute {
		return nil
	}
	return func(r *rand.Rand) Arrivals {
		from := first.Add(time.Duration(r.Float64() * float64(span)))
		shift := now.Sub(from)
		i := 0
		for i < len(recent) && recent[i].Submitted.Before(from) {
			i++
		}
		return func() (sched.Spec, bool) {
			if i == len(recent) {
				i, shift = 0, shift+span
			}
			spec := recent[i]
			spec.ID, spec.App, spec.Submitted = "", "", spec.Submitted.Add(shift)
			i++
			return spec, true
		}
	}
}

// expect draws the next job that is submitted.
func (w *world) expect() {
	w.next = nil
	if spec, ok := w.arrive(); ok {
		if w.arrived++; spec.ID == "" {
			spec.ID = sched.JobID(fmt.Sprintf("(later %d)", w.arrived))
		}
		w.next = &spec
	}
}
