// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Package horus fills GPUs with jobs whose predicted utilisations suit each
// other: "Horus: Interference-Aware and Prediction-Based Scheduling in Deep
// Learning Systems" (Yeung et al., TPDS'22).
//
// # Placement
//
// A job that may share (Spec.Shareable) and whose utilisation and memory are
// predicted (Spec.GPUUtil, Spec.GPUMemory) takes a seat on each of its GPUs, of
// which a GPU has as many as the knob jobs says. Among the GPUs with a seat and
// enough memory, with a margin, it takes those of least cost:
//
//	cost = w1 * (memory used + its own) / memory
//	     + w2 * (1 - u        where u <= 1, the sum of utilisations with its own
//	             over*(u - 1) where u > 1)
//	     + crowd * jobs that are there
//
// so a GPU is filled towards a utilisation of 1, and over-commitment costs more
// than idleness. Any other job gets whole GPUs.
//
// The cost alone forbids nothing. With the knob slowdown, a job is not put where
// the interference model (package interfere) expects one of the jobs to be slowed
// by more than that; 0 is the paper's rule.
//
// # Order
//
// horus has one queue, the lowest predicted utilisation first, and looks at
// lookahead jobs that do not fit before it gives up for this time. horus+ sorts
// the waiting jobs into k classes (k-means with L1 distance over standardised
// number of tasks, utilisation, GPUs of a task and memory) and serves these by
// weighted fairness: of every beta jobs it takes from a class in proportion to
// its weight, the median wait times the number of jobs. A class that starves gains
// weight.
//
// # Promises
//
// No job is stopped, unless migrate is set. A job that has waited for patience
// goes before all others, by submission, and as long as it does not fit, GPUs that
// will be empty soon are reserved for it: for all such jobs together at most a
// part of the cluster (the knob reserve), the oldest first. So nobody starves.
//
// # Deviations
//
//   - The paper mentions reservations for long waiters but does not say how; see
//     above for what we do. Without them the order by utilisation would let heavy
//     jobs wait for ever.
//   - The bound on slowdown is ours. It is on by default: see
//     docs/reproduction/horus.md for what it changes.
//   - A gang is put on one node if it fits on one. The paper takes the GPUs of
//     least cost wherever they are, and gives no price of distance; the authors'
//     simulator prefers the fewest nodes, as we do.
//   - Classes start from the job nearest to the mean and then from those farthest
//     from all others, not from random ones.
//   - An elastic job runs at the size it asks for.
package horus
