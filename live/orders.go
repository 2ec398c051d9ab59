// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package live

import "context"

// Orders is what an executor works from: the attempts that should run. The
// executor makes the machine follow, in any order it needs:
//
//   - an attempt that is in the list and has never been started is started, but
//     only when every earlier attempt of the job and every earlier holder of its
//     GPUs is gone;
//   - an attempt that runs and is not in the list is asked to stop, and killed
//     when its notice is over;
//   - every attempt that was started, or that can never start, ends with exactly
//     one call of Exited that succeeded.
type Orders interface {
	// Attempts returns the attempts that should run now.
	Attempts() []Attempt
	// Leaving returns the attempts that should no longer run and of which no end
	// is known. One that was taken back before the executor saw it is among them:
	// an executor that has never heard of it says so with Exited.
	Leaving() []AttemptID
	// Ordered yields a value when that list may have changed.
	Ordered() <-chan struct{}
	// Started says that the processes of an attempt are up.
	Started(AttemptID)
	// Exited says how an attempt ended. It returns when that is durable, and may
	// be called again for the same attempt after a crash in between.
	Exited(context.Context, Exit) error
}
