// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package local

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/diagnose"
	"github.com/fairway-gpu/fairway/sched"
)

// TestFound: what a daemon makes of the folders that another left.
func TestFound(t *testing.T) {
	t.Parallel()
	here := bootID()
	restarted := []diagnose.Event{{Kind: api.HostRestarted, Node: "here"}}
	starved := []diagnose.Event{{Kind: api.HostOutOfMemory, Node: "here"}}
	for _, c := range []struct {
		name    string
		boot    string
		shim    bool
		ordered bool
		ended   *api.Exit // as its supervisor wrote down
		want    api.Exit
		runs    bool
	}{
		{"never-started", here, false, true, nil, api.Exit{Code: 4}, true},
		{"never-started-withdrawn", here, false, false, nil, api.Exit{Noticed: true, Why: "withdrawn before it started"}, false},
		{"supervisor-gone", here, true, true, nil, api.Exit{Lost: true, Why: "the supervisor of the job was killed"}, false},
		{"restarted", "another", true, true, nil, api.Exit{Lost: true, Why: "the machine was restarted", Host: restarted}, false},
		{"restarted-early", "another", false, true, nil, api.Exit{Lost: true, Why: "the machine was restarted", Host: restarted}, false},
		{"killed", here, true, true, &api.Exit{Signal: "SIGKILL"}, api.Exit{Signal: "SIGKILL"}, false},
		{"killed-by-restart", "another", true, true, &api.Exit{Signal: "SIGKILL"}, api.Exit{Signal: "SIGKILL", Lost: true, Why: "the machine was restarted", Host: restarted}, false},
		{"out-of-memory-before-restart", "another", true, true, &api.Exit{Signal: "SIGKILL", Host: starved}, api.Exit{Signal: "SIGKILL", Host: starved}, false},
		{"failed-before-restart", "another", true, true, &api.Exit{Code: 1, Why: "no such file"}, api.Exit{Code: 1, Why: "no such file"}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			a := attempt(c.name, 7, 0b1, "touch ran; exit 4")
			var list []api.Attempt
			if c.ordered {
				list = append(list, a)
			}
			r := newRigWith(t, func(cfg *Config) {
				dir := filepath.Join(cfg.Dir, "jobs", c.name, "7")
				if err := os.MkdirAll(dir, 0o700); err != nil {
					t.Fatal(err)
				}
				o := order{Attempt: a, Nonce: "n", Boot: c.boot, Slots: 1}
				if err := writeRecord(filepath.Join(dir, attemptFile), o); err != nil {
					t.Fatal(err)
				}
				// No process has that number: it is over the kernel's limit.
				if err := writeRecord(filepath.Join(dir, shimFile), shimRecord{Nonce: "n", PID: 1 << 23, Start: 1, Boot: c.boot}); c.shim && err != nil {
					t.Fatal(err)
				}
				if c.ended != nil {
					e := exitRecord{Exit: *c.ended}
					e.AttemptID, e.At = a.AttemptID, time.Now()
					if err := writeRecord(filepath.Join(dir, exitFile), e); err != nil {
						t.Fatal(err)
					}
				}
				if !c.shim {
					os.Remove(filepath.Join(dir, shimFile))
				}
			}, list...)
			if diff := cmp.Diff(c.want, r.exit(a.AttemptID), noTime); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
			if ran := exists(filepath.Join(r.m.jobDir(a.Job), "work/ran")); ran != c.runs {
				t.Errorf("it ran: %v; want %v", ran, c.runs)
			}
		})
	}
}

func TestNoShim(t *testing.T) {
	t.Parallel()
	for name, argv := range map[string][]string{"missing": {"/no/such/program"}, "broken": {"/bin/sh", "-c", "echo cannot >&2; exit 1"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, func(c *Config) { c.Shim = argv })
			a := attempt("none", 1, 0b1, "true")
			r.orders.set(a)
			e := r.exit(a.AttemptID)
			if !e.Lost || !(strings.Contains(e.Why, "no such file") || strings.Contains(e.Why, "does not start: cannot")) {
				t.Errorf("%s; want lost and why", show(e))
			}
		})
	}
}

// TestMemoryKept: what ended is forgotten but for its result, and an attempt of
// another number of the same job starts as if nothing had been.
func TestMemoryKept(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	for n := 1; n <= 3; n++ {
		a := attempt("often", n, sched.GPUSet(1)<<n, "echo $FAIRWAY_ATTEMPT >> $FAIRWAY_CHECKPOINT_DIR/seen")
		r.orders.set(a)
		r.exit(a.AttemptID)
	}
	if got := read(t, r.m.jobDir("often"), "checkpoint/seen"); got != "1\n2\n3\n" {
		t.Errorf("attempts saw %q; want 1, 2, 3 in the same folder", got)
	}
	eventually(t, "forgotten", func() bool {
		r.m.mu.Lock()
		defer r.m.mu.Unlock()
		for _, run := range r.m.runs {
			if run.state != told || run.watch != nil || run.process != nil || run.order.Task.Command != nil {
				return false
			}
		}
		return len(r.m.runs) == 3
	})
}

// TestLeak: many attempts leave no descriptor, goroutine or process behind. It
// runs alone, because it counts those of the whole test.
func TestLeak(t *testing.T) {
	count := func() (files, routines int) {
		names, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(names), runtime.NumGoroutine()
	}
	r := newRig(t, func(c *Config) { c.Devices = slices.Repeat([]Device{{Index: -1}}, 64) })
	warm := attempt("warm", 1, 1, "true")
	r.orders.set(warm)
	r.exit(warm.AttemptID)
	time.Sleep(50 * time.Millisecond)
	files, routines := count()
	var list []api.Attempt
	for i := range 96 {
		list = append(list, attempt(fmt.Sprint("leak-", i), 1, 1<<(i%64), "exec sleep 0.1"))
	}
	begin := time.Now()
	r.orders.set(list...)
	for _, a := range list {
		r.exit(a.AttemptID)
	}
	t.Logf("%d attempts on 64 slots took %v", len(list), time.Since(begin))
	eventually(t, "as few descriptors and goroutines as before", func() bool {
		f, g := count()
		return f <= files && g <= routines
	})
	if n := alive(t, r.m.cfg.Dir); n != 0 {
		t.Errorf("%d processes are left", n)
	}
}
