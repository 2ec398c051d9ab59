// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Package experience stores what past jobs measured, as a starting point for new jobs
// of the same kind.
//
// # What is stored
//
// A job that ends leaves an Outcome: the times it measured on each GPU type, its
// gradient noise scale over the course of training, the cost of its restarts and its
// amount of work. A Pool has one Record for each Key (model, dataset, user and
// script), which averages the outcomes of its jobs. Every job counts once, however
// long it ran. After about twenty jobs older ones lose weight, because software and
// hardware change. A pool is bounded in records and in samples; the least recently
// updated records are dropped first. A pool is stored as a file that any driver can
// write and read.
//
// # Similarity
//
// Key.Similarity orders past jobs for a new one. The same model, dataset and script
// is best, then the same model and dataset, then the same model. If either job does
// not name its model, the same script counts, and after that the same user. Jobs that
// name different models are not similar. Pool.Nearest finds the best record.
//
// # Use
//
// A Prior is a record used by one new job. It replaces missing measurements and loses
// weight as the job measures:
//
//   - Prior.Profile adds the samples of the record to those of the job, fewer and
//     with less weight the more the job has of its own, and never where the job has
//     measured itself;
//   - Prior.Noise mixes the noise scale of the record with the measured one;
//   - Prior.MostGPUs is the most GPUs that past jobs had. A job without a prior must
//     grow by doubling, because a model is optimistic about what was not measured;
//     with a prior it may start at the size that past jobs reached.
//
// # Wrong priors
//
// A similar job may still differ: a script changes, a model gets a new layer. The job
// therefore compares all its measurements with the prior (Check, CheckNoise). A
// measurement that clearly contradicts the prior counts against it. After a few of
// those, or a single gross one, the prior is dropped for good and the job continues
// as if it never had one. A wrong prior costs the job no more than the time of these
// measurements.
//
// # Run times
//
// Lengths stores how long jobs ran, and draws how long another still runs: from the ages
// at which past jobs ended, the more similar of which count more. How much more is learned,
// because on one cluster the model says most, on another the user or the size. Jobs that
// still run count as longer than they have run; the fewer have ended, the wider draws
// spread.
//
// The package reads no clock, and its random numbers come from its caller: the same
// outcomes in the same order give the same file, byte for byte. Pools and priors are not safe for
// concurrent use; a Record is immutable.
package experience
