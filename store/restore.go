// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"go.etcd.io/bbolt"
)

// Backup is a journal from outside: what a snapshot holds, and the records that
// follow it.
type Backup struct {
	Snapshot []byte // nil: the records begin with 1
	UpTo     uint64 // the last record that the snapshot replaces
	// Next returns the payload of the next record, and io.EOF after the last.
	Next func() ([]byte, error)
}

// Restore writes a new journal from a backup and returns its last record. It refuses
// to touch a folder that holds a journal, with fs.ErrExist.
func Restore(c Config, b Backup) (last uint64, err error) {
	c = c.withDefaults()
	if err := c.check(); err != nil {
		return 0, err
	}
	if err := makeDir(c.Dir); err != nil {
		return 0, fmt.Errorf("create journal: %w", describe(err))
	}
	lock, err := acquire(c.Dir)
	if err != nil {
		return 0, err
	}
	defer lock.Close()
	for _, name := range []string{hotName, archiveName} {
		if _, err := os.Lstat(filepath.Join(c.Dir, name)); !errors.Is(err, fs.ErrNotExist) {
			return 0, fmt.Errorf("restore journal: %s: %w", filepath.Join(c.Dir, name), errors.Join(fs.ErrExist, err))
		}
	}
	db, err := newHot(c.Dir)
	if err != nil {
		return 0, fmt.Errorf("restore journal: %w", describe(err))
	}
	last, err = b.fill(db, c.MaxRecord)
	if err == nil {
		err = finishHot(c.Dir, db)
	}
	if err = errors.Join(err, db.Close()); err != nil {
		os.Remove(filepath.Join(c.Dir, newName))
		return 0, fmt.Errorf("restore journal: %w", describe(err))
	}
	return last, nil
}

// fill writes the backup into an empty file.
func (b Backup) fill(db *bbolt.DB, largest int) (last uint64, err error) {
	last = b.UpTo
	err = db.Update(func(tx *bbolt.Tx) error {
		if err := createBuckets(tx); err != nil {
			return err
		}
		if b.Snapshot == nil {
			return nil
		}
		return tx.Bucket(bucketSnapshots).Put(key(b.UpTo), frame{kind: kindSnapshot, seq: b.UpTo, payload: b.Snapshot}.encode())
	})
	for more := true; more && err == nil; {
		err = db.Update(func(tx *bbolt.Tx) error {
			records := tx.Bucket(bucketRecords)
			records.FillPercent = fill
			for n, bytes := 0, 0; n < chunkRecords && bytes < batchBytes; n++ {
				payload, err := b.Next()
				if errors.Is(err, io.EOF) {
					more = false
					return nil
				}
				if err != nil {
					return err
				}
				if len(payload) > largest {
					return fmt.Errorf("record %d has %d bytes, want at most %d: %w", last+1, len(payload), largest, ErrTooLarge)
				}
				last++
				bytes += len(payload)
				if err := records.Put(key(last), frame{kind: kindRecord, seq: last, payload: payload}.encode()); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return last, err
}
