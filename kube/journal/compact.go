// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"context"
	"fmt"
	"slices"
	"time"
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
	used, fences := map[string]bool{}, fencesOf(pages)
	var old, parts []Page
	for _, p := range pages {
		switch {
		case p.Holds == part:
			parts = append(parts, p)
		case p.Holds == snapshot && p.First < upTo, p.Holds == records && p.First+uint64(p.Count) <= upTo+1 && !fences[p.Name]:
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

// fencedFor is how long an operator that no longer leads may take to notice it: longer than any
// lease, any connection and most machines that stand still.
const fencedFor = time.Hour

// fencesOf returns the young pages that do not follow one of the same leader: where the
// leader before would write.
func fencesOf(pages []Page) map[string]bool {
	out, leaderUpTo := map[string]bool{}, map[uint64]string{}
	var newest time.Time
	for _, p := range pages {
		if p.Holds == records {
			leaderUpTo[p.First+uint64(p.Count)] = p.Leader
		}
		if p.Made.After(newest) {
			newest = p.Made
		}
	}
	for _, p := range pages {
		if before, known := leaderUpTo[p.First]; p.Holds == records && !(known && before == p.Leader) && newest.Sub(p.Made) < fencedFor {
			out[p.Name] = true
		}
	}
	return out
}

func belongs(p Page, to []Page) bool {
	return slices.ContainsFunc(to, func(q Page) bool { return slices.Contains(q.Parts, p.Name) })
}
