// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Package live runs the core in real time: the loop, the port it acts through,
// and the nouns that the daemon, its store, its API and its clients share.
//
// # Desired and real
//
// The scheduler's State says what should be: a decision is durable (a record
// of the journal, an object of the API server) before anything is done about
// it. What really runs follows: an executor compares the attempts that should
// run with the processes that do, starts a gang only when nothing else is left
// on its GPUs, and reports how each attempt ended. Whoever crashes in between
// finds the same two lists when it comes back, so there is nothing to undo: no
// job is lost, and none runs twice, because an attempt is started only after
// every earlier attempt of the same job and every earlier holder of its GPUs
// is known to be gone.
//
// # The pieces
//
//   - Backend is the port of the loop: Snapshot, Apply, Changed.
//   - Run is the loop.
//   - Task, Submission, Job, Record are what is submitted, shown and kept.
//   - Attempt is one run of a job; Exit is how it ended.
//   - AgentReport is what a job's agent tells.
//   - Error carries a code, the field at fault and a remedy.
package live
