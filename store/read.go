// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"

	"go.etcd.io/bbolt"
)

// How much one transaction reads. An open read transaction keeps bbolt from
// growing its map, so none stays open while a callback runs.
const (
	chunkRecords = 1024
	chunkBytes   = 1 << 20
)

// Read calls fn for every record from one on, in order, up to the last record at
// the time of the call, reading the archive where needed. from 0 means 1. If fn
// fails, Read stops and returns the error. Records that are no longer there are
// ErrGone; see Oldest. fn may keep the payload and may call the store.
func (s *Store) Read(from uint64, fn func(seq uint64, payload []byte) error) error {
	return s.read(max(from, 1), fn)
}

// ReadHot is Read for the records that no snapshot has moved to the archive yet.
func (s *Store) ReadHot(from uint64, fn func(seq uint64, payload []byte) error) error {
	s.mu.Lock()
	first := s.first
	s.mu.Unlock()
	return s.read(max(from, first), fn)
}

func (s *Store) read(next uint64, fn func(seq uint64, payload []byte) error) error {
	last := s.Last()
	for next <= last {
		frames, err := s.chunk(next, last)
		if err != nil {
			return fmt.Errorf("read record %d of journal: %w", next, err)
		}
		for _, f := range frames {
			if err := fn(f.seq, f.payload); err != nil {
				return err
			}
			next = f.seq + 1
		}
		if len(frames) > 0 {
			continue
		}
		// Not in the hot file, or no longer: Compact adds a segment before it removes
		// the records.
		reached, err := s.readArchived(next, last, fn)
		if err != nil {
			return err
		}
		next = reached
	}
	return nil
}

// chunk reads records of the hot file from one on; none if that one is missing.
func (s *Store) chunk(from, last uint64) ([]frame, error) {
	var out []frame
	err := s.view(func(tx *bbolt.Tx) error {
		size, want := 0, from
		c := tx.Bucket(bucketRecords).Cursor()
		k, v := c.Seek(key(from))
		for ; bytes.Equal(k, key(want)) && want <= last && len(out) < chunkRecords && size < chunkBytes; k, v = c.Next() {
			f, err := decode(v)
			if err == nil && (f.seq != want || f.kind != kindRecord) {
				err = fmt.Errorf("%w: record %d found under key %d", ErrCorrupt, f.seq, want)
			}
			if err != nil {
				return err
			}
			f.payload = bytes.Clone(f.payload)
			out = append(out, f)
			size += len(v)
			want++
		}
		return nil
	})
	return out, err
}

// readArchived reads the rest of the segment that holds a record, and returns
// the record after it.
func (s *Store) readArchived(next, last uint64, fn func(seq uint64, payload []byte) error) (uint64, error) {
	s.mu.Lock()
	i := slices.IndexFunc(s.segments, func(seg segment) bool { return seg.first <= next && next <= seg.last })
	var seg segment
	if i >= 0 {
		seg = s.segments[i]
	}
	oldest := reach(s.segments, s.first)
	s.mu.Unlock()
	gone := fmt.Errorf("read record %d of journal: %w; the oldest is %d", next, ErrGone, oldest)
	if i < 0 {
		return next, gone
	}
	var stopped error // by fn
	err := readSegment(seg, func(f frame) error {
		if f.seq != next {
			return nil // before the requested record
		}
		if f.seq > last {
			return errEnough
		}
		next++
		stopped = fn(f.seq, f.payload)
		return stopped
	})
	switch {
	case stopped != nil:
		return next, stopped
	case errors.Is(err, os.ErrNotExist):
		return next, gone
	case err != nil && !errors.Is(err, errEnough):
		return next, err
	}
	return next, nil
}

// errEnough ends the reading of a segment early.
var errEnough = errors.New("enough")

// Snapshot returns the newest intact snapshot and the last record it replaces; ok
// is false if there is none. To rebuild the state, start from it and Read from
// upTo+1.
func (s *Store) Snapshot() (payload []byte, upTo uint64, ok bool) {
	_ = s.view(func(tx *bbolt.Tx) error {
		c := tx.Bucket(bucketSnapshots).Cursor()
		for k, v := c.Last(); k != nil; k, v = c.Prev() {
			f, err := decode(v)
			if err == nil && f.kind == kindSnapshot && bytes.Equal(k, key(f.seq)) {
				payload, upTo, ok = bytes.Clone(f.payload), f.seq, true
				return nil
			}
		}
		return nil
	})
	return payload, upTo, ok
}
