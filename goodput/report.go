// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package goodput

// Report is what the agent of a running job tells the scheduler about how the
// job trains: everything a policy may know of its speed. It is measured and
// fitted by the agent; the scheduler never sees the truth.
//
// A Report is immutable: a new one replaces it.
type Report struct {
	// Params is the fitted throughput model, by GPU type. It has no entry for a
	// type the job has not run on.
	Params map[string]Params `json:"params,omitempty"`
	Noise  float64           `json:"noise"` // gradient noise scale now, in examples
	Limits Limits            `json:"limits"`
	// Fixed is the batch size of a job that does not adapt it; 0: it adapts.
	Fixed int `json:"fixed,omitempty"`
	// MostGPUs is the largest number of GPUs the job should be given now: twice
	// the most it has run on, and no more than its batch can be split over.
	MostGPUs int `json:"most_gpus"`

	// Steps[k-1] is the expected time of an optimiser step on k GPUs, packed on
	// as few nodes as possible, at the fixed batch size; and Left the number of
	// these steps to the end of training. For policies that plan by remaining
	// time; empty if nobody can say.
	Steps []float64 `json:"steps,omitempty"`
	Left  float64   `json:"left,omitempty"`
}

// Goodput returns the best goodput of the job on a placement, and the batch
// configuration that gives it; ok is false while the job has no model for the
// GPU type. A job that does not adapt its batch size gets its throughput.
func (r *Report) Goodput(gpuType string, s Shape) (c Config, goodput float64, ok bool) {
	p, ok := r.Params[gpuType]
	if !ok {
		return Config{}, 0, false
	}
	if r.Fixed == 0 {
		c, goodput = r.Limits.Best(p, r.Noise, s)
		return c, goodput, true
	}
	c, fits := Split(r.Fixed, s.GPUs, r.Limits)
	if !fits {
		return Config{}, 0, true
	}
	return c, p.Throughput(s, float64(c.Local), c.Accum), true
}
