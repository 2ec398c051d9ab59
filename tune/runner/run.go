// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package runner

import (
	"context"
	"log/slog"
	"time"

	"github.com/fairway-gpu/fairway/api"
)

// Config is what a hunt needs.
type Config struct {
	Jobs   api.Jobs
	Ledger api.SearchLedger
	Log    *slog.Logger
	// Every is the longest time between two looks; 0: 2 s. What was refused (a
	// full queue, say) is tried again then.
	Every time.Duration
	// Pace is the shortest; 0: 50 ms. Looks that take long are further apart.
	Pace time.Duration
}

// Run goes after all searches until the context ends.
func Run(ctx context.Context, c Config) error {
	if c.Every == 0 {
		c.Every = 2 * time.Second
	}
	if c.Pace == 0 {
		c.Pace = 50 * time.Millisecond
	}
	last := map[string]string{} // what was said about each search, so that it is said once
	for {
		said := map[string]string{}
		begin := time.Now()
		for _, s := range c.Ledger.OpenSearches() {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if err := Step(ctx, c, s); err != nil && ctx.Err() == nil {
				id := string(s.ID)
				said[id] = err.Error()
				if last[id] != said[id] {
					c.Log.Warn("run search", "search", id, "err", err)
				}
			}
		}
		last = said
		if err := pause(ctx, c, time.Since(begin)); err != nil {
			return err
		}
	}
}

// pause waits for a reason to look again, after a look that took so long.
func pause(ctx context.Context, c Config, took time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(max(c.Pace, 4*took)):
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-c.Ledger.Searched():
	case <-time.After(c.Every):
	}
	return nil
}
