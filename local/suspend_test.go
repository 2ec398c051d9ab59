// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package local

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fairway-gpu/fairway/api"
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
		if err := signalProcess(shim.PID, shim.Start, sigKill); err != nil {
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
	d := &fakeDriver{fail: "checkpoint"}
	r := newRig(t, func(c *Config) { c.driver = func() (gpuDriver, error) { return d, nil } })
	a := attempt("a", 1, 0b1, counter)
	r.orders.set(a)
	r.started(a.AttemptID)
	self, err := readProcess(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	// Somebody's processes with GPUs: this test's own serves as one.
	d.states = map[int]gpuState{self.pid: gpuRunning}
	record := suspendRecord{Processes: []gpuUser{{self.pid, self.start}}}
	if err := placeRecord(filepath.Join(r.m.cfg.Dir, "jobs/a/1", suspendFile), record); err != nil {
		t.Fatal(err)
	}
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
	if d.states[self.pid] != gpuRunning {
		t.Errorf("the driver has it as %d; want running", d.states[self.pid])
	}
}

// fakeDriver keeps processes as the CUDA driver would. Calls after left are a crash.
type fakeDriver struct {
	states map[int]gpuState
	fail   string // this verb fails
	on     int    // for this process; 0: for all
	left   int    // calls before it crashes; 0: it does not
	calls  int
}

func (d *fakeDriver) move(verb string, pid int, from, to gpuState) error {
	if d.calls++; d.left > 0 && d.calls > d.left {
		panic("crash")
	}
	switch {
	case d.states[pid] != from:
		return fmt.Errorf("CUDA_ERROR_ILLEGAL_STATE (401): %d is in state %d", pid, d.states[pid])
	case d.fail == verb && (d.on == 0 || d.on == pid):
		return errors.New("CUDA_ERROR_NOT_SUPPORTED (801)")
	}
	d.states[pid] = to
	return nil
}

func (d *fakeDriver) State(pid int) (gpuState, error) {
	s, ok := d.states[pid]
	if !ok {
		return 0, errors.New("CUDA_ERROR_INVALID_VALUE (1)")
	}
	return s, nil
}
func (d *fakeDriver) Lock(pid int) error       { return d.move("lock", pid, gpuRunning, gpuLocked) }
func (d *fakeDriver) Checkpoint(pid int) error { return d.move("checkpoint", pid, gpuLocked, gpuAway) }
func (d *fakeDriver) Restore(pid int) error    { return d.move("restore", pid, gpuAway, gpuLocked) }
func (d *fakeDriver) Unlock(pid int) error     { return d.move("unlock", pid, gpuLocked, gpuRunning) }
func (d *fakeDriver) Close() error             { return nil }

func allIn(states map[int]gpuState, want gpuState) bool {
	for s := range maps.Values(states) {
		if s != want {
			return false
		}
	}
	return true
}

// TestDriver: processes leave their GPUs together or not at all, and a crash at any
// call is made good by the next try.
func TestDriver(t *testing.T) {
	t.Parallel()
	pids := []int{11, 12, 13, 14} // 14 does not use CUDA
	three := func() map[int]gpuState { return map[int]gpuState{11: gpuRunning, 12: gpuRunning, 13: gpuRunning} }
	d := &fakeDriver{states: three()}
	if err := offGPUs(d, pids); err != nil || !allIn(d.states, gpuAway) {
		t.Errorf("off: %v, %v", err, d.states)
	}
	if err := ontoGPUs(d, pids); err != nil || !allIn(d.states, gpuRunning) {
		t.Errorf("back: %v, %v", err, d.states)
	}
	for _, verb := range []string{"lock", "checkpoint"} {
		for pid := range three() {
			d := &fakeDriver{states: three(), fail: verb, on: pid}
			err := offGPUs(d, pids)
			if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("process %d: %s: ", pid, verb)) || !allIn(d.states, gpuRunning) {
				t.Errorf("%s of %d fails: %v, %v; want all running and which failed", verb, pid, err, d.states)
			}
		}
	}
	try := func(d *fakeDriver, f func(gpuDriver, []int) error) (crashed bool) {
		defer func() { crashed = recover() != nil }()
		_ = f(d, pids)
		return false
	}
	for left := 1; left <= 6; left++ {
		d := &fakeDriver{states: three(), left: left}
		crashed := try(d, offGPUs)
		d.left = 0
		if err := offGPUs(d, pids); crashed != (left < 6) || err != nil || !allIn(d.states, gpuAway) {
			t.Errorf("crash after %d calls, then off: %v, %v", left, err, d.states)
		}
		d.left, d.calls = left, 0
		try(d, ontoGPUs)
		d.left = 0
		if err := ontoGPUs(d, pids); err != nil || !allIn(d.states, gpuRunning) {
			t.Errorf("crash after %d calls, then back: %v, %v", left, err, d.states)
		}
	}
	d = &fakeDriver{states: map[int]gpuState{11: gpuFailed}}
	if err := offGPUs(d, pids); err == nil {
		t.Error("a process that the driver gave up was suspended")
	}
}
