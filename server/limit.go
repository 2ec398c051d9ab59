// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"sync"
	"time"
)

// limit allows burst things at once and one more every so often.
type limit struct {
	every time.Duration
	burst int
}

// maxBuckets bounds the memory of a limiter, whatever keys are made up.
const maxBuckets = 10_000

// limiter counts by key. A key that was quiet for long enough is forgotten.
type limiter struct {
	limit
	now func() time.Time

	mu sync.Mutex
	// fresh is, by key, when the bucket is full again. It says how many are left
	// at any time before, and a key that is not in it has a full bucket.
	fresh map[string]time.Time
}

func newLimiter(l limit, now func() time.Time) *limiter {
	return &limiter{limit: l, now: now, fresh: map[string]time.Time{}}
}

// take counts one and reports whether it was allowed.
func (l *limiter) take(key string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	if !l.left(key, now) {
		return false
	}
	if len(l.fresh) >= maxBuckets {
		l.forget(now)
	}
	full := l.fresh[key]
	if full.Before(now) {
		full = now
	}
	l.fresh[key] = full.Add(l.every)
	return true
}

// open reports whether one more would be allowed, and counts nothing.
func (l *limiter) open(key string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.left(key, l.now())
}

func (l *limiter) left(key string, now time.Time) bool {
	return l.fresh[key].Sub(now) <= time.Duration(l.burst-1)*l.every
}

// forget drops what is full again, and if that is little, any keys: rather let
// some addresses try a little more than grow without bound. It makes room for
// many, because it looks at all.
func (l *limiter) forget(now time.Time) {
	for key, full := range l.fresh {
		if !full.After(now) {
			delete(l.fresh, key)
		}
	}
	for key := range l.fresh {
		if len(l.fresh) < maxBuckets*9/10 {
			return
		}
		delete(l.fresh, key)
	}
}
