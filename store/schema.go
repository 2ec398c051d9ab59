// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"go.etcd.io/bbolt"
)

// version is the schema of the hot file that this package writes.
const version = 1

// Buckets and keys of the hot file. The names, not the values, are the schema.
var (
	bucketMeta      = []byte("meta")
	bucketRecords   = []byte("records")   // key(seq): a frame
	bucketSnapshots = []byte("snapshots") // key(last record it stands for): a frame
	keyVersion      = []byte("version")
	keyOpened       = []byte("opened")

	bucketUnframed = []byte("journal") // version 0: key(seq): the payload as it is
)

// migrations[n] turns a file of version n into one of version n+1. All that are
// needed run in one transaction, after a copy of the file was made.
var migrations = []func(tx *bbolt.Tx) error{
	frameRecords,
}

// frameRecords puts a frame around each record.
func frameRecords(tx *bbolt.Tx) error {
	if err := createBuckets(tx); err != nil {
		return err
	}
	records := tx.Bucket(bucketRecords)
	err := tx.Bucket(bucketUnframed).ForEach(func(k, v []byte) error {
		if len(k) != 8 || v == nil {
			return fmt.Errorf("%w: version 0 has a record under key %x; want 8 bytes", ErrCorrupt, k)
		}
		f := frame{kind: kindRecord, seq: seqOf(k), payload: v}
		return records.Put(k, f.encode())
	})
	if err != nil {
		return err
	}
	return tx.DeleteBucket(bucketUnframed)
}

// createBuckets makes an empty file one of the version that this package writes.
func createBuckets(tx *bbolt.Tx) error {
	for _, name := range [][]byte{bucketMeta, bucketRecords, bucketSnapshots} {
		if _, err := tx.CreateBucket(name); err != nil {
			return fmt.Errorf("create bucket %s: %w", name, err)
		}
	}
	return putVersion(tx, version)
}

func putVersion(tx *bbolt.Tx, n uint64) error {
	return tx.Bucket(bucketMeta).Put(keyVersion, frame{kind: kindVersion, seq: n}.encode())
}

// versionOf returns the schema version of a file.
func versionOf(tx *bbolt.Tx) (uint64, error) {
	meta := tx.Bucket(bucketMeta)
	if meta == nil {
		if tx.Bucket(bucketUnframed) != nil {
			return 0, nil
		}
		return 0, fmt.Errorf("%w: file has neither bucket %q nor bucket %q", ErrCorrupt, bucketMeta, bucketUnframed)
	}
	f, err := decode(meta.Get(keyVersion))
	if err == nil && f.kind != kindVersion {
		err = fmt.Errorf("%w: version is a frame of kind %c", ErrCorrupt, f.kind)
	}
	return f.seq, err
}

// migrate brings an open file to the version of this package.
func migrate(db *bbolt.DB, c Config) error {
	var from uint64
	if err := db.View(func(tx *bbolt.Tx) (err error) {
		from, err = versionOf(tx)
		return err
	}); err != nil {
		return err
	}
	path := filepath.Join(c.Dir, hotName)
	switch {
	case from == version:
		return nil
	case from > version:
		return newer(path, from)
	}
	backup := filepath.Join(c.Dir, fmt.Sprintf("journal-v%d-%s.db", from, stamp(c.Now())))
	if err := copyFile(path, backup); err != nil {
		return fmt.Errorf("copy %s before its migration: %w", path, describe(err))
	}
	err := db.Update(func(tx *bbolt.Tx) error {
		for n := from; n < version; n++ {
			if err := migrations[n](tx); err != nil {
				return fmt.Errorf("migrate %s from version %d to %d: %w", path, n, n+1, err)
			}
		}
		return putVersion(tx, version)
	})
	if err != nil {
		return describe(err)
	}
	c.Log.Info("journal migrated", "file", path, "from", from, "to", version, "backup", backup)
	return nil
}

func newer(path string, found uint64) error {
	return fmt.Errorf("open %s: %w: it has version %d, this program knows up to %d; install the newer program again, or restore the copy made before the migration", path, ErrNewer, found, version)
}

// newHot opens an empty file to become the hot file, without syncs until
// finishHot.
func newHot(dir string) (*bbolt.DB, error) {
	path := filepath.Join(dir, newName)
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	return bbolt.Open(path, 0o600, &bbolt.Options{Timeout: lockTimeout, FreelistType: bbolt.FreelistMapType, NoSync: true})
}

// finishHot makes the new file durable and gives it its name.
func finishHot(dir string, db *bbolt.DB) error {
	if err := db.Sync(); err != nil {
		return fmt.Errorf("sync %s: %w", newName, err)
	}
	db.NoSync = false
	return replaceHot(dir)
}
