// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package interfere

import "math"

// Model says how much jobs slow each other down on one type of GPU.
type Model struct {
	GPU       string   `json:"gpu"`    // the measured type, such as "h200"
	Source    string   `json:"source"` // of the measurements
	TimeSlice *Sharing `json:"time-slice"`
	MPS       *Sharing `json:"mps,omitempty"` // nil: as in time-slice
}

// Estimate is a predicted slowdown: the step time together over that alone, at
// least 1.
type Estimate struct {
	Mean    float64 // the mean of the measurements in such cases
	High    float64 // exceeded by one measurement in twenty
	Scatter float64 // standard deviation of ln(slowdown) around ln(Mean), without measurement errors
	// Pressure is the jobs' total demand over the GPU's capacity or, if that is
	// exceeded, this job's demand over what is left to it. Slowdown begins at about
	// 1; below that, where Mean is the same for all, less is better.
	Pressure float64
}

// DefaultLimit is the slowdown below which jobs are considered safe together.
const DefaultLimit = 1.15

func (m *Model) sharing(mode Mode) *Sharing {
	if mode == MPS && m.MPS != nil {
		return m.MPS
	}
	return m.TimeSlice
}

// Slowdown predicts how much slower a job is beside others on its GPU. More or
// busier jobs never reduce it.
func (m *Model) Slowdown(mode Mode, own Load, others []Load) Estimate {
	return m.sharing(mode).estimate(group{own: own, others: others, skip: -1})
}

// Around returns an estimate with a mean from elsewhere and this model's scatter at
// a pressure.
func (m *Model) Around(mode Mode, pressure, mean float64) Estimate {
	return m.sharing(mode).around(pressure, mean)
}

// Safe reports whether every job on a GPU is predicted to be slowed by less than
// the limit, even in the upper twentieth of cases (Estimate.High).
func (m *Model) Safe(mode Mode, limit float64, jobs []Load) bool {
	s := m.sharing(mode)
	for i, own := range jobs {
		if !(s.estimate(group{own: own, others: jobs, skip: i}).High < limit) {
			return false
		}
	}
	return true
}

// Truth returns a slowdown as it might be measured: Mean with a random error of the
// measured scatter, at least 1. The same seed gives the same error; use one for
// each job of each pair.
func (m *Model) Truth(mode Mode, own Load, others []Load, seed uint64) float64 {
	e := m.Slowdown(mode, own, others)
	if len(others) == 0 {
		return 1
	}
	return max(1, e.Mean*math.Exp(e.Scatter*normal(seed)))
}

// normal draws from the standard normal distribution, truncated at 3 on either
// side.
func normal(seed uint64) float64 {
	u, v := uniform(seed), uniform(seed^0xd1b54a32d192ed03)
	z := math.Sqrt(-2*math.Log(u)) * math.Cos(2*math.Pi*v)
	return min(max(z, -3), 3)
}

// uniform draws from (0, 1) by the finaliser of SplitMix64.
func uniform(seed uint64) float64 {
	x := seed + 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	x ^= x >> 31
	return (float64(x>>11) + 0.5) / (1 << 53)
}

// Published returns the model for GPUs that we have not measured: the speed of two
// jobs by the sum of their utilisations, fitted to 1,388 pairs on an RTX 3090
// published by the authors of Lucid (ASPLOS'23). It distinguishes neither the mode
// nor which of the two jobs is busier.
func Published() *Model {
	return &Model{
		GPU:    "rtx3090",
		Source: "1,388 pairs published with Lucid (ASPLOS'23)",
		TimeSlice: &Sharing{
			Form: Overload, Knee: 0.9, Slope: 0.335, Pairs: 1388,
			// From the means and the tenth percentiles of speed by sum of
			// utilisations, assuming a normal distribution.
			Spread:   []Spread{{At: 1, Scatter: 0.07, High: 1.13}, {At: 1.12, Scatter: 0.12, High: 1.37}, {At: 1.4, Scatter: 0.19, High: 1.9}},
			AbsError: 0.1,
		},
	}
}
