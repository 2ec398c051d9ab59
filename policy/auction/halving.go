// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package auction

import "slices"

// Phase is one round of successive halving: a number of jobs run a number of
// iterations each, then the better half continues.
type Phase struct {
	Jobs       int
	Iterations float64
}

// Halving is what is left of a search by successive halving.
type Halving struct {
	IterSerial []float64 // of the jobs that run now, those of the first phase
	Phases     []Phase   // the current one first, with the iterations it has left
	Most       int       // GPUs one job can use
	Split      Split     // nil: Evenly
}

// Times returns how long each phase takes on GPUs that the app keeps to the end.
// The survivors are not known: later phases assume jobs of the median iteration
// time.
func (h Halving) Times(slowdown float64, gpus int) []float64 {
	out := make([]float64, len(h.Phases))
	median := middle(h.IterSerial)
	for i, p := range h.Phases {
		jobs := make([]Job, p.Jobs)
		for j := range jobs {
			serial := median
			if i == 0 && j < len(h.IterSerial) {
				serial = h.IterSerial[j]
			}
			jobs[j] = Job{IterLeft: p.Iterations, IterSerial: serial, Most: h.Most}
		}
		out[i] = Together(jobs, slowdown, gpus, h.Split)
	}
	return out
}

// Shared returns the finish time of the search, from the start of the app.
func (h Halving) Shared(elapsed, slowdown float64, gpus int) float64 {
	for _, t := range h.Times(slowdown, gpus) {
		elapsed += t
	}
	return elapsed
}

// middle returns the median; for an even number, the mean of the two in the middle.
func middle(x []float64) float64 {
	if len(x) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(x))
	return (sorted[(len(x)-1)/2] + sorted[len(x)/2]) / 2
}
