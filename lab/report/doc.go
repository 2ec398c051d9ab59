// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Package report makes files for people: an HTML page that compares what
// policies did in simulations, a CSV of every job, and an HTML page of what is
// in a workload, beside the Philly paper's figures.
//
// A page holds everything it needs (data, style, script) and opens from disk
// without a network. Its size is bounded: curves are thinned, the chart of
// single jobs shows a choice of them, and long lists are cut; the page says so
// where it is the case. The same results give the same bytes.
//
// The scripts in web/ are joined in the order of the lists in write.go and
// stats.go. app.js is the page of simulations and stats.js that of a workload;
// the others know of neither, so that another page can use them.
package report
