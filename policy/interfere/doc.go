// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Package interfere predicts how much jobs that share a GPU slow each other down,
// from what is known of each before it runs: the share of the GPU's time that it
// keeps busy alone, and how long its step takes.
//
// # The model
//
// A GPU without MPS belongs to one process at a time: those that have work
// queued take turns of about two milliseconds, and every switch costs time. This
// divides the GPU's time max-min fair: a job that wants less than its part gets all
// it wants, and what it leaves goes to the others. So, for a job with utilisation u,
//
//	slowdown = (1 + (u/a)^q + (u + t/s)^q)^(1/q)
//
// where a is what the others would leave to a job that wants all it can get
// (Sharing.left). The last term is for short steps: a step of s seconds takes at
// least the GPU's work for it, a part u of s, and the wait t for the others'
// turns. The exponent q smooths the transition: a job is not evenly busy, and slows
// down a little before total demand exceeds the GPU. The formula takes any number of
// jobs; only pairs were measured.
//
// With MPS the kernels of all processes go to the GPU together. How they then share
// it depends on the kernels, of which too little is known: the model lets the speed of
// every job fall linearly with total demand above a threshold.
//
// # Estimates and truth
//
// Slowdown is the prediction that policies use; Truth adds the measured scatter, for
// simulations in which predictions err as they do in reality. Package learn fits the
// parameters, which are in models/.
package interfere
