// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Package loop drives the core in real time: it takes a snapshot, asks the
// policy, lets the guard review the plan, applies the decision, and sleeps until
// something changes or the policy asked to be woken.
//
// # Desired and actual state
//
// A decision is durable (a record of the journal, an object of the API server)
// before anything acts on it. Reality follows: an executor compares the attempts
// that should run with the processes that do run. Whoever crashes in between
// finds the same two lists on return, so there is nothing to undo: no job is
// lost, and none runs twice, because an attempt starts only after every earlier
// attempt of the same job and every earlier holder of its GPUs is known to be
// gone.
package loop
