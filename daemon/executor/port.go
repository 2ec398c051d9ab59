// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Package executor defines the port between the daemon and what starts jobs on
// real hardware: processes of one machine (package local) or pods of a cluster
// (kube/pods). An executor reads from its Port what should run, makes the world
// follow, and reports how each attempt ended. Package executortest is the
// conformance suite that every executor passes.
package executor

import (
	"context"

	"github.com/fairway-gpu/fairway/api"
)

// Port is an executor's view of the daemon: the attempts that should run. The
// executor makes the machine follow, in any order it needs:
//
//   - an attempt that is in the list and was never started is started, but only
//     when every earlier attempt of the job and every earlier holder of its GPUs
//     is gone;
//   - an attempt that runs and is not in the list is asked to stop, and killed
//     when its grace period is over;
//   - every attempt that was started, or that can never start, ends with exactly
//     one successful call of Exited.
type Port interface {
	// Attempts returns the attempts that should run now.
	Attempts() []api.Attempt
	// Withdrawn returns the attempts that should no longer run and whose end is
	// not known yet. An attempt that was withdrawn before the executor saw it is
	// among them: an executor that never heard of it says so with Exited.
	Withdrawn() []api.AttemptID
	// Ordered yields a value when either list may have changed.
	Ordered() <-chan struct{}
	// Started says that the processes of an attempt are up.
	Started(api.AttemptID)
	// Exited says how an attempt ended. It returns when that is durable, and may
	// be called again for the same attempt after a crash in between.
	Exited(context.Context, api.Exit) error
}
