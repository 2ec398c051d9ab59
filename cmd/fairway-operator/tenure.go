// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"net/http"
	"strings"
	"sync"
	"time"
)

// tenure keeps an operator from acting when it may lead no longer. One that stood
// still for a while, as a machine under pressure or a paused container does, wakes up
// in the middle of what it was doing, before it learns that its lease is over and that
// another leads. Then it must not write anything: what it believes is of the past.
//
// So every request that would change something is checked at the moment it is sent
// against the time when the lease was last renewed. The journal needs no clock to be
// safe; this is for everything else.
type tenure struct {
	limit time.Duration // after a renewal: less than the lease lasts

	mu      sync.Mutex
	leads   bool
	renewed time.Time // when the last renewal that succeeded was asked for
}

// errOver says that the lease may be over.
var errOver = errors.New("the lease was not renewed in time: another operator may lead")

// begin says that from now on requests are made as the leader.
func (t *tenure) begin() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.leads = true
}

// over reports whether another may lead by now. Where one clock stands still while the
// machine sleeps, the other goes on.
func (t *tenure) over(now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.leads && max(now.Sub(t.renewed), now.Round(0).Sub(t.renewed.Round(0))) > t.limit
}

func (t *tenure) renew(asked time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if asked.After(t.renewed) {
		t.renewed = asked
	}
}

// wrap has all requests of a client checked.
func (t *tenure) wrap(next http.RoundTripper) http.RoundTripper { return &checked{t, next} }

type checked struct {
	tenure *tenure
	next   http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (c *checked) RoundTrip(q *http.Request) (*http.Response, error) {
	now := time.Now()
	changes := q.Method != http.MethodGet && q.Method != http.MethodHead
	switch {
	case strings.Contains(q.URL.Path, "/leases"):
		answer, err := c.next.RoundTrip(q)
		if err == nil && changes && answer.StatusCode < http.StatusMultipleChoices {
			c.tenure.renew(now)
		}
		return answer, err
	case changes && c.tenure.over(now):
		if q.Body != nil {
			_ = q.Body.Close() // a round tripper closes it in any case
		}
		return nil, errOver
	}
	return c.next.RoundTrip(q)
}
