// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Package e2e holds the end-to-end tests: the real program, real processes and the real
// store, through the public client.
package e2e
