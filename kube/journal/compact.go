// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"context"
	"fmt"
	"slices"
)

// Compact implements state.Journal.
func (j *Journal) Compact(payload []byte, upTo uint64) error {
	j.compact.Lock()
	defer j.compact.Unlock()
	if j.Fenced() {
		return ErrFenced
	}
	data, err := pack([][]byte{payload})
	if err != nil {
		return err
	}
	ctx := context.Background()
	page := Page{Name: snapshotName(upTo), Holds: snapshot, First: upTo, Leader: j.Leader}
	if err := j.write(ctx, page, data); err != nil {
		return fmt.Errorf("write snapshot %d: %w", upTo, err)
	}
	j.mu.Lock()
	j.snap, j.upTo, j.has = payload, upTo, true
	j.hot = slices.DeleteFunc(j.hot, func(p hotPage) bool { return p.first+uint64(p.count) <= upTo+1 })
	j.mu.Unlock()
	return j.sweep(ctx, upTo)
}

// sweep removes the pages that a snapshot replaces, and parts without a page.
func (j *Journal) sweep(ctx context.Context, upTo uint64) error {
	pages, err := j.Pages.List(ctx)
	if err != nil {
		return fmt.Errorf("list the pages of the journal: %w", err)
	}
	used := map[string]bool{}
	var old, parts []Page
	for _, p := range pages {
		switch {
		case p.Holds == part:
			parts = append(parts, p)
		case p.Holds == snapshot && p.First < upTo, p.Holds == records && p.First+uint64(p.Count) <= upTo+1:
			old = append(old, p)
		default:
			for _, name := range p.Parts {
				used[name] = true
			}
		}
	}
	for _, p := range parts {
		// A part that this leader wrote may belong to a page that is being written.
		if !used[p.Name] && (p.Leader != j.Leader || belongs(p, old)) {
			old = append(old, p)
		}
	}
	for _, p := range old {
		if err := j.Pages.Delete(ctx, p.Name); err != nil {
			return fmt.Errorf("remove page %s: %w", p.Name, err)
		}
	}
	return nil
}

func belongs(p Page, to []Page) bool {
	return slices.ContainsFunc(to, func(q Page) bool { return slices.Contains(q.Parts, p.Name) })
}
