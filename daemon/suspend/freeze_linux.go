// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package suspend

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fairway-gpu/fairway/daemon/proc"
)

const freezePatience = 10 * time.Second

// freezer is how a control group is frozen: by cgroup v2, or by the freezer of v1.
type freezer struct{ file, status, freeze, thaw, frozen, thawed string }

var freezers = []freezer{
	{"cgroup.freeze", "cgroup.events", "1", "0", "frozen 1", "frozen 0"},
	{"freezer.state", "freezer.state", "FROZEN", "THAWED", "FROZEN", "THAWED"},
}

// freezerOf returns how a group is frozen; false: it cannot be, or holds no process.
func freezerOf(dir string) (freezer, bool) {
	for _, f := range freezers {
		if _, err := os.Lstat(filepath.Join(dir, f.file)); err == nil {
			return f, len(PIDs(dir)) > 0
		}
	}
	return freezer{}, false
}

// PIDs returns the processes of a control group and of those below it.
func PIDs(group string) (pids []int) {
	_ = filepath.WalkDir(group, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.Name() != "cgroup.procs" {
			return nil // a group that was removed has no processes
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return nil
		}
		for _, field := range strings.Fields(string(text)) {
			var pid int
			if _, err := fmt.Sscan(field, &pid); err == nil && pid > 0 { // 0: of another PID namespace
				pids = append(pids, pid)
			}
		}
		return nil
	})
	return pids
}

// isFrozen reports whether a group is frozen, with all that is in it.
func isFrozen(dir string) bool {
	f, ok := freezerOf(dir)
	text, err := os.ReadFile(filepath.Join(dir, f.status))
	return ok && err == nil && strings.Contains(string(text), f.frozen)
}

// SetFrozen freezes or thaws control groups, and waits until that has happened. It
// reports whether all of them can be; if not, it has done nothing.
func SetFrozen(groups []string, frozen bool) (done bool, err error) {
	if len(groups) == 0 || slices.ContainsFunc(groups, func(dir string) bool { _, ok := freezerOf(dir); return !ok }) {
		return false, nil
	}
	for _, dir := range groups {
		if err := setFrozen(dir, frozen); err != nil {
			return true, err
		}
	}
	return true, nil
}

func setFrozen(dir string, frozen bool) error {
	f, ok := freezerOf(dir)
	if !ok {
		return nil // it has ended
	}
	value, want := f.thaw, f.thawed
	if frozen {
		value, want = f.freeze, f.frozen
	}
	if err := os.WriteFile(filepath.Join(dir, f.file), []byte(value), 0); err != nil {
		return fmt.Errorf("freeze control group: %w", err)
	}
	for until := time.Now().Add(freezePatience); ; time.Sleep(2 * time.Millisecond) {
		text, err := os.ReadFile(filepath.Join(dir, f.status))
		if err != nil || strings.Contains(string(text), want) {
			return err
		}
		if time.Now().After(until) {
			return fmt.Errorf("control group %s is not %s after %s", dir, want, freezePatience)
		}
	}
}

// freeze stops the processes where they are.
func freeze(t *Target) error {
	if done, err := SetFrozen(t.Groups, true); done {
		return err
	}
	asked := map[identity]bool{}
	for until := time.Now().Add(freezePatience); ; time.Sleep(5 * time.Millisecond) {
		all, err := t.Processes()
		if err != nil {
			return err
		}
		left := 0
		for _, p := range all {
			id := identity{p.PID, p.Start}
			if p.State != 'T' && (p.State != waiting || !asked[id]) {
				left++
				asked[id] = proc.Signal(p.PID, p.Start, unix.SIGSTOP) == nil
			}
		}
		if left == 0 {
			return nil
		}
		if time.Now().After(until) {
			return fmt.Errorf("%d processes do not stop on SIGSTOP", left)
		}
	}
}

// waiting is the state of a process that waits in the kernel and cannot stop there. With
// SIGSTOP pending it runs no more of its program, and may wait for one that is stopped: a
// parent for its child between vfork and exec.
const waiting = 'D'

// frozen reports whether all processes are.
func frozen(t *Target, all []proc.Process) bool {
	if len(t.Groups) > 0 && !slices.ContainsFunc(t.Groups, func(dir string) bool { return !isFrozen(dir) }) {
		return true
	}
	return !slices.ContainsFunc(all, func(p proc.Process) bool { return p.State != 'T' && p.State != waiting }) &&
		slices.ContainsFunc(all, func(p proc.Process) bool { return p.State == 'T' })
}

// Thaw lets frozen processes run, but does not put them back on their GPUs: those that
// have to stop can, and need not wait for a GPU.
func Thaw(t Target) error {
	if done, err := SetFrozen(t.Groups, false); done {
		return err
	}
	all, err := t.Processes()
	if err != nil {
		return nil // all have ended
	}
	for _, p := range all {
		_ = proc.Signal(p.PID, p.Start, unix.SIGCONT)
	}
	return nil
}
