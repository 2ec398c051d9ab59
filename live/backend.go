// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"context"

	"github.com/fairway-gpu/fairway/guard"
	"github.com/fairway-gpu/fairway/sched"
)

// Backend is the port of the loop to the world. The local machine and
// Kubernetes implement it; package backendtest says what they must keep.
type Backend interface {
	// Snapshot returns the world now. It stays valid, and unchanged, however
	// long the loop thinks about it.
	Snapshot(context.Context) (*sched.Snapshot, error)
	// Apply makes a decision durable and begins to carry it out. An action that
	// no longer makes sense, because its job has ended, was paused or has changed
	// since the snapshot, is left out. Applying the same decision again changes
	// nothing.
	Apply(context.Context, Decision) error
	// Changed yields a value when something happened since the last snapshot that
	// a policy may care about. Several changes may give one value.
	Changed() <-chan struct{}
}

// Decision is what a policy decided on a snapshot.
type Decision struct {
	Policy   string
	Snapshot *sched.Snapshot
	Actions  []sched.Action
	Plan     sched.Plan
	Vetoes   []guard.Veto // what the guard changed about the policy's plan
}
