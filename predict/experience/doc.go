// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Package experience remembers how past jobs trained, so that a new job of the
// same kind need not find out everything again.
//
// # What is remembered
//
// A job that ends leaves an Outcome behind: the times it measured on each type
// of GPU, its gradient noise scale over the course of training, what a restart
// cost it and how much work it was. A Pool keeps one Record for each Key (model,
// dataset, user and script) and averages the outcomes of its jobs in it. Every
// job counts once, however long it ran, and after some twenty jobs the older
// ones begin to fade: software and hardware change. A pool is bounded, in
// records and in samples; the records that have not learned for longest go
// first. It is a file that any driver writes and reads.
//
// # What is similar
//
// Key.Similarity orders past jobs for a new one. The same model, dataset and
// script is best, then the same model and dataset, then the same model. If
// either does not name its model, a job of the same script will do, and failing
// that one of the same user. Two jobs that name different models have nothing
// to teach each other. Pool.Nearest finds the best record.
//
// # How it is used
//
// A Prior is a record in the hands of one new job. It stands in for what the
// job has not measured and steps back as the job measures:
//
//   - Prior.Profile adds the samples of the record to those of the job, fewer
//     and lighter the more the job has of its own, and never where the job has
//     measured itself;
//   - Prior.Noise mixes the noise scale of the record with the measured one;
//   - Prior.MostGPUs says how far past jobs went. A job without a past has to
//     double its way up, because a model is hopeful about what it has not seen;
//     with one it may begin where the others ended.
//
// # When it is wrong
//
// Similar is not the same: a script changes, a model gets a new layer. The job
// therefore shows the prior everything it measures (Check, CheckNoise). A
// measurement that is clearly off what the prior expected counts against it,
// and after a few of those, or a single one that is far off, the prior is
// dropped for good and the job goes on as if it never had one. A wrong prior
// costs the job no more than the time of these measurements.
//
// The package reads no clock and draws no random number: the same outcomes in
// the same order make the same file, byte for byte. Pools and priors are not
// safe for concurrent use; a Record never changes once it is made.
package experience
