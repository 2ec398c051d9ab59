// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Package trace provides workloads for the simulator: it reads published job traces,
// generates new ones from a seed, and computes statistics of a workload.
//
// # Reading
//
// Read turns a file into a sim.Workload. Each format has one file in this package,
// which begins with a comment about its columns. A malformed row is an error that
// names file, line, column and value; with Options.SkipBad it is counted instead. A
// well-formed row that cannot be replayed (a job without GPUs, a job that never
// started) is dropped and counted by reason. Files are read as a stream and never
// held whole.
//
// Fairway's own format is JSON Lines and is written by Write; it is described
// in docs/workload-format.md.
//
// # Generating
//
// Generate draws a workload that resembles a published one: the Philly cluster, the
// Pollux evaluation, the Themis apps or the Horus cluster. Its numbers are tables in
// this package, each with its source. The same Gen gives the same bytes.
//
// # Time
//
// Calendar times without a zone are read as UTC, as if the clock never changed.
// Traces that count seconds from their own start begin at Epoch.
package trace
