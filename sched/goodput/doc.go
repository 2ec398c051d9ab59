// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Package goodput predicts how fast a training job makes progress on a given
// set of GPUs at a given batch size. It is the model of Pollux (Qiao et al.,
// OSDI 2021), whose equation numbers the comments of this package cite.
//
// # Throughput
//
// A data-parallel job runs K replicas, one on each of its GPUs. For one
// optimiser step a replica computes the gradient of its part of the batch and
// then exchanges it with the others. The time of the first grows with the part
// of the batch (Params.Grad), the time of the second with the number of
// replicas, and it depends on how far apart they are (Params.Sync). The two
// overlap more or less; the exponent Gamma says how much: at 1 they follow
// each other, and the larger it is the closer the step comes to the longer of
// the two alone. A replica may also compute several gradients before it
// exchanges their sum (accumulation): the way to a batch that is larger than
// what fits in the memory of the GPUs.
//
// # Efficiency
//
// A larger batch carries less new information for each of its examples. How
// much less follows from the noise scale of the gradient, phi, which is
// measured during training: a job far from its optimum has a small phi and
// gains little from large batches, and phi usually grows as training goes on.
// Progress is counted in iterations at the batch size the user chose, the
// initial one; Gain says how many of those a step at a larger batch size is
// worth.
//
// # Goodput
//
// Goodput is throughput times efficiency: useful examples for each second.
// Limits.Best finds the batch size at which it is largest. With more GPUs or
// more noise the best batch size grows, which is why a scheduler that sets
// batch size and GPUs together gets more out of a cluster than one that fixes
// either.
//
// # Measuring
//
// None of this is known when a job starts. Its agent measures steps, keeps their
// mean times in a Profile and fits the parameters to them (Fitter).
// Growth keeps a job from growing faster than it learns. A Report carries the
// results to the scheduler, for policies that predict by themselves also losses
// (LossLog) and step times (StepTimes). The simulator and the daemon make their
// reports with the same functions. The agent inside a real job is Python
// (python/src/fairway): it also estimates the noise scale from its gradients and
// adapts the learning rate. testdata/vectors.json holds the two to the same numbers.
//
// The package is pure mathematics: it knows no jobs, no nodes and no clock.
package goodput
