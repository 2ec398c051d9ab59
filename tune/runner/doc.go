// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Package runner runs searches for hyper-parameters over the services of a daemon:
// it is an app scheduler for real processes.
//
// It compares what is known about a search (its trials, how they ended, the
// metric they reported) with what package tune says should be, and takes one
// step: new trials, promotions, stops. A step is a record of the journal before
// anything is done about it. Acting on it is then a matter of making the jobs
// follow: a trial that has no job is submitted, with a key that makes sure it
// becomes one job however often that is tried; one that was stopped and still
// runs is cancelled; one that has to wait for others is paused.
//
// The package keeps nothing between two looks, so it can be killed between any
// two instructions: the next one finds the same facts and goes on.
package runner
