// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Package runner runs hyper-parameter searches against the API of a daemon: it is an
// app scheduler for real processes.
//
// It compares the state of a search (its trials, their outcomes, the metric they
// reported) with the plan of package tune, and takes one step: new trials,
// promotions, stops. The journal records a step before anything acts on it. Then the
// jobs are brought in line: a trial without a job is submitted, with a key that makes
// it one job however often that is retried; a stopped trial that still runs is
// cancelled; one that has to wait for others is paused.
//
// The package keeps no state between two steps, so it can be killed at any moment:
// the next run finds the same facts and continues.
package runner
