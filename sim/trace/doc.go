// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Package trace gives the simulator its workloads: it reads the job traces
// that others have published, draws new ones from a seed, and says what is in
// a workload.
//
// # Reading
//
// Read turns a file into a sim.Workload. Each format is one file of this
// package and begins with a comment that lists the columns and what becomes of
// them. A row that cannot be understood is an error that names file, line,
// column and value; with Options.SkipBad it is counted instead. A row that is
// well formed but cannot be replayed (a job without GPUs, a job that never
// started) is dropped and counted by reason. Files are read as a stream and
// never held whole.
//
// Fairway's own format is JSON Lines and is written by Write; it is described
// in docs/workload-format.md.
//
// # Drawing
//
// Generate draws a workload that looks like a published one: the Philly
// cluster, the Pollux evaluation or the Themis apps. The numbers behind it are
// tables in this package, each with its source. The same Gen gives the same
// bytes.
//
// # Time
//
// Traces that give calendar times without a zone are taken as if the clock
// never changed: the civil time is read as UTC. Traces that count seconds from
// their own beginning start at Epoch.
package trace
