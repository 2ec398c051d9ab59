// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package loop

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/guard"
)

// Config is what the loop needs.
type Config struct {
	Backend Backend
	// Policy returns the policy in force and its spec. It may return another one
	// each time.
	Policy func() (sched.Policy, string)
	Guard  *guard.Guard // nil: no guard
	Log    *slog.Logger
	// Pace is the least time between two decisions. A decision that takes long is
	// followed by a pause of three times as long, so that the loop never uses
	// more than a quarter of a core on a long queue that changes all the time.
	Pace time.Duration
	// Decided is told of every decision that was applied, and how long the
	// policy thought. May be nil.
	Decided func(Decision, time.Duration)
	// Paused returns why nothing can be started now; nothing is decided until it
	// returns an empty text. May be nil.
	Paused func() string
	// Trouble is told when a decision fails, and with nil when one works again.
	// May be nil.
	Trouble func(error)
}

// DefaultPace is the least time between two decisions unless told otherwise.
const DefaultPace = 50 * time.Millisecond

const (
	longestSleep = time.Hour // a wake further away is looked at again then
	firstRetry   = 100 * time.Millisecond
	longestRetry = 5 * time.Second
	pausedSleep  = time.Second
)

// Run decides whenever something has changed or the policy asked to be woken,
// until the context ends. An error of the backend or a plan that breaks the
// rules is told to Trouble and tried again: the loop itself never gives up.
func Run(ctx context.Context, c Config) error {
	if c.Pace <= 0 {
		c.Pace = DefaultPace
	}
	l := loop{Config: c}
	retry := firstRetry
	for {
		for c.Paused != nil && c.Paused() != "" {
			if !sleep(ctx, pausedSleep) {
				return ctx.Err()
			}
		}
		wake, took, err := l.decide(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if c.Trouble != nil {
			c.Trouble(err)
		}
		if err != nil {
			c.Log.Error("decide", "err", err, "retry", retry)
			if !sleep(ctx, retry) {
				return ctx.Err()
			}
			retry = min(2*retry, longestRetry)
			continue
		}
		retry = firstRetry
		pause := max(c.Pace, 3*took)
		if !sleep(ctx, pause) || !l.wait(ctx, wake-pause) {
			return ctx.Err()
		}
	}
}

type loop struct{ Config }

// decide makes one decision. It returns how long the loop may sleep if nothing
// changes, and how long the policy thought.
func (l *loop) decide(ctx context.Context) (wake, took time.Duration, err error) {
	asked := time.Now()
	s, err := l.Backend.Snapshot(ctx)
	if err != nil {
		return 0, 0, fmt.Errorf("take snapshot: %w", err)
	}
	policy, spec := l.Policy()
	if l.Guard != nil {
		policy = l.Guard.Over(policy)
	}
	begin := time.Now()
	actions, plan, err := sched.Decide(policy, s)
	took = time.Since(begin)
	if err != nil {
		return 0, took, err
	}
	d := Decision{Policy: spec, Snapshot: s, Actions: actions, Plan: plan}
	if l.Guard != nil {
		d.Vetoes = l.Guard.Vetoes()
	}
	if err := l.Backend.Apply(ctx, d); err != nil {
		return 0, took, fmt.Errorf("apply decision: %w", err)
	}
	if l.Guard != nil {
		l.Guard.Carried(s, plan)
	}
	if l.Decided != nil {
		l.Decided(d, took)
	}
	l.Log.Debug("decided", "policy", took, "whole", time.Since(asked), "jobs", len(s.Jobs), "actions", len(actions))
	// A job that waits for its next try is nobody's event when its time comes.
	for _, j := range s.Jobs {
		if j.Phase == sched.Pending {
			plan.WakeBy(s.Now, j.NotBefore)
		}
	}
	wake = longestSleep
	if !plan.Wake.IsZero() {
		wake = min(wake, plan.Wake.Sub(s.Now)-time.Since(begin))
	}
	return wake, took, nil
}

// wait returns at the next change, or after d.
func (l *loop) wait(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(max(0, d))
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-l.Backend.Changed():
	case <-t.C:
	}
	return true
}

func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

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
