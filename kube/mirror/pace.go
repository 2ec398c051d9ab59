// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package mirror

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// pace limits a rate: it hands out turns in the order in which they are requested.
type pace struct {
	fastest time.Duration // between two
	every   time.Duration // between two at present
	burst   int           // turns that can be taken at once after a pause
	next    time.Time
}

func paceOf(rate float32) pace {
	every := time.Duration(float64(time.Second) / float64(rate))
	return pace{fastest: every, every: every, burst: max(1, int(rate))}
}

// writers is the average number of concurrent writes if the API server is slow, where
// other requests matter more than status writes.
const writers = 8

// took adapts the rate to how long writes take.
func (p *pace) took(d time.Duration) {
	const weight = 8 // of the previous average
	p.every = max(p.fastest, (p.every*(weight-1)+d/writers)/weight)
}

// turn returns the time of the next turn.
func (p *pace) turn(now time.Time) time.Time {
	if first := now.Add(-time.Duration(p.burst-1) * p.every); p.next.Before(first) {
		p.next = first
	}
	at := p.next
	p.next = p.next.Add(p.every)
	return at
}

// turn is the time at which an object may be written.
type turn struct {
	at     time.Time
	urgent bool
}

// mayWrite reports whether an object may be written now. If not, the object is
// reconciled again when its turn comes, and one write then carries all changes: under
// load, writes merge. No worker waits meanwhile.
func (m *Mirror) mayWrite(k key, urgent bool) bool {
	gap := m.TextGap
	if urgent {
		gap = m.Gap
	}
	now := m.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	if last, before := m.written[k]; before {
		if wait := last.Add(gap).Sub(now); wait > 0 {
			m.queue.AddAfter(k, wait)
			return false
		}
	}
	t, has := m.turns[k]
	if !has || urgent && !t.urgent {
		by := &m.lazy
		if urgent {
			by = &m.quick
		}
		t = turn{at: by.turn(now), urgent: urgent}
		m.turns[k] = t
	}
	if wait := t.at.Sub(now); wait > 0 {
		m.queue.AddAfter(k, wait)
		return false
	}
	delete(m.turns, k)
	return true
}

// timed makes a write and records its time and duration.
func (m *Mirror) timed(k key, write func() error) error {
	begin := m.Now()
	err := write()
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.Now()
	m.quick.took(now.Sub(begin))
	m.lazy.took(now.Sub(begin))
	if err == nil {
		m.written[k] = now
	}
	return err
}

// returnTurn returns the turn of an object that no longer needs a write.
func (m *Mirror) returnTurn(k key) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.turns, k)
}

// write writes what differs in the status of an object, or requeues the object for its
// turn.
func (m *Mirror) write(ctx context.Context, k key, was, next client.Object, urgent bool) (done bool, err error) {
	if !m.mayWrite(k, urgent) {
		return false, nil
	}
	patch := client.MergeFromWithOptions(was, client.MergeFromWithOptimisticLock{})
	err = m.timed(k, func() error { return m.Client.Status().Patch(ctx, next, patch) })
	switch {
	case apierrors.IsNotFound(err):
		return false, nil
	case apierrors.IsConflict(err):
		return false, errRequeue // the cache is behind
	case err != nil:
		return false, fmt.Errorf("write status: %w", err)
	}
	return true, nil
}
