// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"
)

// Recovery is what Open found.
type Recovery struct {
	Records uint64 // in the hot file

	// Reason is what was wrong; empty, with all else zero, if nothing was.
	Reason string

	// From is the first missing record: records from it on may have been lost. How
	// many is unknown; Dropped of them were found intact behind a gap.
	From    uint64
	Dropped int

	// SavedTo is the unchanged damaged file, Unused a file with the frames of the
	// dropped records; empty if there is none.
	SavedTo, Unused string

	// MissingFrom to MissingTo are records between the snapshot and the hot file
	// that the archive does not have: the state cannot be rebuilt. 0: none.
	MissingFrom, MissingTo uint64
}

// Open opens the journal of a folder, or creates one. It recovers what it can of a
// damaged journal and reports that in Recovery: the journal is then consistent,
// but records may be missing at its end. Until Close, any other Open fails with
// ErrLocked.
func Open(c Config) (*Store, Recovery, error) {
	c = c.withDefaults()
	if err := c.check(); err != nil {
		return nil, Recovery{}, err
	}
	if err := makeDir(c.Dir); err != nil {
		return nil, Recovery{}, fmt.Errorf("create journal: %w", describe(err))
	}
	lock, err := acquire(c.Dir)
	if err != nil {
		return nil, Recovery{}, err
	}
	s := &Store{cfg: c, lock: lock, queue: make(chan *request, c.Queue), done: make(chan struct{})}
	recovery, err := s.open()
	if err != nil {
		if s.db != nil {
			err = errors.Join(err, s.db.Close())
		}
		lock.Close()
		return nil, Recovery{}, err
	}
	go s.commitQueued()
	return s, recovery, nil
}

// makeDir makes a folder and those above it, durably.
func makeDir(dir string) error {
	if _, err := os.Stat(dir); err == nil {
		return nil
	}
	parent := filepath.Dir(filepath.Clean(dir))
	if err := makeDir(parent); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return syncDir(parent)
}

func (s *Store) open() (Recovery, error) {
	var (
		recovery Recovery
		held     contents
		err      error
	)
	if s.segments, err = listArchive(filepath.Join(s.cfg.Dir, archiveName)); err != nil {
		return recovery, err
	}
	// A crash may have left a copy that was never renamed.
	if err := os.Remove(filepath.Join(s.cfg.Dir, newName)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return recovery, fmt.Errorf("remove unfinished file: %w", err)
	}
	_, err = os.Lstat(s.hotPath())
	switch {
	case err == nil:
		held, err = s.openHot()
	case errors.Is(err, fs.ErrNotExist) && len(s.segments) > 0:
		err = fmt.Errorf("%w: %s is missing, but there is an archive", ErrCorrupt, hotName)
	case errors.Is(err, fs.ErrNotExist):
		if err = s.create(nil, haul{}); err == nil {
			err = replaceHot(s.cfg.Dir)
		}
		if err == nil {
			held, err = s.openHot()
		}
	}
	if errors.Is(err, ErrCorrupt) {
		if recovery, err = s.salvage(err); err == nil {
			held, err = s.openHot()
		}
	}
	if err != nil {
		return recovery, fmt.Errorf("open journal %s: %w", s.hotPath(), describe(err))
	}
	err = s.begin(held, &recovery)
	return recovery, err
}

// begin reconciles the hot file with the archive.
func (s *Store) begin(held contents, recovery *Recovery) error {
	s.first, s.last, s.live = held.first, held.last, held.live
	if held.first == 0 { // no records
		s.last = held.snapshot
		for _, seg := range s.segments {
			s.last = max(s.last, seg.last)
		}
		s.first = s.last + 1
	}
	recovery.Records = s.last + 1 - s.first
	if recovery.Reason != "" {
		recovery.From = s.last + 1
	}
	if oldest := reach(s.segments, s.first); oldest > held.snapshot+1 {
		recovery.MissingFrom, recovery.MissingTo = held.snapshot+1, oldest-1
		if recovery.Reason == "" {
			recovery.Reason = fmt.Sprintf("records %d to %d are neither in the archive nor in a snapshot", held.snapshot+1, oldest-1)
		}
	}
	if err := s.dropOrphans(recovery.Reason != ""); err != nil {
		return err
	}
	opened := max(held.opened, held.term>>32) + 1
	s.term = opened << 32
	return s.update(func(tx *bbolt.Tx, term uint64) error {
		return tx.Bucket(bucketMeta).Put(keyOpened, frame{kind: kindOpened, seq: opened, term: term}.encode())
	})
}

// dropOrphans removes segments whose records are all still in the hot file: a
// Compact wrote them and did not finish. After damage they are only renamed.
func (s *Store) dropOrphans(damaged bool) error {
	var kept []segment
	for _, seg := range s.segments {
		var err error
		switch {
		case seg.first < s.first:
			kept = append(kept, seg)
		case damaged:
			err = os.Rename(seg.path, seg.path+".orphan-"+stamp(s.cfg.Now()))
		default:
			err = os.Remove(seg.path)
		}
		if err != nil {
			return fmt.Errorf("put aside segment of an unfinished compaction: %w", err)
		}
	}
	s.segments = kept
	return nil
}

// contents is what a hot file holds.
type contents struct {
	first, last uint64 // records; 0 if there are none
	live        int64
	snapshot    uint64 // the newest; 0 if there is none
	opened      uint64
	term        uint64 // the highest
}

// openHot opens the hot file after a check of its pages, brings it to the
// version of this package and checks every frame.
func (s *Store) openHot() (contents, error) {
	if err := checkPages(s.hotPath()); err != nil {
		return contents{}, err
	}
	var held contents
	err := guarded("open "+s.hotPath(), func() (err error) {
		s.db, err = bbolt.Open(s.hotPath(), 0o600, &bbolt.Options{Timeout: lockTimeout, FreelistType: bbolt.FreelistMapType})
		if errors.Is(err, berrors.ErrTimeout) {
			return fmt.Errorf("%w by another program, maybe a tool for bbolt; stop it first", ErrLocked)
		}
		if err != nil {
			return err
		}
		if s.file, err = os.Stat(s.hotPath()); err != nil {
			return err
		}
		if err := migrate(s.db, s.cfg); err != nil {
			return err
		}
		return s.db.View(func(tx *bbolt.Tx) (err error) {
			held, err = verify(tx)
			return err
		})
	})
	if err != nil && s.db != nil {
		db := s.db
		s.db = nil
		_ = guarded("close", db.Close)
	}
	return held, err
}

func checkPages(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s is no regular file (%s); move it away", path, info.Mode())
	}
	return checkFile(f, info.Size())
}

// verify checks every frame of a hot file and that the records have no gap.
func verify(tx *bbolt.Tx) (contents, error) {
	var held contents
	meta, records, snapshots := tx.Bucket(bucketMeta), tx.Bucket(bucketRecords), tx.Bucket(bucketSnapshots)
	if records == nil || snapshots == nil {
		return held, fmt.Errorf("%w: a bucket is missing", ErrCorrupt)
	}
	each := func(want kind, then func(frame) error) func(k, v []byte) error {
		return func(k, v []byte) error {
			f, err := decode(v)
			if err == nil && (f.kind != want || !bytes.Equal(k, key(f.seq))) {
				err = fmt.Errorf("%w: frame %c%d found under key %x", ErrCorrupt, f.kind, f.seq, k)
			}
			if err != nil {
				return err
			}
			held.live += int64(len(v))
			return then(f)
		}
	}
	var left uint32
	err := records.ForEach(each(kindRecord, func(f frame) error {
		if held.first == 0 {
			held.first = f.seq
		} else if f.seq != held.last+1 || f.term < held.term || left > 0 && f.left != left-1 {
			return fmt.Errorf("%w: record %d of term %d follows record %d of term %d", ErrCorrupt, f.seq, f.term, held.last, held.term)
		}
		held.last, held.term, left = f.seq, f.term, f.left
		return nil
	}))
	if err == nil && left > 0 {
		err = fmt.Errorf("%w: %d records are missing after record %d", ErrCorrupt, left, held.last)
	}
	if err != nil {
		return held, err
	}
	err = snapshots.ForEach(each(kindSnapshot, func(f frame) error {
		held.snapshot, held.term = f.seq, max(held.term, f.term)
		return nil
	}))
	if n := records.Sequence(); err == nil && n > max(held.last, held.snapshot) {
		err = fmt.Errorf("%w: records %d to %d are missing at the end", ErrCorrupt, max(held.last, held.snapshot)+1, n)
	}
	if v := meta.Get(keyOpened); err == nil && v != nil {
		var f frame
		f, err = decode(v)
		held.opened, held.term = f.seq, max(held.term, f.term)
	}
	return held, err
}

// seqOf is the inverse of key.
func seqOf(k []byte) uint64 { return binary.BigEndian.Uint64(k) }
