// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"errors"
	"fmt"
	"io/fs"
	"runtime/debug"
	"strings"
	"syscall"
)

// The errors of this package, for errors.Is.
var (
	ErrLocked   = errors.New("journal is locked")
	ErrFull     = errors.New("disk is full")
	ErrNewer    = errors.New("journal was written by a newer version")
	ErrCorrupt  = errors.New("journal is corrupt")
	ErrGone     = errors.New("records are gone")
	ErrTooLarge = errors.New("record is too large")
	ErrClosed   = errors.New("journal is closed")

	// ErrMoved means that the hot file was removed or replaced under its name: what
	// is written to it now would be lost with the process. It still reads.
	ErrMoved = errors.New("journal file was removed or replaced")

	// ErrBroken means that the state of the disk is not known: a sync failed, or
	// the file changed under the daemon. After a failed sync the kernel may have
	// dropped what it could not write, so trying again proves nothing; the store
	// refuses all writes until it is opened again.
	ErrBroken = errors.New("journal must be opened again")
)

// describe adds ErrFull to a disk error if the disk or a quota has no room left.
// bbolt formats some errors to text, so it searches the text too.
func describe(err error) error {
	if err == nil || errors.Is(err, ErrFull) {
		return err
	}
	full := errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) ||
		strings.Contains(err.Error(), syscall.ENOSPC.Error()) || strings.Contains(err.Error(), syscall.EDQUOT.Error())
	if full {
		return fmt.Errorf("%w (free some space and try again): %w", ErrFull, err)
	}
	return err
}

// undone reports whether a failed commit is known to have changed nothing: bbolt
// failed while it wrote data pages or grew the file, before any sync failed.
func undone(err error) bool {
	var at *fs.PathError
	if errors.As(err, &at) {
		return at.Op == "write" || at.Op == "truncate"
	}
	return strings.HasPrefix(err.Error(), "file resize error")
}

// errFault marks, along with ErrCorrupt, an error that was a panic: bbolt may
// still hold its locks.
var errFault = errors.New("fault")

// guarded calls fn and turns a panic, or a fault on mapped memory that the file
// no longer backs, into ErrCorrupt.
func guarded(what string, fn func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%w: %s: %w: %v", ErrCorrupt, what, errFault, r)
		}
	}()
	return fn()
}
