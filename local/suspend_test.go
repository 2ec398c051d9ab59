// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package local

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/daemon/proc"
	"github.com/fairway-gpu/fairway/daemon/suspend"
	"github.com/fairway-gpu/fairway/daemon/suspend/suspendtest"
)

// counter is a program that counts, and says what it is when asked to stop.
const counter = `trap 'echo asked >> log; exit 75' TERM; i=0; while :; do i=$((i+1)); echo $$ $i >> log; sleep 0.01; done`

func countOf(t *testing.T, r *rig, job string) []string {
	t.Helper()
	return strings.Split(strings.TrimSpace(read(t, r.m.cfg.Dir, "jobs", job, "work", "log")), "\n")
}

// isStill reports whether a program that counts has stopped.
func isStill(t *testing.T, r *rig, job string) bool {
	n := len(countOf(t, r, job))
	time.Sleep(50 * time.Millisecond)
	return len(countOf(t, r, job)) == n
}

func (o *fakeOrders) suspensions() []api.Suspended {
	o.mu.Lock()
	defer o.mu.Unlock()
	return append([]api.Suspended(nil), o.suspended...)
}

// TestSuspend: a suspended attempt leaves its GPU to another, outlives a restart of
// the daemon, and goes on with the next number.
func TestSuspend(t *testing.T) {
	bothWays(t, func(t *testing.T, r *rig) {
		a := attempt("a", 1, 0b1, counter)
		r.orders.set(a)
		r.started(a.AttemptID)
		eventually(t, "a counts", func() bool { return len(countOf(t, r, "a")) > 3 })
		b := attempt("b", 1, 0b1, counter)
		a.Suspended = true
		r.orders.set(a, b)
		r.started(b.AttemptID)
		eventually(t, "b counts", func() bool { return len(countOf(t, r, "b")) > 3 })
		if !isStill(t, r, "a") {
			t.Fatal("a counts on although it is suspended")
		}
		if got := r.orders.suspensions(); len(got) != 1 || got[0].Job != "a" || got[0].Failed != "" || got[0].Out <= 0 {
			t.Fatalf("reported %+v; want that a is suspended, and how long it took", got)
		}
		r.reopen()
		always(t, "a is suspended after a restart of the daemon", 200*time.Millisecond, func() bool { return isStill(t, r, "a") })
		before := len(countOf(t, r, "a"))

		a.Suspended = false
		r.orders.set(a, b)
		always(t, "a waits for b to leave", 100*time.Millisecond, func() bool { return isStill(t, r, "a") })
		r.orders.set(a)
		r.exit(b.AttemptID)
		eventually(t, "a counts again", func() bool { return len(countOf(t, r, "a")) > before+3 })
		lines := countOf(t, r, "a")
		pid, _, _ := strings.Cut(lines[0], " ")
		for i, line := range lines[:len(lines)-1] {
			if want := fmt.Sprintf("%s %d", pid, i+1); line != want {
				t.Fatalf("line %d of a is %q; want %q", i+1, line, want)
			}
		}
		if exists(filepath.Join(r.m.cfg.Dir, "jobs/a/1", suspendFile)) {
			t.Error("suspend.json is left")
		}
		r.orders.set()
		if e := r.exit(a.AttemptID); !e.Yielded || !e.Noticed {
			t.Errorf("exit %s; want it asked and saved", show(e))
		}
	})
}

// TestSuspendedStops: what is suspended can be asked to stop, and killed.
func TestSuspendedStops(t *testing.T) {
	bothWays(t, func(t *testing.T, r *rig) {
		a, b := attempt("a", 1, 0b1, counter), attempt("b", 1, 0b10, counter)
		r.orders.set(a, b)
		r.started(a.AttemptID)
		r.started(b.AttemptID)
		for _, job := range []string{"a", "b"} { // the trap is set
			eventually(t, job+" counts", func() bool { return len(countOf(t, r, job)) > 1 })
		}
		a.Suspended, b.Suspended = true, true
		r.orders.set(a, b)
		eventually(t, "both are suspended", func() bool { return len(r.orders.suspensions()) == 2 })
		r.orders.set(b)
		if e := r.exit(a.AttemptID); !e.Yielded {
			t.Errorf("exit %s; want that it saved its work", show(e))
		}
		r.m.mu.Lock()
		shim := r.m.runs[b.AttemptID].shim
		r.m.mu.Unlock()
		if err := proc.Signal(shim.PID, shim.Start, sigKill); err != nil {
			t.Fatal(err)
		}
		if e := r.exit(b.AttemptID); !e.Lost {
			t.Errorf("exit %s; want it lost", show(e))
		}
		if n := alive(t, r.m.cfg.Dir); n != 0 {
			t.Errorf("%d processes are left", n)
		}
	})
}

// TestSuspendRefused: an attempt that cannot be suspended runs on, and says why.
func TestSuspendRefused(t *testing.T) {
	t.Parallel()
	d := suspendtest.New()
	d.Any, d.Fails = true, func(verb string, _ int) bool { return verb == "checkpoint" }
	r := newRig(t, func(c *Config) { c.Suspend = suspend.Host{Open: d.Open, Uses: func(int) bool { return true }} })
	a := attempt("a", 1, 0b1, counter)
	r.orders.set(a)
	r.started(a.AttemptID)
	a.Suspended = true
	r.orders.set(a)
	eventually(t, "a refusal", func() bool { return len(r.orders.suspensions()) > 0 })
	if got := r.orders.suspensions()[0].Failed; !strings.Contains(got, "checkpoint: CUDA_ERROR_NOT_SUPPORTED (801)") || !strings.Contains(got, "MPS") {
		t.Errorf("it says %q", got)
	}
	a.Suspended = false
	r.orders.set(a)
	n := len(countOf(t, r, "a"))
	eventually(t, "a runs on", func() bool { return len(countOf(t, r, "a")) > n })
	if !d.All(suspend.OnGPUs) {
		t.Errorf("the driver has %v; want all on GPUs", d.States())
	}
}

// TestSuspendHeard: the GPUs of a suspended attempt are not free before its suspension was
// heard, and it is told once, also after a restart.
func TestSuspendHeard(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	a, b := attempt("a", 1, 0b1, counter), attempt("b", 1, 0b1, counter)
	r.orders.set(a)
	r.started(a.AttemptID)
	r.orders.mu.Lock()
	r.orders.refuse = 1 << 30
	r.orders.mu.Unlock()
	a.Suspended = true
	r.orders.set(a, b)
	eventually(t, "a is frozen", func() bool { return exists(filepath.Join(r.m.cfg.Dir, "jobs/a/1", suspendFile)) && isStill(t, r, "a") })
	always(t, "b waits", 200*time.Millisecond, func() bool { return !r.orders.isStarted(b.AttemptID) })
	r.reopen()
	always(t, "b waits after a restart", 200*time.Millisecond, func() bool { return !r.orders.isStarted(b.AttemptID) })
	r.orders.mu.Lock()
	r.orders.refuse = 0
	r.orders.mu.Unlock()
	r.started(b.AttemptID)
	r.reopen()
	always(t, "it is told once", 200*time.Millisecond, func() bool { return len(r.orders.suspensions()) == 1 })
}
