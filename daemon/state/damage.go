// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"context"
	"fmt"
	"strings"

	"github.com/fairway-gpu/fairway/api"
)

// setDamage notes that records were lost, or that this was acknowledged.
func (m *memory) setDamage(r *api.Record) {
	if r.Damage.Text == "" {
		m.Damages = nil
		return
	}
	m.Damages = append(m.Damages[:len(m.Damages):len(m.Damages)], *r.Damage)
}

// describeDamage says what was lost, for those who can acknowledge it.
func describeDamage(list []api.Damage) string {
	var texts []string
	for _, d := range list {
		texts = append(texts, fmt.Sprintf("%s: %s", d.At.Format("2006-01-02 15:04"), d.Text))
	}
	return "the journal has lost records: " + strings.Join(texts, "; ") + " (see which jobs are missing, submit them again; see that policy, tenants and cordons are as you set them; then: fairway journal acknowledge)"
}

// Damaged notes a loss that was found beside the journal.
func (b *Store) Damaged(ctx context.Context, text string) error {
	return b.commit(ctx, func(t *tx) error {
		t.actor = "machine"
		return t.add(api.Record{Damage: &api.Damage{At: t.now, Text: text}, Text: text})
	})
}

// AcknowledgeDamage implements api.Cluster: an administrator knows what was lost.
func (b *Store) AcknowledgeDamage(ctx context.Context, who api.Identity) ([]api.Damage, error) {
	if err := who.Require(api.Admin); err != nil {
		return nil, err
	}
	var known []api.Damage
	err := b.commit(ctx, func(t *tx) error {
		if known = t.mem.Damages; len(known) == 0 {
			return nil
		}
		t.actor = who.User
		return t.add(api.Record{Damage: &api.Damage{}, Text: "damage acknowledged"})
	})
	return known, err
}
