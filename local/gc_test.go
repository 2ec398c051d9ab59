// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package local

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/sched"
)

func TestGarbageCollection(t *testing.T) {
	t.Parallel()
	var later atomic.Int64 // how far the clock is ahead
	r := newRig(t, func(c *Config) {
		c.LogKeep = 2
		c.Ended = func(id sched.JobID) bool { return strings.HasPrefix(string(id), "ended") }
		c.Now = func() time.Time { return time.Now().Add(time.Duration(later.Load())) }
	})
	runs := attempt("ended-not", 1, 0b1000, `exec sleep 100`) // runs, whatever is said of it
	for _, a := range []api.Attempt{
		attempt("ended-a", 1, 0b1, "true"), attempt("paused", 1, 0b1, "true"), attempt("paused", 2, 0b1, "true"),
		attempt("ended-b", 1, 0b1, "true"), attempt("ended-c", 1, 0b1, "true"),
	} { // one after the other: the order of their ends counts
		r.orders.set(runs, a)
		r.exit(a.AttemptID)
	}
	r.started(runs.AttemptID)
	eventually(t, "all told", func() bool { return exists(filepath.Join(r.m.jobDir("ended-c"), "1", toldFile)) })
	r.orders.set(runs)
	eventually(t, "orders heard", func() bool {
		r.m.mu.Lock()
		defer r.m.mu.Unlock()
		n := 0
		for _, run := range r.m.runs {
			if run.state == told && !run.busy {
				n++
			}
		}
		return len(r.m.ordered) == 1 && n == 5
	})
	left := func(want map[string]bool) {
		t.Helper()
		for path, want := range want {
			if got := exists(filepath.Join(r.m.jobsDir(), path)); got != want {
				t.Errorf("%s: there is %v; want %v", path, got, want)
			}
		}
	}
	r.m.collectGarbage()
	left(map[string]bool{
		"ended-a/1": false, "ended-a/checkpoint": true, "paused/1": false, "paused/2": true, "paused/checkpoint": true,
		"ended-b/1": true, "ended-c/1": true, "ended-not/1": true,
	})
	later.Store(int64(8 * 24 * time.Hour))
	r.m.collectGarbage()
	left(map[string]bool{
		"ended-a": false, "ended-b/checkpoint": false, "ended-b/1": true, "paused/2": true, "paused/checkpoint": true, "paused/work": true,
		"ended-not/1": true, "ended-not/checkpoint": true,
	})
}

// TestDiskFull: without room an attempt does not start, and one that ends waits
// with its result until there is room.
func TestDiskFull(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=256k"); err != nil {
		t.Skipf("cannot make a small disk: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	r := newRig(t, func(c *Config) { c.Dir = filepath.Join(dir, "machine") })
	flag := filepath.Join(t.TempDir(), "go")
	runs := attempt("runs", 1, 0b1, `while [ ! -e `+flag+` ]; do sleep 0.02; done; echo more; exit 3`)
	r.orders.set(runs)
	r.started(runs.AttemptID)

	fill := filepath.Join(dir, "fill")
	f, err := os.Create(fill)
	if err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, err = fmt.Fprint(f, strings.Repeat("x", 4096))
	}
	f.Close()
	late := attempt("late", 1, 0b10, "true")
	r.orders.set(runs, late)
	if e := r.exit(late.AttemptID); !e.Lost || !strings.Contains(e.Why, "no space left") {
		t.Errorf("%s; want lost, no space left", show(e))
	}
	if err := os.WriteFile(flag, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	eventually(t, "end of the rank", func() bool { return ranksOf(r, "runs") == 0 })
	always(t, "nothing is reported before the result is safe", 200*time.Millisecond, func() bool { return len(r.orders.exitsOf(runs.AttemptID)) == 0 })
	if err := os.Remove(fill); err != nil {
		t.Fatal(err)
	}
	if e := r.exit(runs.AttemptID); e.Code != 3 || e.Lost {
		t.Errorf("%s; want code 3", show(e))
	}
}
