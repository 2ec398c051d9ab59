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
// of its w_j GPUs. The plan maximises, over J jobs,
//
//	1/(J*T) * sum of log(progress of j after the window) - k * (longest run time left after it, in seconds)
//
// where the sum of n_j*w_j is at most T times the GPUs. Progress is the part of its
// training that a job has completed. The logarithm is Nash social welfare: a round
// is worth most to a job that has done little. The second term is efficiency: the
// job with the most left to do must not start late.
//
// Every job must be able to end in fair time: if it has its fair share after the
// window, the time since its submission is at most rho_max times its run time and the
// mean contention of its life (the number of jobs for each GPU, at least 1). Where no
// plan does that for all jobs, the progress of a job counts rho^lambda times, where
//
//	rho = (age + left*contention) / (run time * mean contention)
//
// is above rho_max, and rho^100 times if it needs no more than one round.
//
// Jobs with every round of the window run first, then those with some, the largest
// weight first, then the most rounds; then, on what is left over, jobs without rounds,
// the longest time left first. Every decision makes a new plan.
//
// # Forecasts
//
// A job whose batch size changes during training (Accordion, GNS) reports its batch
// sizes, the time of an epoch at each, and the epochs that it has trained at each
// (goodput.Report.Regimes). The shares of the training at each of them have a Dirichlet
// distribution: of E epochs, E/R are expected at each of R batch sizes at first, and
// each epoch seen counts as one more. The expected rest at each gives the run time
// left. Simulated jobs report that; our agent does not yet. Other jobs have an estimate
// (Spec.Estimate). A job without one is assumed to be halfway, and a new one to need a
// window.
//
// # The solver
//
// With the longest time left bounded, each job has a least number of rounds, and what
// remains is a knapsack of concave gains. Branch and bound over the bound finds the
// best: a tighter bound can save no more makespan than the tightest of its range, and
// give no more progress than the loosest. In small windows the knapsack is solved
// exactly, by dynamic programming, and so is the whole. In others GPU-rounds go to jobs
// at a price, found by bisection, and the last ones to the largest gain for each GPU;
// duality gives an upper limit, and the answer says by how much it may fall short
// (answer.gap; less than 1 % for 120 jobs on 32 GPUs). The number of steps, not the
// clock, bounds the search.
//
// Sums of GPU-rounds suffice: where all sizes of jobs are powers of two that divide the
// GPUs, every such division can be laid out in rounds.
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
//   - The artifact solves a mixed-integer program with a piecewise linear logarithm, at
//     most every eight rounds, and orders the rounds of the window by a second one. Here
//     every decision plans anew, and only the first round has an order.
//   - Rho is by the time since submission. The artifact divides points in time, counted
//     from the start of the trace, and averages the fair time over past estimates where
//     contention is averaged here.
//   - The defaults are rho_max = 1, T = 20 and k = 0.001, as in the artifact's
//     configuration for 32 GPUs; it has lambda = 12 there and 5 elsewhere.
//   - A running job counts stick times its weight in the order, and a round is ten
//     minutes, not two, because every start costs a restart here.
//   - Jobs that lose much speed when spread wait for GPUs of one node (placement=skew);
//     the paper has no placement.
//   - An elastic job runs at the size it asks for.
package shockwave
