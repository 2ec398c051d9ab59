// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Package state holds the state of one machine or cluster: the scheduler's state
// and everything else that must survive a crash, as the sum of the records of a
// journal. The API, the loop and the executor read and change it here.
//
// # How a change is made
//
// Every change is a small function that looks at the state and refuses or adds
// records. One goroutine runs these functions in order, in batches: it applies the
// records to the memory, writes the batch to the journal with one sync to the
// disk, and only then answers the callers, notifies the watchers, and lets the
// executor see what should run. So nothing is acknowledged or acted on before it
// is durable, and a busy moment costs one sync instead of hundreds.
//
// If the journal refuses a batch, the memory is ahead of it: the store drops its
// memory and reads the journal again.
//
// # Files
//
// store.go opens and commits, apply.go turns records into memory, view.go turns
// memory into API objects. jobs.go, agent.go, exit.go, decide.go, cluster.go,
// access.go and feed.go each hold one service. fail.go handles a failure,
// quarantine.go several failures on one node; screen.go applies what past jobs
// tell about new ones, share.go what jobs tell about their neighbours.
package state
