// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package interfere

// Published returns the model for GPUs of which there are no measurements of
// our own: the speed of two jobs by the sum of their utilisations, fitted to
// 1,388 pairs on an RTX 3090 that the authors of Lucid (ASPLOS'23) published.
// It knows neither the mode nor which of the two jobs is the busier.
func Published() *Model {
	return &Model{
		GPU:    "rtx3090",
		Source: "1,388 pairs published with Lucid (ASPLOS'23)",
		TimeSlice: &Sharing{
			Form: Overload, Knee: 0.9, Slope: 0.335, Pairs: 1388,
			// From the means and the tenth percentiles of speed by sum of
			// utilisations, as of a normal distribution.
			Spread:   []Spread{{At: 1, Scatter: 0.07, High: 1.13}, {At: 1.12, Scatter: 0.12, High: 1.37}, {At: 1.4, Scatter: 0.19, High: 1.9}},
			AbsError: 0.1,
		},
	}
}
