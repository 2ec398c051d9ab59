// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Package replay reads the journal of a daemon back: as a workload that the
// simulator can run under other policies, and as a list of decisions that can
// be taken again.
//
//   - Read reads an exported journal.
//   - NewPast makes a workload of records: what if another policy had decided?
//   - Verify takes every decision again and says whether it comes out the same.
package replay
