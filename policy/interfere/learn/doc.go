// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Package learn makes the interference models of package interfere from pairs that
// were measured (lab/profiling/data), and says how well they predict pairs of models
// that they have not seen.
package learn
