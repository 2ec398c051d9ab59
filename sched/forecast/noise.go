// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package forecast

import (
	"math"

	"github.com/fairway-gpu/fairway/sched"
)

// noise is how the gradient noise scale of a job will grow. By it a policy decides how many
// GPUs a job is worth, so that futures in which it stood still would agree on resizes that
// nobody can foresee.
type noise struct {
	first  float64 // as reported; 0: nothing is known
	whole  float64 // seconds at speed 1 from now to the end
	growth float64 // of the logarithm, from now to the end
}

const (
	// mostGrowth is the logarithm of the most by which the noise scale grows in a training:
	// a hundredfold. It grows by orders of magnitude (McCandlish et al., 2018; Pollux, OSDI'21).
	mostGrowth = 4.6
	// newsworthy is the growth, of the logarithm, from which an agent's report has news:
	// policies compute the worth of GPUs anew for each.
	newsworthy = 0.1
)

// noiseOf draws how the noise scale of a job grows that ends after so many seconds.
func (w *world) noiseOf(j *sched.Job, seconds float64) noise {
	if j.Perf == nil || !(j.Perf.Noise > 0) || math.IsInf(j.Perf.Noise, 1) || j.Work <= 0 || !(seconds > 0) || math.IsInf(seconds, 1) {
		return noise{}
	}
	undone := max(0, 1-j.DoneBy(w.now)/j.Work)
	return noise{j.Perf.Noise, seconds, w.grow.Float64() * mostGrowth * undone}
}

// at returns the noise scale of a job with so many seconds left.
func (n noise) at(left float64) float64 {
	return n.first * math.Exp(n.growth*max(0, 1-left/n.whole))
}

// report lets the agents of running jobs tell how their noise scale has grown.
func (w *world) report() error {
	var events []sched.Event
	for _, j := range w.st.Peek().Jobs {
		r := w.left[j.ID]
		if j.Phase != sched.Running || r.noise.first == 0 {
			continue
		}
		done := j.DoneBy(w.now)
		if scale := r.noise.at(r.seconds); done < j.Work && math.Log(scale/j.Perf.Noise) > newsworthy {
			perf := *j.Perf
			perf.Noise = scale
			events = append(events, sched.Event{At: w.now, Kind: sched.JobReported, Job: j.ID, Done: done, Rate: j.Rate, Perf: &perf})
		}
	}
	for _, e := range events {
		if err := w.st.Apply(e); err != nil {
			return err
		}
	}
	return nil
}
