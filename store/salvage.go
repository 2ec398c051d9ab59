// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"go.etcd.io/bbolt"
)

// salvage replaces a damaged hot file by a new one with what it finds in it, and
// keeps the damaged file under another name. cause is the damage.
func (s *Store) salvage(cause error) (Recovery, error) {
	recovery := Recovery{Reason: cause.Error()}
	damaged, err := os.Open(s.hotPath())
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return recovery, err
	}
	var frames []found
	if damaged != nil {
		defer damaged.Close()
		info, err := damaged.Stat()
		if err != nil {
			return recovery, err
		}
		if frames, err = scan(damaged, info.Size()); err != nil {
			return recovery, err
		}
	}
	h := pick(frames, func(from uint64) uint64 { return archivedRun(s.segments, from) })
	if h.version > version {
		return recovery, newer(s.hotPath(), h.version)
	}
	if err := s.create(damaged, h); err != nil {
		return recovery, fmt.Errorf("write what was salvaged: %w", err)
	}
	recovery.Dropped = len(h.unused)
	if err := s.saveDamaged(damaged, h.unused, &recovery); err != nil {
		return recovery, fmt.Errorf("save the damaged file: %w", err)
	}
	return recovery, replaceHot(s.cfg.Dir)
}

// saveDamaged renames the damaged file so that it is kept, and writes the frames
// that could not be used to a separate file.
func (s *Store) saveDamaged(damaged *os.File, unused []found, recovery *Recovery) error {
	if damaged == nil {
		return nil
	}
	when := stamp(s.cfg.Now())
	saved := filepath.Join(s.cfg.Dir, "journal-damaged-"+when+".db")
	if err := setAside(s.hotPath(), saved); err != nil {
		return err
	}
	recovery.SavedTo = saved
	if len(unused) == 0 {
		return syncDir(s.cfg.Dir)
	}
	path := filepath.Join(s.cfg.Dir, "intact-"+when+".bin")
	out, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	for _, f := range unused {
		var b []byte
		if b, err = copyFrame(damaged, f); err == nil {
			_, err = out.Write(b)
		}
		if err != nil {
			break
		}
	}
	if err := errors.Join(err, out.Sync(), out.Close()); err != nil {
		return err
	}
	recovery.Unused = path
	return syncDir(s.cfg.Dir)
}

// create writes the new hot file with what was found in the damaged one.
func (s *Store) create(damaged *os.File, h haul) error {
	db, err := newHot(s.cfg.Dir)
	if err != nil {
		return err
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		if err := createBuckets(tx); err != nil {
			return err
		}
		opened := frame{kind: kindOpened, seq: h.term >> 32}
		return tx.Bucket(bucketMeta).Put(keyOpened, opened.encode())
	})
	fillBucket := func(bucket []byte, frames []found) {
		for batch := range slices.Chunk(frames, chunkRecords) {
			if err == nil {
				err = db.Update(func(tx *bbolt.Tx) error { return transfer(tx.Bucket(bucket), damaged, batch) })
			}
		}
	}
	fillBucket(bucketSnapshots, h.snapshots)
	fillBucket(bucketRecords, h.records)
	if err == nil {
		err = db.Sync()
	}
	return errors.Join(err, db.Close())
}

// transfer copies frames of the damaged file, as they are, to a bucket.
func transfer(to *bbolt.Bucket, from *os.File, frames []found) error {
	to.FillPercent = fill
	for _, f := range frames {
		value, err := copyFrame(from, f)
		if err != nil {
			return err
		}
		if err := to.Put(key(f.seq), value); err != nil {
			return err
		}
	}
	return nil
}

// Unused returns the files with records that were found intact behind a gap, and
// that nobody has brought back, oldest first.
func Unused(dir string) []string {
	paths, _ := filepath.Glob(filepath.Join(dir, "intact-*.bin")) // the pattern is right
	return paths
}

// ReadUnused returns the payloads in such a file.
func ReadUnused(path string) ([][]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	r := bufio.NewReader(file)
	var out [][]byte
	for {
		if _, err := r.Peek(1); errors.Is(err, io.EOF) {
			return out, nil
		}
		f, err := readFrame(r)
		if err != nil {
			return out, fmt.Errorf("read %s: %w", path, err)
		}
		out = append(out, f.payload)
	}
}

// MarkUsed keeps such a file under another name: its records were brought back.
func MarkUsed(path string) error { return os.Rename(path, path+".used") }
