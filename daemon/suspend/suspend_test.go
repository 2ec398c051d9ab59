// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package suspend_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fairway-gpu/fairway/daemon/proc"
	"github.com/fairway-gpu/fairway/daemon/suspend"
	"github.com/fairway-gpu/fairway/daemon/suspend/suspendtest"
)

// counter starts a process that counts into a file, in a control group of its own if
// there is a freezer.
func counter(t *testing.T, grouped bool) (target suspend.Target, pid int, count func() int) {
	t.Helper()
	dir := t.TempDir()
	log := filepath.Join(dir, "log")
	cmd := exec.Command("sh", "-c", `while :; do echo >> "$0"; sleep 0.01; done`, log)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	target = suspend.Target{File: filepath.Join(dir, "suspend.json"), Processes: func() ([]proc.Process, error) {
		all, err := proc.All()
		var out []proc.Process
		for pid, p := range all {
			if p.State != 'Z' && proc.Under(all, pid, cmd.Process.Pid) {
				out = append(out, p)
			}
		}
		return out, err
	}}
	group := ""
	if grouped {
		group = freezable(t)
		// A group below it: a pod's group has one for each container.
		below := filepath.Join(group, "container")
		if err := os.Mkdir(below, 0o755); err != nil {
			t.Skipf("no control group: %v", err)
		}
		if err := os.WriteFile(filepath.Join(below, "cgroup.procs"), []byte(strconv.Itoa(cmd.Process.Pid)), 0); err != nil {
			t.Skipf("no control group: %v", err)
		}
		target.Groups = []string{group}
	}
	t.Cleanup(func() {
		_ = suspend.Thaw(target)
		all, _ := target.Processes()
		for _, p := range all {
			_ = proc.Signal(p.PID, p.Start, 9)
		}
		_ = cmd.Wait()
		for _, g := range []string{filepath.Join(group, "container"), group} {
			for i := 0; group != "" && os.Remove(g) != nil && i < 100; i++ {
				time.Sleep(5 * time.Millisecond)
			}
		}
	})
	return target, cmd.Process.Pid, func() int { text, _ := os.ReadFile(log); return len(text) }
}

// freezable makes a control group that can be frozen.
func freezable(t *testing.T) string {
	t.Helper()
	self, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		t.Skip(err)
	}
	for line := range strings.SplitSeq(strings.TrimSpace(string(self)), "\n") {
		f := strings.SplitN(line, ":", 3)
		if len(f) != 3 || f[1] != "" && f[1] != "freezer" {
			continue
		}
		dir := filepath.Join("/sys/fs/cgroup", f[1], f[2], "fairway-test-"+strconv.Itoa(os.Getpid()))
		if os.Mkdir(dir, 0o755) != nil {
			continue
		}
		for _, file := range []string{"cgroup.freeze", "freezer.state"} {
			if _, err := os.Stat(filepath.Join(dir, file)); err == nil {
				return dir
			}
		}
		os.Remove(dir)
	}
	t.Skip("no control group can be made that can be frozen")
	return ""
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(2 * time.Minute); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited in vain: %s", what)
		}
	}
}

// TestSuspend: processes are taken off their GPUs and frozen, and go on. A second caller
// finds what the first has done.
func TestSuspend(t *testing.T) {
	for name, grouped := range map[string]bool{"by signal": false, "by control group": true} {
		t.Run(name, func(t *testing.T) {
			target, pid, count := counter(t, grouped)
			d := suspendtest.New(pid)
			h := suspend.Host{Open: d.Open, Uses: func(p int) bool { return p == pid }, Memory: func([]int) int64 { return 7 << 20 }}
			eventually(t, "it counts", func() bool { return count() > 2 })
			first, err := h.TakeOff(target)
			if err != nil || first.Memory < 7<<20 || first.Out <= 0 || first.Told || !suspend.Begun(target) {
				t.Fatalf("%+v, %v", first, err)
			}
			n := count()
			time.Sleep(50 * time.Millisecond)
			if count() != n || !d.All(suspend.Away) {
				t.Fatalf("it counts from %d to %d; the driver has %v", n, count(), d.States())
			}
			if err := suspend.Told(target); err != nil {
				t.Fatal(err)
			}
			first.Told = true
			if again, err := h.TakeOff(target); err != nil || again != first {
				t.Errorf("again: %+v, %v; want %+v", again, err, first)
			}
			if err := h.PutBack(target); err != nil || suspend.Begun(target) || !d.All(suspend.OnGPUs) {
				t.Fatalf("back: %v; the driver has %v", err, d.States())
			}
			eventually(t, "it counts again", func() bool { return count() > n+2 })
			if err := h.PutBack(target); err != nil {
				t.Errorf("back although it is: %v", err)
			}
		})
	}
}

// TestSuspendFails: whatever fails, the processes run on when they are put back.
func TestSuspendFails(t *testing.T) {
	target, pid, count := counter(t, false)
	d := suspendtest.New(pid)
	d.Fails = func(verb string, _ int) bool { return verb == "checkpoint" }
	h := suspend.Host{Open: d.Open, Uses: func(p int) bool { return p == pid }}
	eventually(t, "it counts", func() bool { return count() > 2 })
	fails := func(want string) {
		t.Helper()
		_, err := h.TakeOff(target)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want %q", err, want)
		}
		if err := h.PutBack(target); err != nil || suspend.Begun(target) {
			t.Fatal(err)
		}
		n := count()
		eventually(t, "it counts on", func() bool { return count() > n+2 })
	}
	fails("checkpoint: CUDA_ERROR_NOT_SUPPORTED (801)")
	h.Memory = func([]int) int64 { return 1 << 60 }
	fails(suspend.ErrShort.Error())
	h.Memory, h.Open = nil, func() (suspend.Driver, error) { return nil, errors.New("no driver") }
	if _, err := h.TakeOff(target); err == nil || err.Error() != "no driver" {
		t.Error(err)
	}
}

// TestLimits: the limit of memory is raised while something is suspended.
func TestLimits(t *testing.T) {
	target, pid, _ := counter(t, false)
	dir := t.TempDir()
	file := filepath.Join(dir, "memory.max")
	limit := func() string { text, _ := os.ReadFile(file); return strings.TrimSpace(string(text)) }
	if err := os.WriteFile(file, []byte("1000\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	target.Limits = []string{dir}
	d := suspendtest.New(pid)
	h := suspend.Host{Open: d.Open, Uses: func(p int) bool { return p == pid }, Memory: func([]int) int64 { return 10 << 20 }}
	if _, err := h.TakeOff(target); err != nil {
		t.Fatal(err)
	}
	if n, err := strconv.Atoi(limit()); err != nil || n < 10<<20 {
		t.Errorf("the limit is %q; want more than 10 MiB", limit())
	}
	if err := h.PutBack(target); err != nil || limit() != "1000" {
		t.Errorf("%v: the limit is %q; want what it was", err, limit())
	}
}
