// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Package shockwave plans a window of rounds ahead so that all jobs make
// progress in proportion and nobody is left at the end: "Shockwave: Fair and
// Efficient Cluster Scheduling for Dynamic Adaptation in Machine Learning" (Zheng
// et al., NSDI'23).
//
// # The plan
//
// The next window has T rounds of some minutes. Job j gets n_j of them, on all
// of its GPUs w_j. The plan maximises
//
//	1/J * sum of W_j * log(progress of j after the window) - k * (longest time left after it) / (longest time left now)
//
// where the n_j*w_j together are at most T times the GPUs. Progress is the part of
// its run time that a job has behind it. The logarithm is Nash's welfare: a round
// is worth most to a job that has done little. The second term is efficiency: the
// job with the most left to do must not start late.
//
// W_j is 1 for a job that is on the way to a fair end. The finish-time fairness
// of a job is
//
//	rho = (age + left*c) / (run time*c), c = max(1, GPUs asked for / GPUs)
//
// and where it is above rho_max, W_j = rho^lambda, or more for a job that needs no
// more than one round.
//
// From the plan, the jobs with rounds in it run now, the largest W_j first, then
// those with the most rounds; then, on what is left over, those without rounds,
// the longest time left first. The plan is made anew in every decision.
//
// # The solver
//
// With the longest time left bounded, each job has a least number of rounds, and
// what remains is a concave sum under one bound: GPU-rounds go, one job's round
// at a time, to the largest gain for each GPU. It is exact when all jobs have the
// same number of GPUs. It is found by bisection on the price of a GPU-round, and
// the last ones one by one. A few bounds are tried, from none to all of the
// window, and the best plan is kept.
//
// # Promises
//
// No GPU idles that a waiting job could use. rho of a waiting job grows without
// bound and so does its weight: it is served. A round of a job that has started is
// run to its end; the first of the waiting jobs breaks that after a round
// (place.Lease).
//
// # Deviations
//
//   - The paper solves a mixed-integer program for rounds in their order, with the
//     logarithm cut into pieces, and falls back to weights where no plan keeps all
//     rho below rho_max. Here the weights are always there, rounds within the window
//     have no order but the one above, and the search is the one described.
//   - Contention c is the GPUs asked for over those there are; the paper counts
//     jobs. It is today's value, not a mean over past estimates.
//   - Run times come from Spec.Estimate. Changes of the batch size are not
//     foretold; a job without an estimate is taken to be halfway, and a new one to
//     need a window.
//   - A job that runs counts stick times its weight in the order, and a round is ten
//     minutes, not two, since another start costs a restart here.
//   - An elastic job runs at the size it asks for.
package shockwave
