// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"context"
	"encoding/json"
)

// maybeCompact replaces the records by a snapshot when there are many. It copies
// the memory now; the rest runs beside the committer.
func (b *Store) maybeCompact() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.busyC || b.sinceC < b.CompactEvery {
		return
	}
	b.busyC, b.sinceC = true, 0
	saved := b.mem.save()
	b.compaction.Go(func() {
		err := b.compact(saved)
		if err != nil {
			b.Log.Error("compact the journal", "err", err)
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		b.busyC = false
	})
}

func (b *Store) compact(s Saved) error {
	payload, err := json.Marshal(&s)
	if err != nil {
		return err
	}
	return b.Journal.Compact(payload, s.Seq)
}

// Compact replaces all records by a snapshot now. The copy is made between two
// changes, and used only if the journal has accepted those before it.
func (b *Store) Compact(ctx context.Context) error {
	var saved Saved
	err := b.commit(ctx, func(t *tx) error {
		saved = t.mem.save()
		b.sinceC = 0
		return nil
	})
	if err != nil {
		return err
	}
	return b.compact(saved)
}
