// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package loop

import (
	"context"

	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/guard"
)

// Backend is the loop's port to the state it decides on. Package daemon/state
// implements it for one machine and for Kubernetes alike; daemon/bidding wraps it
// to ask bidders first.
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
