// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Package repro holds our results against published ones: each experiment runs
// the simulator and prints, as Markdown, what we get beside what the paper or
// the reference implementation got, whichever way it falls.
package repro
