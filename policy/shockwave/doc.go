// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Package shockwave plans a window of rounds ahead so that all jobs make
// proportional progress and no long job is left at the end: "Shockwave: Fair and
// Efficient Cluster Scheduling for Dynamic Adaptation in Machine Learning" (Zheng
// et al., NSDI'23).
//
// # The plan
//
// The next window has T rounds of some minutes. Job j gets n_j of them, on all
// of its w_j GPUs. The plan maximises
//
//	1/J * sum of W_j * log(progress of j after the window) - k * (longest time left after it) / (longest time left now)
//
// where the sum of n_j*w_j is at most T times the GPUs. Progress is the part of its
// run time that a job has completed. The logarithm is Nash social welfare: a round
// is worth most to a job that has done little. The second term is efficiency: the
// job with the most left to do must not start late.
//
// W_j is 1 for a job that will end in fair time. The finish-time fairness of a job is
//
//	rho = (age + left*c) / (run time*c), c = max(1, GPUs asked for / GPUs)
//
// and where it is above rho_max, W_j = rho^lambda, or more for a job that needs no
// more than one round.
//
// Jobs with rounds in the plan run first, the largest W_j first, then those with the
// most rounds; then, on what is left over, jobs without rounds, the longest time left
// first. Every decision makes a new plan.
//
// # The solver
//
// With the longest time left bounded, each job has a least number of rounds, and
// what remains is a concave sum under one bound: GPU-rounds go, one job's round
// at a time, to the largest gain for each GPU. It is exact when all jobs have the
// same number of GPUs. The division is found by bisection on the price of a
// GPU-round, and the last rounds one by one. Several bounds are tried, from none to
// all of the window, and the best plan is kept.
//
// # Promises
//
// No GPU idles that a waiting job could use. The rho of a waiting job grows without
// bound and so does its weight, so it starts eventually. A job that has started runs
// for a whole round, unless the first waiting job has waited for a round
// (place.Lease).
//
// # Deviations
//
//   - The paper solves a mixed-integer program for the order of rounds, with a
//     piecewise linear logarithm, and falls back to weights where no plan keeps all
//     rho below rho_max. Here weights always apply, rounds within the window have no
//     order but the one above, and the search is the one described.
//   - Contention c is the GPUs asked for over those in the cluster; the paper counts
//     jobs. It is the current value, not a mean over past estimates.
//   - Run times come from Spec.Estimate. Changes of the batch size are not predicted;
//     a job without an estimate is assumed to be halfway, and a new one to need a
//     window.
//   - A running job counts stick times its weight in the order, and a round is ten
//     minutes, not two, because every start costs a restart here.
//   - An elastic job runs at the size it asks for.
package shockwave
