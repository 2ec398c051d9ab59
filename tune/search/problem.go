// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package search

// Problem is something to search: a space, and what training with a point of it gives.
type Problem interface {
	Dimensions() Space
	Length() int // epochs of a whole trial
	// Open begins a search. The function starts its next trial, with a point or the
	// nearest one that the problem knows.
	Open(seed uint64) func(Params) Trial
}

// Trial is the training with one point.
type Trial struct {
	Params Params
	Pace   float64 // factor on the step time of the model that is trained
	// Quality after an epoch, counted from 1, in percent; more is better.
	Quality func(epoch int) float64
}
