// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package local

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fairway-gpu/fairway/api"
)

// smallDisk mounts a file system that is easily filled.
func smallDisk(t *testing.T, options string) string {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount("small", dir, "tmpfs", 0, options); err != nil {
		t.Skipf("NOT TESTED: a small disk cannot be mounted here: %v (run as root)", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// fillBytes takes all space of a disk, fillInodes all its inodes.
func fillBytes(t *testing.T, dir string) {
	t.Helper()
	f, err := os.Create(filepath.Join(dir, "filler"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for err == nil {
		_, err = f.Write(make([]byte, 4096))
	}
	if !errors.Is(err, unix.ENOSPC) {
		t.Fatal(err)
	}
}

func fillInodes(t *testing.T, dir string) {
	t.Helper()
	if err := os.Mkdir(filepath.Join(dir, "filler"), 0o700); err != nil {
		t.Fatal(err)
	}
	for n := 0; ; n++ {
		if err := os.WriteFile(filepath.Join(dir, "filler", fmt.Sprint(n)), nil, 0o600); errors.Is(err, unix.ENOSPC) {
			return
		} else if err != nil {
			t.Fatal(err)
		}
	}
}

// TestFullDisk: on a full disk nothing is started, no attempt counts, and starting
// resumes by itself.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		options string
		fill    func(*testing.T, string)
	}{
		"bytes":  {"size=8m", fillBytes},
		"inodes": {"size=8m,nr_inodes=400", fillInodes},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			disk := smallDisk(t, c.options)
			r := newRig(t, func(cfg *Config) { cfg.Dir, cfg.Probe = filepath.Join(disk, "data"), 50*time.Millisecond })
			first := attempt("first", 1, 0b1, "exit 0")
			r.orders.set(first)
			if e := r.exit(first.AttemptID); !e.OK() {
				t.Fatalf("%s; want that it runs while there is room", show(e))
			}
			c.fill(t, disk)
			for n := range 4 {
				a := attempt(fmt.Sprint("held-", n), 1, 0b1, "exit 0")
				r.orders.set(a)
				if e := r.exit(a.AttemptID); !e.Saw(api.HostHeldBack) || !strings.Contains(e.Why, "full") && !strings.Contains(e.Why, "no space") {
					t.Errorf("%s; want that it is held back for want of room", show(e))
				}
			}
			if why := r.m.Paused(); !strings.Contains(why, "is full") {
				t.Errorf("paused: %q; want that the disk is full", why)
			}
			if err := os.RemoveAll(filepath.Join(disk, "filler")); err != nil {
				t.Fatal(err)
			}
			eventually(t, "starting resumes", func() bool { return r.m.Paused() == "" })
			again := attempt("held-0", 2, 0b1, "exit 0")
			r.orders.set(again)
			if e := r.exit(again.AttemptID); !e.OK() {
				t.Errorf("%s; want that it runs when there is room again", show(e))
			}
		})
	}
}

// TestReadOnlyDisk: what statfs does not tell is found by a start that fails.
func TestReadOnlyDisk(t *testing.T) {
	t.Parallel()
	disk := smallDisk(t, "size=8m")
	r := newRig(t, func(cfg *Config) { cfg.Dir, cfg.Probe = filepath.Join(disk, "data"), 50*time.Millisecond })
	remount := func(flags uintptr) {
		t.Helper()
		// The lock of the folder is open for writing, which a plain remount refuses.
		if err := unix.Mount("", disk, "", unix.MS_REMOUNT|unix.MS_BIND|flags, ""); err != nil {
			t.Skipf("NOT TESTED: the disk cannot be made read-only here: %v", err)
		}
	}
	if err := unix.Mount(disk, disk, "", unix.MS_BIND, ""); err != nil {
		t.Skipf("NOT TESTED: no bind mounts here: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(disk, unix.MNT_DETACH) })
	remount(unix.MS_RDONLY)
	a := attempt("a", 1, 0b1, "exit 0")
	r.orders.set(a)
	if e := r.exit(a.AttemptID); !e.Saw(api.HostHeldBack) || !strings.Contains(e.Why, "read-only") {
		t.Errorf("%s; want that it is held back", show(e))
	}
	if why := r.m.Paused(); !strings.Contains(why, "read-only") {
		t.Errorf("paused: %q; want that the disk is read-only", why)
	}
	remount(0)
	eventually(t, "starting resumes", func() bool { return r.m.Paused() == "" })
}

// TestHeldBack: a start that failed because the machine ran out of something counts against
// no job, also if there is room again a moment later.
func TestHeldBack(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	for err, want := range map[error]bool{
		fmt.Errorf("start a process: %w", unix.EAGAIN): true,
		fmt.Errorf("open a log: %w", unix.EMFILE):      true,
		fmt.Errorf("write a file: %w", unix.EIO):       true,
		errors.New("there is no such program"):         false,
	} {
		if e, held := r.m.heldBack(api.AttemptID{Job: "a", Number: 1}, err); held != want || held && !e.Saw(api.HostHeldBack) {
			t.Errorf("%v: held back %v, %s; want %v", err, held, show(e), want)
		}
	}
	if why := r.m.Paused(); why != "" {
		t.Errorf("paused: %q; want that others start", why)
	}
}
