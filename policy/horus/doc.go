// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Package horus lets jobs share GPUs by their predicted utilisation: "Horus:
// Interference-Aware and Prediction-Based Scheduling in Deep Learning Systems" (Yeung
// et al., TPDS'22).
//
// # Placement
//
// A job that may share (Spec.Shareable) and whose utilisation and memory are
// predicted (Spec.GPUUtil, Spec.GPUMemory) takes a seat on each of its GPUs; the knob
// jobs is the number of seats of a GPU. Among the GPUs with a free seat and enough
// memory, with a margin, it takes those of least cost:
//
//	cost = w1 * (memory used + its own) / memory
//	     + w2 * (1 - u        where u <= 1, the sum of utilisations with its own
//	             over*(u - 1) where u > 1)
//	     + crowd * jobs that are there
//
// so a GPU is filled towards a utilisation of 1, and over-commitment costs more than
// idleness. All other jobs get whole GPUs.
//
// The cost alone forbids no placement. With the knob slowdown, a job is not placed
// where the interference model (package interfere) expects a job to be slowed by more
// than that; 0 is the paper's rule.
//
// # Order
//
// horus has one queue, the lowest predicted utilisation first. A decision ends when
// lookahead jobs did not fit. horus+ sorts the waiting jobs into k classes (k-means
// with L1 distance over standardised number of tasks, utilisation, GPUs of a task and
// memory). Of every beta jobs it takes from each class in proportion to its weight,
// the median wait times the number of jobs. A class that starves gains weight.
//
// # Promises
//
// No job is stopped, unless migrate is set. A job that has waited for patience
// goes before all others, by submission. While it does not fit, GPUs that will be
// empty soon are reserved for it: for all such jobs together at most a part of the
// cluster (the knob reserve), the oldest first. So no job starves.
//
// # Deviations
//
//   - The paper mentions reservations for jobs that wait long, but not how they work;
//     ours are described above. Without them the order by utilisation would starve
//     heavy jobs.
//   - The bound on slowdown is ours. It is on by default: see
//     docs/reproduction/horus.md for what it changes.
//   - A gang is placed on one node if it fits on one. The paper takes the GPUs of
//     least cost wherever they are and has no cost of distance; the authors'
//     simulator prefers the fewest nodes, as we do.
//   - k-means starts from the job nearest to the mean and then from those farthest
//     from all others, not from random ones.
//   - An elastic job runs at the size it asks for.
package horus
