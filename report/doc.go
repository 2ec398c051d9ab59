// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Package report turns what simulations measured into files for people: one
// HTML page that compares policies, and a CSV of every job.
//
// The page holds everything it needs (data, style, script) and opens from
// disk without a network. Its size is bounded: curves are thinned, and the
// chart of single jobs shows a choice of them; the page says so where it is
// the case. The same results give the same bytes.
//
// The scripts in web/ are joined in the order of the list in write.go. All
// but app.js know nothing of simulations, so that another page can use them.
package report
