// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Package repro compares our results with published ones: each experiment runs
// the simulator and prints, as Markdown, our result next to that of the paper or
// the reference implementation, whether they agree or not.
package repro
