// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"context"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/sched"
)

// buildPolicy makes the policy of a spec, if it works with real jobs.
func (b *Store) buildPolicy(spec string) (sched.Policy, error) {
	p, err := b.Policies.NewLive(spec)
	if err != nil {
		return nil, api.Errorf(api.Invalid, "%w", err).On("policy").Try("list the policies with `fairway policies`, which says what each needs")
	}
	return p, nil
}

// Policy implements api.Cluster.
func (b *Store) Policy(api.Identity) (string, error) {
	return durably(b, func() (string, error) { return b.mem.Policy, nil })
}

// SetPolicy implements api.Cluster.
func (b *Store) SetPolicy(ctx context.Context, who api.Identity, spec string, dryRun bool) (api.PolicyChange, error) {
	if err := who.Require(api.Admin); err != nil {
		return api.PolicyChange{}, err
	}
	next, err := b.buildPolicy(spec)
	if err != nil {
		return api.PolicyChange{}, err
	}
	_, from := b.InForce()
	change, err := foresee(next, b.Peek())
	if err != nil {
		return api.PolicyChange{}, err
	}
	change.From, change.To, change.DryRun = from, spec, dryRun
	if dryRun {
		return change, nil
	}
	err = b.commit(ctx, func(t *tx) error {
		// The first policy has seen a snapshot; the one in force starts with empty
		// caches.
		fresh, err := b.buildPolicy(spec)
		if err != nil {
			return err
		}
		t.actor, t.decides = who.User, true
		if err := t.add(api.Record{Policy: spec, Text: "previous policy: " + t.mem.Policy}); err != nil {
			return err
		}
		b.policy = fresh
		return nil
	})
	return change, err
}

// foresee returns what a policy would do first.
func foresee(p sched.Policy, s *sched.Snapshot) (api.PolicyChange, error) {
	const most = 200
	actions, _, err := sched.Decide(p, s)
	if err != nil {
		return api.PolicyChange{}, err
	}
	c := api.PolicyChange{Actions: []string{}}
	for _, a := range actions {
		switch {
		case a.Moving && a.Verb == sched.Stop:
			c.Moves++
		case a.Moving:
		case a.Verb == sched.Stop:
			c.Stops++
		default:
			c.Starts++
		}
		if len(c.Actions) < most {
			c.Actions = append(c.Actions, a.Text(s.Cluster))
		}
	}
	return c, nil
}
