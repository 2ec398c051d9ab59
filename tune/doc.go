// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Package tune schedules the trials of a hyper-parameter search inside one app.
// The cluster scheduler gives the app a number of GPUs; a Tuner divides them among
// the trials, stops weak trials and says how many new ones may start. Package search
// samples new trials; package runner carries decisions out through api and is the
// only part that may touch the world.
//
// # The rules
//
//   - None lets every trial run to its end. An app of one trial is a plain job.
//   - Halving compares trials at rungs: numbers of iterations, each eta times the
//     one before. When all that can come to a rung are there, the best of eta go
//     on and the others stop.
//   - HyperBand runs several such brackets, with later and later first rungs,
//     which hedges against trials that start slowly.
//   - ASHA goes on with a trial as soon as it is among the best of eta of those
//     that have come to its rung so far, without waiting for the rest.
//   - Median stops a trial whose best is worse than the median of the others'
//     running averages at the same iteration.
//   - POP extrapolates learning curves. A trial that is unlikely to reach the
//     target (or, without one, to beat the best so far) is poor and stops; good
//     ones get all the GPUs they can use, the nearest to its end first; promising
//     ones share what is left.
//
// The trial that leads is never stopped; where there are rungs, that is the best
// of those that have come to the rung.
//
// # Facts and decisions
//
// A Tuner has no memory. A plan is a function of what is known about the trials:
// their states, the readings of their metric, and the rung up to which each may
// run, which is the one decision that the caller has to remember (Job.Rung).
// Whoever keeps these facts can crash at any moment and ask again. A reading that
// is not a number, or of an iteration that was read before, counts as none.
//
// Deviations from the papers: Halving stops a trial early when it cannot be among
// the survivors any more; ASHA stops trials that can never go on, where the paper
// lets them rest; a rung's last chance, when nobody else can come, lets at least
// one trial go on; POP fits a grid of curves by least squares and weighs them by
// their likelihood, where the paper samples eleven families; it has no kill
// threshold of the domain but the target's probability; a search by TPE draws at
// random for a third of its trials, at most 20.
package tune
