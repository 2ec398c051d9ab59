// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/fairway-gpu/fairway/daemon/loop"
	"github.com/fairway-gpu/fairway/daemon/state"
	"github.com/fairway-gpu/fairway/sched"
)

// unread is a backend that notes whether somebody wants to decide.
type unread struct {
	loop.Backend
	asked bool
}

func (u *unread) Snapshot(ctx context.Context) (*sched.Snapshot, error) {
	u.asked = true
	<-ctx.Done()
	return nil, ctx.Err()
}

// TestFirstDecisionWaits: nothing is decided before everything is known.
func TestFirstDecisionWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		nodes, policy := make(chan struct{}), make(chan struct{})
		var b unread
		go func() { _ = Scheduler{State: &state.Store{}, After: []<-chan struct{}{nodes, policy}}.decide(ctx, &b) }()
		for _, known := range []chan struct{}{policy, nodes} {
			if synctest.Wait(); b.asked {
				t.Fatal("it decides before it knows the nodes and the policy")
			}
			close(known)
		}
		if synctest.Wait(); !b.asked {
			t.Error("it knows everything and does not decide")
		}
	})
}
