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
//   - an attempt that runs and is in the list with another placement changes in place,
//     when the GPUs it gets are free; if that cannot be done, it is asked to stop, with
//     the reason as Why of its end;
//   - an attempt in the list that should be suspended keeps its processes, frozen, and
//     gives up its GPUs when that was reported; it goes on when it should no longer be
//     suspended and every other holder of its GPUs is gone. If it cannot be suspended, it
//     runs on, and that is reported until it is no longer ordered. Only nodes that can
//     suspend get such orders;
//   - an attempt in the list does not hold its GPUs without running for ever: if its
//     processes do not start, although nothing it has to wait for is left, it ends within
//     a time that the executor bounds, as held back (api.HostHeldBack), with the reason;
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
	// Suspended says that an attempt is suspended as it should be, or goes on again,
	// and what that took; or why it cannot be suspended and runs on. It returns when
	// that is durable.
	Suspended(context.Context, api.Suspended) error
	// Exited says how an attempt ended. It returns when that is durable, and may
	// be called again for the same attempt after a crash in between.
	Exited(context.Context, api.Exit) error
}
