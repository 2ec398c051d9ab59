// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Package report writes simulation results: an HTML page that compares policies,
// a CSV of every job, and an HTML page with the statistics of a workload next to
// those of the Philly paper.
//
// A page holds everything it needs (data, style, script) and opens from disk
// without a network. Its size is bounded: curves are thinned, the chart of
// single jobs shows a selection, and long lists are cut; the page says so where
// it applies. The same results give the same bytes.
//
// The scripts in web/ are joined in the order of the lists in write.go and
// stats.go. app.js is the page of simulations and stats.js that of a workload;
// the others depend on neither.
package report
