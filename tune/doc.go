// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Package tune schedules the trials of a hyper-parameter search within one app. The
// cluster scheduler gives the app a number of GPUs; a Tuner divides them among the
// trials, stops weak trials and says how many new ones may start. Package search
// samples new trials; package runner carries out decisions through api and is the
// only part with side effects.
//
// # The rules
//
//   - None lets every trial run to its end. An app of one trial is a plain job.
//   - Halving compares trials at rungs: numbers of iterations, each eta times the one
//     before. When every trial that can reach a rung has reached it, the best 1/eta
//     continue and the others stop.
//   - HyperBand runs several such brackets with increasing first rungs, as a hedge
//     against trials that start slowly.
//   - ASHA promotes a trial as soon as it is among the best 1/eta of those that have
//     reached its rung so far, without waiting for the rest.
//   - Median stops a trial whose best reading is worse than the median of the others'
//     running averages at the same iteration.
//   - POP extrapolates learning curves. A trial that is unlikely to reach the target
//     (or, without one, to beat the best so far) is poor and stops; good ones get all
//     the GPUs they can use, the one closest to its end first; promising ones share
//     the rest.
//
// The leading trial is never stopped; with rungs, that is the best of those that have
// reached the rung.
//
// # State
//
// A Tuner is stateless. A plan is a function of the facts about the trials: their
// states, the readings of their metric, and the rung up to which each may run. The
// rung is the only decision that the caller must store (Job.Rung). So the caller can
// crash at any moment and ask again. A reading that is not a number, or that repeats
// an iteration, is ignored.
//
// # Deviations
//
//   - Halving stops a trial early when it can no longer be among the survivors.
//   - ASHA stops trials that can never be promoted; the paper pauses them. When no
//     other trial can reach a rung, at least one is promoted.
//   - POP fits a grid of curves by least squares and weights them by likelihood; the
//     paper samples eleven families. It has no domain-specific kill threshold besides
//     the probability of reaching the target.
//   - A search by TPE draws a third of its trials at random, at most 20.
package tune
