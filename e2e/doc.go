// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Package e2e holds the tests of the whole: the real program, real processes,
// the real store, through the public client.
package e2e
