// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Package interfere says how much jobs that share a GPU slow each other, from
// what can be known of each before it runs: the share of the GPU's time that it
// keeps busy alone, and how long a step of it takes.
//
// # The model
//
// A GPU without MPS belongs to one process at a time: those that have work
// queued take turns of about two milliseconds, and every change costs. That is
// a division of the GPU's time by need (max-min fair): a job that wants less
// than its part gets all it wants, and what it leaves goes to the others. So,
// for a job with utilisation u,
//
//	slowdown = (1 + (u/a)^q + (u + t/s)^q)^(1/q)
//
// where a is what the others would leave to a job that wants all it can get
// (Sharing.left). The last term is for short steps: a step of s seconds takes at
// least the GPU's work for it, a part u of s, and the wait t for the others'
// turns. The exponent q rounds the corners: a job is not evenly busy, and slows a
// little before the sum of wants is above what there is. All this holds for any
// number of jobs; measured were pairs.
//
// With MPS the kernels of all processes go to the GPU together. Who then gets how
// much depends on the kernels, of which too little is known: the speed of every
// job falls in a straight line with what all want above some sum.
//
// # Estimates and truth
//
// Slowdown is what a policy may be told; Truth is that with the scatter that
// was measured around it, for a simulation in which predictions err as they do
// in life. Parameters are fitted by package learn and lie in models/.
package interfere
