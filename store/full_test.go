// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"testing"
)

func full() error { return &fs.PathError{Op: "write", Path: hotName, Err: syscall.ENOSPC} }

func TestFullDisk(t *testing.T) {
	dir := t.TempDir()
	s, _ := open(t, Config{Dir: dir})
	appendTo(t, s, 3)
	s.fault = full
	for range 3 {
		_, err := s.Append(context.Background(), []byte("lost"), []byte("too"))
		if !errors.Is(err, ErrFull) || !errors.Is(err, syscall.ENOSPC) || errors.Is(err, ErrBroken) {
			t.Fatalf("Append: %v; want ErrFull", err)
		}
	}
	if st := s.Stats(); st.Failure == nil || st.Last != 3 {
		t.Errorf("Stats = %+v; want a failure and 3 records", st)
	}
	s.fault = nil
	appendTo(t, s, 5)
	if st := s.Stats(); st.Failure != nil {
		t.Errorf("failure %v after a success; want none", st.Failure)
	}
	wantRecords(t, s, 1, 5)
}

// TestFailedSync: after a failed sync nothing more is written until Open.
func TestFailedSync(t *testing.T) {
	dir := t.TempDir()
	s, _ := open(t, Config{Dir: dir})
	appendTo(t, s, 3)
	s.fault = func() error { return syscall.EIO }
	if _, err := s.Append(context.Background(), []byte("x")); !errors.Is(err, ErrBroken) || !errors.Is(err, syscall.EIO) {
		t.Fatalf("Append: %v; want ErrBroken", err)
	}
	s.fault = nil
	if _, err := s.Append(context.Background(), []byte("x")); !errors.Is(err, ErrBroken) {
		t.Fatalf("second Append: %v; want ErrBroken", err)
	}
	if err := s.Compact([]byte("state"), 2); !errors.Is(err, ErrBroken) {
		t.Errorf("Compact: %v; want ErrBroken", err)
	}
	wantRecords(t, s, 1, 3)
	closeStore(t, s)
	s, _ = open(t, Config{Dir: dir})
	appendTo(t, s, 4)
	wantRecords(t, s, 1, 4)
}

// TestPanicInTransaction stands for a bbolt that stumbles over a bad page.
func TestPanicInTransaction(t *testing.T) {
	s, _ := open(t, Config{Dir: t.TempDir()})
	appendTo(t, s, 3)
	s.fault = func() error { panic("page 7: assertion failed") }
	for range 2 {
		if _, err := s.Append(context.Background(), []byte("x")); !errors.Is(err, ErrBroken) || !errors.Is(err, ErrCorrupt) {
			t.Fatalf("Append: %v; want ErrBroken and ErrCorrupt", err)
		}
	}
	if err := s.Read(1, func(uint64, []byte) error { return nil }); !errors.Is(err, ErrBroken) {
		t.Errorf("Read: %v; want ErrBroken", err)
	}
}

// TestFileVanishes: a mapped file that is no longer there is an error, not the
// end of the process, and nothing waits forever.
func TestFileVanishes(t *testing.T) {
	for _, size := range []int64{0, 4096, 8192, 12288} {
		for _, first := range []string{"read", "append"} {
			s, _ := open(t, Config{Dir: t.TempDir()})
			appendTo(t, s, 40)
			if err := os.Truncate(s.hotPath(), size); err != nil {
				t.Fatal(err)
			}
			readErr := func() error { return s.Read(1, func(uint64, []byte) error { return nil }) }
			appendErr := func() error { _, err := s.Append(context.Background(), []byte("x")); return err }
			var err error
			if first == "read" {
				err = readErr()
				_ = appendErr()
			} else {
				err = appendErr()
				_ = readErr()
			}
			if err == nil {
				t.Errorf("first %s after the file was cut to %d bytes: no error", first, size)
			}
			closeStore(t, s)
		}
	}
}

// TestFullFileSystem fills a real file system, where the test may mount one.
func TestFullFileSystem(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=1m"); err != nil {
		t.Skipf("cannot mount a small file system (TestFullDisk covers it with an injected error): %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	s, _, err := Open(Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	n, payload := uint64(0), bytes.Repeat([]byte("y"), 20_000)
	for ; ; n++ {
		_, err := s.Append(context.Background(), payload)
		if err == nil && n < 1000 {
			continue
		}
		if !errors.Is(err, ErrFull) || errors.Is(err, ErrBroken) {
			t.Fatalf("Append %d: %v; want ErrFull", n, err)
		}
		break
	}
	if s.Last() != n {
		t.Errorf("Last = %d; want %d", s.Last(), n)
	}
	if err := s.Compact([]byte("state"), n/2); err != nil && !errors.Is(err, ErrFull) {
		t.Fatalf("Compact on a full disk: %v", err)
	}
	if got := len(contentsOf(t, s, 1)); got != int(n) {
		t.Errorf("%d records; want %d", got, n)
	}
	closeStore(t, s)
	if err := syscall.Mount("tmpfs", dir, "tmpfs", syscall.MS_REMOUNT, "size=8m"); err != nil {
		t.Fatal(err)
	}
	s, recovery, err := Open(Config{Dir: dir})
	if err != nil || recovery.Reason != "" {
		t.Fatalf("Open with room: %+v, %v", recovery, err)
	}
	if first, err := s.Append(context.Background(), payload); err != nil || first != n+1 {
		t.Errorf("Append with room = %d, %v; want %d", first, err, n+1)
	}
	for i, p := range contentsOf(t, s, 1) {
		if p != string(payload) {
			t.Errorf("record %d is wrong", i+1)
		}
	}
	closeStore(t, s)
}

func TestDescribe(t *testing.T) {
	for _, err := range []error{syscall.ENOSPC, syscall.EDQUOT, full(), errors.New("file resize error: truncate x: no space left on device")} {
		if got := describe(err); !errors.Is(got, ErrFull) || !strings.Contains(got.Error(), "free some space") {
			t.Errorf("describe(%v) = %v; want ErrFull and a remedy", err, got)
		}
	}
	if got := describe(os.ErrPermission); errors.Is(got, ErrFull) {
		t.Errorf("describe(%v) = %v", os.ErrPermission, got)
	}
}
