// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"go.etcd.io/bbolt"
)

// Limits of what one transaction, and one Append, may write.
const (
	batchAppends   = 4096
	batchBytes     = 16 << 20
	maxAppendBytes = 256 << 20
)

// fill is how full bbolt leaves a page that it splits. Keys only grow, so pages
// need no room for keys in between.
const fill = 0.95

// request is an Append that waits for the committer.
type request struct {
	payloads [][]byte
	bytes    int
	taken    atomic.Bool // by the committer, or by an Append that gave up
	done     chan result
}

type result struct {
	first uint64
	err   error
}

// Append writes records, all or none, and returns the sequence number of the
// first; the others follow it. The records are durable when it returns. Appends
// that wait at the same time share one sync of the disk.
//
// ctx limits only the wait in the queue: once the write has begun, Append returns
// its result. The payloads must not be changed before it returns.
func (s *Store) Append(ctx context.Context, payloads ...[]byte) (first uint64, err error) {
	r := &request{payloads: payloads, done: make(chan result, 1)}
	if len(payloads) == 0 {
		return 0, errors.New("append to journal: no records; want at least one")
	}
	for i, p := range payloads {
		if len(p) > s.cfg.MaxRecord {
			return 0, fmt.Errorf("append to journal: record %d of %d has %d bytes, want at most %d: %w", i+1, len(payloads), len(p), s.cfg.MaxRecord, ErrTooLarge)
		}
		r.bytes += headerSize + len(p)
	}
	if r.bytes > maxAppendBytes {
		return 0, fmt.Errorf("append to journal: %d records have %d bytes together, want at most %d: %w", len(payloads), r.bytes, maxAppendBytes, ErrTooLarge)
	}
	if err := s.enqueue(ctx, r); err != nil {
		return 0, fmt.Errorf("append to journal: %w", err)
	}
	select {
	case res := <-r.done:
		return res.first, res.err
	case <-ctx.Done():
		if r.taken.CompareAndSwap(false, true) {
			return 0, fmt.Errorf("append to journal: %w", context.Cause(ctx))
		}
		res := <-r.done
		return res.first, res.err
	}
}

func (s *Store) enqueue(ctx context.Context, r *request) error {
	s.gate.RLock()
	defer s.gate.RUnlock()
	if s.closed {
		return ErrClosed
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	select {
	case s.queue <- r:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// commitQueued commits until the queue is closed and empty. Each transaction takes
// everything that is queued.
func (s *Store) commitQueued() {
	defer close(s.done)
	for r := range s.queue {
		batch, bytes := s.take(nil, r), r.bytes
	drain:
		for len(batch) < batchAppends && bytes < batchBytes {
			select {
			case r, ok := <-s.queue:
				if !ok {
					break drain
				}
				batch = s.take(batch, r)
				bytes += r.bytes
			default:
				break drain
			}
		}
		if len(batch) > 0 {
			s.commit(batch)
		}
	}
}

func (s *Store) take(batch []*request, r *request) []*request {
	if r.taken.CompareAndSwap(false, true) {
		return append(batch, r)
	}
	return batch
}

// commit writes a batch and answers each of its Appends.
func (s *Store) commit(batch []*request) {
	before := s.Last() // only this goroutine changes it
	seq, bytes := before, 0
	err := s.update(func(tx *bbolt.Tx, term uint64) error {
		records := tx.Bucket(bucketRecords)
		records.FillPercent = fill
		for _, r := range batch {
			for i, p := range r.payloads {
				seq++
				value := frame{kind: kindRecord, seq: seq, term: term, left: uint32(len(r.payloads) - 1 - i), payload: p}.encode()
				if err := records.Put(key(seq), value); err != nil {
					return fmt.Errorf("append record %d to journal: %w", seq, err)
				}
				bytes += len(value)
			}
		}
		return records.SetSequence(seq) // verify looks for the last record
	})
	if err == nil {
		s.mu.Lock()
		s.last, s.live = seq, s.live+int64(bytes)
		s.mu.Unlock()
	}
	next := before + 1
	for _, r := range batch {
		if err != nil {
			r.done <- result{err: err}
			continue
		}
		r.done <- result{first: next}
		next += uint64(len(r.payloads))
	}
}
