// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Package state keeps the truth of one machine: the scheduler's state and
// everything around it that must survive a crash, as the sum of the records of
// a journal. It answers for that truth to the API, to the loop and to the
// executor.
//
// # How a change is made
//
// Every change is a small function that looks at the state, refuses or adds
// records. One goroutine runs these functions in order, in batches: it applies
// the records to the memory, writes the whole batch to the journal with one
// sync to the disk, and only then answers those who asked, tells those who
// watch, and lets the executor see what it should run. So nothing is
// acknowledged or acted on before it is durable, and a busy moment costs one
// sync and not hundreds.
//
// If the journal refuses a batch, the memory is ahead of it: the store drops
// its memory and reads the journal again.
//
// # Files
//
// store.go opens and commits, apply.go turns records into memory, view.go memory
// into what people see. jobs.go, agent.go, exit.go, decide.go, cluster.go,
// access.go and feed.go each hold one service. fail.go says what follows from a
// failure, quarantine.go from several on one node; screen.go and share.go what
// past jobs say about new ones, and jobs about their neighbours.
package state
