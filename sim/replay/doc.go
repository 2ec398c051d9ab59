// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Package replay reads the journal of a daemon: as a workload that the simulator can
// run under other policies, and as a list of decisions to verify.
//
//   - Read reads an exported journal.
//   - NewPast turns records into a workload: what if another policy had decided?
//   - Verify repeats every decision and reports whether the result is the same.
package replay
