// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"
)

// The names of the files of a journal.
const (
	hotName     = "journal.db"
	newName     = "journal.db.new" // a hot file that is being written
	lockName    = "journal.pid"
	archiveName = "archive"
)

// syncDir makes the names in a folder durable.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// stamp is a time as part of a file name.
func stamp(t time.Time) string { return t.UTC().Format("20060102T150405.000000000Z") }

// setAside gives a file a second name, so that it stays when another file is
// renamed over it; where there are no links it is copied.
func setAside(path, other string) error {
	err := os.Link(path, other)
	if err == nil || errors.Is(err, os.ErrExist) {
		return err
	}
	return copyFile(path, other)
}

// copyFile copies a file durably.
func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	if err = errors.Join(err, out.Sync(), out.Close()); err != nil {
		os.Remove(to)
		return err
	}
	return syncDir(filepath.Dir(to))
}

// replaceHot makes the file under newName the hot file.
func replaceHot(dir string) error {
	if err := os.Rename(filepath.Join(dir, newName), filepath.Join(dir, hotName)); err != nil {
		return fmt.Errorf("replace %s: %w", hotName, err)
	}
	return syncDir(dir)
}
