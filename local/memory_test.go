// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package local

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fairway-gpu/fairway/sched"
)

// TestMemoryOfAJob: what a job leaves in memory is there for its next attempt, and
// gone when the job has ended.
func TestMemoryOfAJob(t *testing.T) {
	t.Parallel()
	shm, err := os.MkdirTemp("/dev/shm", "fairway-test-")
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { os.RemoveAll(shm) })
	r := newRig(t, func(c *Config) {
		c.Memory, c.Ended = shm, func(id sched.JobID) bool { return id == "ended" }
	})
	const script = `cat $FAIRWAY_MEMORY_DIR/copy; stat -c %a $FAIRWAY_MEMORY_DIR; echo whole > $FAIRWAY_MEMORY_DIR/copy`
	for i, want := range []string{"700\n", "whole\n700\n"} {
		n := i + 1
		a := attempt("train", n, 0b1, script)
		if n == 2 { // another job runs in between, and ends
			b := attempt("ended", 1, 0b1, script)
			r.orders.set(b)
			r.exit(b.AttemptID)
		}
		r.orders.set(a)
		r.exit(a.AttemptID)
		if got := read(t, r.m.attemptDir(a.AttemptID), "rank-0.log"); !strings.Contains(got, want) {
			t.Errorf("attempt %d prints %q; want %q", n, got, want)
		}
	}
	limited := attempt("limited", 1, 0b1, `echo "memory: $FAIRWAY_MEMORY_DIR."`)
	limited.Spec.Memory = 1 << 30
	r.orders.set(limited)
	r.exit(limited.AttemptID)
	if got := read(t, r.m.attemptDir(limited.AttemptID), "rank-0.log"); !strings.Contains(got, "memory: .") {
		t.Errorf("a job with a limit prints %q; want no folder", got)
	}
	eventually(t, "memory freed", func() bool {
		left, _ := filepath.Glob(filepath.Join(r.m.memoryBase(), "*~*"))
		return len(left) == 1 && strings.HasPrefix(filepath.Base(left[0]), "train~")
	})
}

// TestMemoryIsSwept: what a machine left in memory goes when its folder is gone.
func TestMemoryIsSwept(t *testing.T) {
	shm, err := os.MkdirTemp("/dev/shm", "fairway-test-")
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { os.RemoveAll(shm) })
	old := t.TempDir()
	for i, dir := range []string{old, filepath.Join(old, "gone")} {
		base := filepath.Join(shm, "fairway-"+strings.Repeat("0", i+1))
		if err := errors.Join(os.MkdirAll(filepath.Join(base, "job~1"), 0o700), os.Symlink(dir, filepath.Join(base, ownerLink))); err != nil {
			t.Fatal(err)
		}
	}
	newRig(t, func(c *Config) { c.Memory = shm })
	if left, _ := filepath.Glob(filepath.Join(shm, "fairway-*")); len(left) != 1 || filepath.Base(left[0]) != "fairway-0" {
		t.Errorf("%v are left; want only that of the machine that is still there", left)
	}
}

// TestMemoryOfAnother: a folder that another user made first is not used.
func TestMemoryOfAnother(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "taken")
	if err := os.Mkdir(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if ownFolder(dir, 0o711, os.Geteuid(), os.Getegid()) == nil {
		t.Error("a folder that everybody may write to was taken for our own")
	}
	link := filepath.Join(filepath.Dir(dir), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	if ownFolder(link, 0o711, os.Geteuid(), os.Getegid()) == nil {
		t.Error("a link was taken for our own folder")
	}
}
