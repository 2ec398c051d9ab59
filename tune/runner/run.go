// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package runner

import (
	"context"
	"log/slog"
	"time"

	"github.com/fairway-gpu/fairway/api"
)

// Config is the configuration of Run.
type Config struct {
	Jobs   api.Jobs
	Ledger api.SearchLedger
	Log    *slog.Logger
	// Every is the longest time between two checks; 0: 2 s. What was refused (for
	// example by a full queue) is retried then.
	Every time.Duration
	// Pace is the shortest; 0: 50 ms. Slow checks are further apart.
	Pace time.Duration
}

// Run runs all searches until the context ends.
func Run(ctx context.Context, c Config) error {
	if c.Every == 0 {
		c.Every = 2 * time.Second
	}
	if c.Pace == 0 {
		c.Pace = 50 * time.Millisecond
	}
	last := map[string]string{} // the last error logged for each search, to log it once
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

// pause waits for a reason to check again, after a check that took that long.
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
