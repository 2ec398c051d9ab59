// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package local

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// maxRecord bounds a file of an attempt's folder, in bytes. A task may have
// 128 KiB of arguments and 64 KiB of environment.
const maxRecord = 4 << 20

// writeRecord replaces a file by a value in JSON, durably: after a power failure
// the file holds the old value or the new one.
func writeRecord(path string, v any) error {
	if err := replace(path, v, true); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

// placeRecord replaces a file by a value in JSON without a sync, for values that
// mean nothing after a reboot.
func placeRecord(path string, v any) error { return replace(path, v, false) }

func replace(path string, v any, durable bool) error {
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	temp := fmt.Sprintf("%s.%d.new", path, os.Getpid())
	if err = writeFile(temp, data, durable); err == nil {
		err = os.Rename(temp, path)
	}
	if err != nil {
		os.Remove(temp)
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

func writeFile(path string, data []byte, durable bool) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if durable && err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

func syncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// readRecord reads what writeRecord wrote. A missing file is os.ErrNotExist.
func readRecord(path string, v any) error {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxRecord+1))
	if err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	if len(data) > maxRecord {
		return fmt.Errorf("read %s: more than %d bytes", path, maxRecord)
	}
	if err := json.Unmarshal(data, v); err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	return nil
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// errHeld means that another process has the lock.
var errHeld = errors.New("is locked by another process")

// takeLock opens and locks a file, or fails with errHeld at once. Closing the file
// releases the lock, unless a started process has the file too.
func takeLock(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("%s %w", path, errHeld)
		}
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return f, nil
}
