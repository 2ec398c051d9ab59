// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/sched"
)

// How far the machine's clock may be off before it is not believed at once, and for how
// long it must be so before it is.
const (
	clockTolerance = time.Minute
	clockPatience  = 10 * time.Minute
)

// timekeeper tells the time of the records. It never goes back from one record to the next:
// back-offs, leases and limits are computed from it. It goes on with a clock that nobody
// sets. A machine's clock that was set ahead for a moment changes nothing, and one that
// stays ahead is followed. If it stays behind, the records are set back (CheckClock).
type timekeeper struct {
	mu    sync.Mutex
	last  time.Time     // that it told
	steps time.Duration // of the clock that nobody sets, then
	off   time.Duration // by which the machine's clock is off
	since time.Duration // by steps
}

// read returns the time. floor is that of the last record.
func (c *timekeeper) read(machine time.Time, steps time.Duration, floor time.Time) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	passed := max(0, steps-c.steps)
	now := c.last.Add(passed)
	if c.last.IsZero() {
		now, c.since = machine, steps
	}
	if now.Before(floor) {
		now = floor
	}
	switch off := machine.Sub(now); {
	case off.Abs() <= clockTolerance:
		c.off, c.since = 0, steps
		now = now.Add(max(off, -passed/10)) // never back
	case (off - c.off).Abs() > clockTolerance:
		c.off, c.since = off, steps
	case off > 0 && steps-c.since >= clockPatience:
		now = machine
	}
	c.last, c.steps = now.UTC().Truncate(time.Microsecond), steps
	return c.last
}

// ahead reports whether it has been ahead of the machine's clock for long enough.
func (c *timekeeper) ahead() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.off < 0 && c.steps-c.since >= clockPatience
}

// set makes it go on from a time.
func (c *timekeeper) set(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last, c.off, c.since = now, 0, c.steps
}

// now returns the time of the next record.
func (b *Store) now() time.Time { return b.keeper.read(b.Now(), b.Elapsed(), b.mem.At) }

// CheckClock sets the records back if they have been ahead of the machine's clock for
// ten minutes: a daemon was started while that clock was wrong, or it was wrong for
// long. It is called periodically.
func (b *Store) CheckClock(ctx context.Context) error {
	b.mu.RLock()
	b.now()
	b.mu.RUnlock()
	if !b.keeper.ahead() {
		return nil
	}
	return b.commit(ctx, func(t *tx) error {
		to := b.Now().UTC().Truncate(time.Microsecond)
		by := t.now.Sub(to)
		if by <= clockTolerance {
			return nil
		}
		t.actor, t.decides, t.now = "machine", true, to
		text := fmt.Sprintf("the clock was wrong: times after %s are set back by %s", to.Format(time.RFC3339), by.Round(time.Second))
		b.Log.Warn("set the clock of the records back", "by", by, "to", to)
		if err := t.add(api.Record{SetBack: sched.Duration(by), Text: text}); err != nil {
			return err
		}
		b.keeper.set(to)
		b.past.samples = slices.DeleteFunc(slices.Clone(b.past.samples), func(s api.Sample) bool { return s.At.After(to) })
		return nil
	})
}

// setBack corrects the times that were recorded while the clock was ahead. What was
// shown of the memory is not changed: it is made anew, as from a snapshot.
func (m *memory) setBack(r *api.Record) error {
	payload, err := json.Marshal(m.save())
	if err != nil {
		return err
	}
	var s Saved
	if err := json.Unmarshal(payload, &s); err != nil {
		return err
	}
	tokens := s.Tokens // end when their owners were told
	s.Tokens = nil
	api.SetBack(&s, r.At, r.SetBack.D())
	s.Tokens = tokens
	fresh, err := rebuild(s, m.keep, m.keepBytes)
	if err != nil {
		return err
	}
	fresh.policyKept = m.policyKept
	*m = *fresh
	return nil
}
