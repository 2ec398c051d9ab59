// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"go.etcd.io/bbolt"
)

// Config is where a journal is and how much it may hold.
type Config struct {
	// Dir is the folder of the journal. It is created if it does not exist.
	Dir string

	// Log receives side events: deleted segments, a shrunk file, a migration. Nil:
	// none are logged.
	Log *slog.Logger

	// MaxRecord is the largest payload of a record, in bytes. 0: 4 MiB.
	MaxRecord int

	// ArchiveBytes is how much the archive may hold; beyond it Compact deletes
	// the oldest segments. 0: keep all.
	ArchiveBytes int64

	// Queue is how many Appends may wait for the disk; more of them wait for
	// room in the queue. 0: 1024.
	Queue int

	// Now returns the time, for file names. Nil: time.Now.
	Now func() time.Time
}

func (c Config) withDefaults() Config {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.MaxRecord == 0 {
		c.MaxRecord = 4 << 20
	}
	if c.Queue == 0 {
		c.Queue = 1024
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	return c
}

func (c Config) check() error {
	switch {
	case c.Dir == "":
		return fmt.Errorf("open journal: config dir is empty; want a folder")
	case c.MaxRecord < 0 || c.MaxRecord > maxPayload:
		return fmt.Errorf("open journal: config max record is %d bytes; want 1 to %d", c.MaxRecord, maxPayload)
	case c.ArchiveBytes < 0:
		return fmt.Errorf("open journal: config archive bytes is %d; want 0 (keep all) or more", c.ArchiveBytes)
	case c.Queue < 0:
		return fmt.Errorf("open journal: config queue is %d; want 0 (1024) or more", c.Queue)
	}
	return nil
}

// Store is an open journal. Its methods may be called concurrently.
type Store struct {
	cfg  Config
	lock *os.File

	gate   sync.RWMutex // held for reading while something is put into the queue
	closed bool
	queue  chan *request
	done   chan struct{} // closed when the committer has ended

	swap sync.RWMutex // held for reading while db is used, for writing to replace it
	db   *bbolt.DB
	file os.FileInfo // of db

	compacting sync.Mutex // one Compact at a time

	mu sync.Mutex // guards what follows
	extent
	segments []segment // of the archive, by first record
	term     uint64    // of the last transaction that was tried
	failure  error     // of the last transaction, nil if it succeeded
	broken   bool      // no more writes
	faulted  bool      // bbolt may hold its own locks: do not call it again
	commits  uint64
	lastSync time.Duration

	// fault is called before each commit, in tests; its error simulates a disk
	// error.
	fault func() error
}

// extent is what the hot file holds.
type extent struct {
	first uint64 // the first record that is, or would be, in the hot file
	last  uint64 // the last record of the journal
	live  int64  // bytes of all frames
}

// Last returns the sequence number of the last durable record, 0 if there is
// none.
func (s *Store) Last() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last
}

// Oldest returns the first record from which Read can reach the last one; Last+1
// if there is no record to read.
func (s *Store) Oldest() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return reach(s.segments, s.first)
}

// Stats describes the condition of a journal.
type Stats struct {
	FileBytes    int64         // size of the hot file
	LiveBytes    int64         // of which frames
	ArchiveBytes int64         // size of all segments
	Segments     int           // of the archive
	Records      uint64        // in the hot file
	Oldest, Last uint64        // sequence numbers
	Commits      uint64        // transactions since Open
	LastSync     time.Duration // how long the last one took to reach the disk
	Waiting      int           // Appends in the queue
	Failure      error         // why the last transaction failed, or cannot; nil: it did not
}

// Stats returns the condition of the journal.
func (s *Store) Stats() Stats {
	info, err := os.Stat(s.hotPath())
	s.mu.Lock()
	defer s.mu.Unlock()
	st := Stats{
		LiveBytes: s.live, Segments: len(s.segments), Records: s.last + 1 - s.first,
		Oldest: reach(s.segments, s.first), Last: s.last,
		Commits: s.commits, LastSync: s.lastSync, Waiting: len(s.queue), Failure: s.failure,
	}
	if err == nil {
		st.FileBytes = info.Size()
	}
	for _, seg := range s.segments {
		st.ArchiveBytes += seg.bytes
	}
	return st
}

// Close commits what is queued and releases the journal. Calls after the first
// do nothing.
func (s *Store) Close() error {
	s.gate.Lock()
	if s.closed {
		s.gate.Unlock()
		return nil
	}
	s.closed = true
	close(s.queue)
	s.gate.Unlock()
	<-s.done
	s.compacting.Lock()
	defer s.compacting.Unlock()
	s.swap.Lock()
	defer s.swap.Unlock()
	var err error
	if !s.faulted { // else bbolt might wait for itself; its map and file stay until the process ends
		err = s.db.Close()
	}
	s.db = nil
	if unlockErr := s.lock.Close(); err == nil {
		err = unlockErr
	}
	if err != nil {
		return fmt.Errorf("close journal %s: %w", s.hotPath(), err)
	}
	return nil
}

func (s *Store) hotPath() string { return filepath.Join(s.cfg.Dir, hotName) }

// view reads the hot file.
func (s *Store) view(fn func(tx *bbolt.Tx) error) error {
	s.swap.RLock()
	defer s.swap.RUnlock()
	if s.db == nil {
		return ErrClosed
	}
	s.mu.Lock()
	faulted, failure := s.faulted, s.failure
	s.mu.Unlock()
	if faulted {
		return failure
	}
	err := guarded("read "+s.hotPath(), func() error { return s.db.View(fn) })
	if errors.Is(err, errFault) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.broken, s.faulted = true, true
		s.failure = fmt.Errorf("%w: %w", ErrBroken, err)
		return s.failure
	}
	return err
}

// Check returns ErrMoved if the open file is no longer the one under its name.
func (s *Store) Check() error {
	s.swap.RLock()
	defer s.swap.RUnlock()
	return s.inPlace()
}

// inPlace keeps what is wrong as the failure of the next transaction.
func (s *Store) inPlace() error {
	there, err := os.Stat(s.hotPath())
	if err == nil && os.SameFile(there, s.file) {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.broken {
		return s.failure
	}
	s.failure = fmt.Errorf("%[1]w while the daemon runs: %[2]s; nothing more is written to it. Put it back if it was moved. "+
		"If it is gone, process %[4]d still holds all of it: `fairway journal export --full --data %[3]s --out FILE`, stop the daemon, `fairway journal restore --data %[3]s FILE`", ErrMoved, s.hotPath(), filepath.Dir(s.cfg.Dir), os.Getpid())
	return s.failure
}

// update changes the hot file in one durable transaction, or not at all. fn writes
// its frames with term. An error of fn leaves the store unchanged; a disk error is
// kept as its failure until a later transaction succeeds.
func (s *Store) update(fn func(tx *bbolt.Tx, term uint64) error) error {
	s.swap.RLock()
	defer s.swap.RUnlock()
	if s.db == nil {
		return ErrClosed
	}
	s.mu.Lock()
	if s.broken {
		defer s.mu.Unlock()
		return s.failure
	}
	s.mu.Unlock()
	if err := s.inPlace(); err != nil {
		return err
	}
	var (
		id       int
		refused  error // by fn
		took     time.Duration
		attempt  = func() error { return s.attempt(fn, &id, &refused, &took) }
		diskErr  = guarded("write "+s.hotPath(), attempt)
		unharmed bool
	)
	if refused != nil {
		return refused
	}
	if diskErr != nil && undone(diskErr) {
		unharmed = guarded("", func() error {
			return s.db.View(func(tx *bbolt.Tx) error {
				if tx.ID() >= id {
					return ErrBroken // it was applied after all
				}
				return nil
			})
		}) == nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if diskErr == nil {
		s.failure, s.lastSync = nil, took
		s.commits++
		return nil
	}
	if !strings.Contains(diskErr.Error(), s.hotPath()) {
		diskErr = fmt.Errorf("write %s: %w", s.hotPath(), diskErr)
	}
	s.failure = describe(diskErr)
	if !unharmed {
		s.broken, s.faulted = true, errors.Is(diskErr, errFault)
		s.failure = fmt.Errorf("%w: %w", ErrBroken, s.failure)
	}
	return s.failure
}

// attempt is one transaction. It returns its id, whether fn refused it, and how
// long the disk took.
func (s *Store) attempt(fn func(tx *bbolt.Tx, term uint64) error, id *int, refused *error, took *time.Duration) error {
	tx, err := s.db.Begin(true)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // does nothing after Commit
	*id = tx.ID()
	s.mu.Lock()
	s.term++
	term := s.term
	s.mu.Unlock()
	if *refused = fn(tx, term); *refused != nil {
		return *refused
	}
	if s.fault != nil {
		if err := s.fault(); err != nil {
			return err
		}
	}
	begun := time.Now()
	err = tx.Commit()
	*took = time.Since(begun)
	return err
}
