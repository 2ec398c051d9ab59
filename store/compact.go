// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"go.etcd.io/bbolt"
)

// When the hot file is rewritten: bbolt keeps free pages and never shrinks.
const (
	shrinkAbove = 16 << 20
	shrinkRatio = 4 // file size to live bytes
)

// Compact stores a snapshot that replaces all records up to upTo, and moves these
// records to a segment of the archive. Appends continue, except for a short time
// at the end if the hot file is shrunk. The previous snapshot is kept too, in case
// this one becomes unreadable.
func (s *Store) Compact(snapshot []byte, upTo uint64) error {
	s.compacting.Lock()
	defer s.compacting.Unlock()
	if len(snapshot) > maxPayload {
		return fmt.Errorf("compact journal: snapshot has %d bytes, want at most %d: %w", len(snapshot), maxPayload, ErrTooLarge)
	}
	_, before, _ := s.Snapshot()
	s.mu.Lock()
	first, last := s.first, s.last
	s.mu.Unlock()
	if upTo < max(before, 1) || upTo > last {
		return fmt.Errorf("compact journal: snapshot stands for records up to %d; want %d (the last snapshot) to %d (the last record)", upTo, max(before, 1), last)
	}
	if first <= upTo {
		if err := s.archive(first, upTo); err != nil {
			return fmt.Errorf("compact journal: %w", err)
		}
	}
	freed, err := s.settle(snapshot, first, upTo)
	if err != nil {
		return fmt.Errorf("compact journal: %w", err)
	}
	s.mu.Lock()
	s.first = max(s.first, upTo+1)
	s.live += int64(headerSize+len(snapshot)) - freed
	s.mu.Unlock()
	if err := s.retain(); err != nil {
		return fmt.Errorf("compact journal: %w", err)
	}
	if err := s.shrink(); err != nil {
		return fmt.Errorf("shrink journal: %w", describe(err))
	}
	return nil
}

// archive copies records of the hot file to a segment and announces it.
func (s *Store) archive(first, last uint64) error {
	next := first
	seg, err := writeSegment(filepath.Join(s.cfg.Dir, archiveName), segment{first: first, last: last}, func() ([]frame, error) {
		if next > last {
			return nil, nil
		}
		frames, err := s.chunk(next, last)
		if err == nil && len(frames) == 0 {
			err = fmt.Errorf("%w: record %d is missing", ErrCorrupt, next)
		}
		next += uint64(len(frames))
		return frames, err
	})
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.segments = slices.DeleteFunc(slices.Clone(s.segments), func(old segment) bool { return old.path == seg.path })
	s.segments = append(s.segments, seg)
	sortSegments(s.segments)
	return nil
}

// settle stores a snapshot and removes the records it replaces and all older
// snapshots but the previous one. It returns how many bytes were freed.
func (s *Store) settle(snapshot []byte, first, upTo uint64) (freed int64, err error) {
	err = s.update(func(tx *bbolt.Tx, term uint64) error {
		freed = 0
		snapshots, records := tx.Bucket(bucketSnapshots), tx.Bucket(bucketRecords)
		var kept [][]byte
		c := snapshots.Cursor()
		for k, _ := c.Last(); k != nil; k, _ = c.Prev() {
			kept = append(kept, slices.Clone(k))
		}
		kept = slices.DeleteFunc(kept, func(k []byte) bool { return string(k) == string(key(upTo)) })
		freed += int64(len(snapshots.Get(key(upTo))))
		for _, k := range kept[min(1, len(kept)):] {
			freed += int64(len(snapshots.Get(k)))
			if err := snapshots.Delete(k); err != nil {
				return fmt.Errorf("delete snapshot: %w", err)
			}
		}
		value := frame{kind: kindSnapshot, seq: upTo, term: term, payload: snapshot}.encode()
		if err := snapshots.Put(key(upTo), value); err != nil {
			return fmt.Errorf("store snapshot: %w", err)
		}
		for seq := first; seq <= upTo; seq++ {
			freed += int64(len(records.Get(key(seq))))
			if err := records.Delete(key(seq)); err != nil {
				return fmt.Errorf("delete record %d: %w", seq, err)
			}
		}
		return nil
	})
	return freed, err
}

// retain deletes segments that another one contains, which a failed Compact leaves
// behind, and the oldest segments beyond the configured size. It keeps those that
// the previous snapshot would need.
func (s *Store) retain() error {
	var needed uint64 // records up to this one have a snapshot, and a newer one
	err := s.view(func(tx *bbolt.Tx) error {
		c := tx.Bucket(bucketSnapshots).Cursor()
		oldest, _ := c.First()
		if next, _ := c.Next(); next != nil {
			needed = seqOf(oldest)
		}
		return nil
	})
	if err != nil {
		return err
	}
	s.mu.Lock()
	segments := slices.Clone(s.segments)
	s.mu.Unlock()
	var total int64
	for _, seg := range segments {
		total += seg.bytes
	}
	var kept []segment
	var errs []error
	for i, seg := range segments {
		contained := slices.ContainsFunc(segments[i+1:], func(o segment) bool { return o.first == seg.first && o.last > seg.last })
		tooMuch := s.cfg.ArchiveBytes > 0 && total > s.cfg.ArchiveBytes && seg.last <= needed
		if !contained && !tooMuch {
			kept = append(kept, seg)
			continue
		}
		if err := os.Remove(seg.path); err != nil && !errors.Is(err, os.ErrNotExist) {
			errs = append(errs, fmt.Errorf("delete segment: %w", err))
			kept = append(kept, seg)
			continue
		}
		total -= seg.bytes
		s.cfg.Log.Info("journal segment deleted", "file", seg.path, "first", seg.first, "last", seg.last)
	}
	s.mu.Lock()
	s.segments = kept
	s.mu.Unlock()
	return errors.Join(errs...)
}

// shrink rewrites the hot file if most of it is free, while no one reads or
// writes. bbolt locks the new file before it is renamed, and the journal's own
// lock is on another file that stays (see acquire), so no other process can take
// the journal. A crash leaves one of the two files, complete, under the name.
func (s *Store) shrink() error {
	if st := s.Stats(); st.FileBytes <= shrinkAbove || st.FileBytes <= shrinkRatio*st.LiveBytes {
		return nil
	}
	s.swap.Lock()
	defer s.swap.Unlock()
	if s.db == nil {
		return ErrClosed
	}
	s.mu.Lock()
	broken := s.broken
	s.mu.Unlock()
	if broken {
		return nil
	}
	if err := s.inPlace(); err != nil {
		return err // the new file would pass for the one that was put there
	}
	small, err := newHot(s.cfg.Dir)
	if err != nil {
		return err
	}
	err = guarded("copy "+s.hotPath(), func() error { return bbolt.Compact(small, s.db, batchBytes) })
	var file os.FileInfo
	if err == nil {
		file, err = os.Stat(small.Path())
	}
	if err == nil {
		err = finishHot(s.cfg.Dir, small)
	}
	if err != nil {
		return errors.Join(err, small.Close(), os.Remove(filepath.Join(s.cfg.Dir, newName)))
	}
	old := s.db
	s.db, s.file = small, file
	s.cfg.Log.Info("journal shrunk", "file", s.hotPath())
	return old.Close()
}
