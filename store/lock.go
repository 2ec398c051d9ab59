// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Open waits lockTimeout for another process to release the lock, and tries every
// lockRetry.
const (
	lockTimeout = time.Second
	lockRetry   = 20 * time.Millisecond
)

// acquire locks a journal for this process and writes its id into the lock file.
//
// The lock is on journal.pid, not on the database: shrink and salvage rename a new
// file over the database, and a process waiting for a lock on the old file would
// get it once that file is closed, and write to a file without a name. journal.pid
// is never renamed or removed, so its holder owns the name journal.db. bbolt locks
// the database as well, which keeps its own tools out.
func acquire(dir string) (*os.File, error) {
	path := filepath.Join(dir, lockName)
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open journal lock (the daemon must be able to write to %s): %w", dir, err)
	}
	for waited := time.Duration(0); ; waited += lockRetry {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			break
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			f.Close()
			return nil, fmt.Errorf("lock %s: %w", path, err)
		}
		if waited >= lockTimeout {
			defer f.Close()
			return nil, locked(filepath.Join(dir, hotName), f)
		}
		time.Sleep(lockRetry)
	}
	// The number is only for people: the lock holds without it, even if the disk is
	// full.
	if f.Truncate(0) == nil {
		_, _ = f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	}
	return f, nil
}

// locked returns an error that names the holder of a journal, if known.
func locked(path string, lock *os.File) error {
	b, _ := io.ReadAll(io.NewSectionReader(lock, 0, 32))
	holder := "another process"
	if pid, err := strconv.Atoi(strings.TrimSpace(string(b))); err == nil && pid > 0 {
		holder = fmt.Sprintf("process %d", pid)
	}
	return fmt.Errorf("open journal %s: %w by %s; stop it first", path, ErrLocked, holder)
}
