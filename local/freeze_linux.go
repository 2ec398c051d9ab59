// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package local

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// freezer is how a control group is frozen: by cgroup v2, or by the freezer of v1.
type freezer struct{ file, status, freeze, thaw, frozen, thawed string }

var freezers = []freezer{
	{"cgroup.freeze", "cgroup.events", "1", "0", "frozen 1", "frozen 0"},
	{"freezer.state", "freezer.state", "FROZEN", "THAWED", "FROZEN", "THAWED"},
}

// freezerOf returns how a group is frozen; false: it cannot be, or holds no process.
func freezerOf(dir string) (freezer, bool) {
	for _, f := range freezers {
		if exists(filepath.Join(dir, f.file)) {
			text, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
			return f, err == nil && len(text) > 0
		}
	}
	return freezer{}, false
}

// isFrozen reports whether a group is frozen, with all that is in it.
func isFrozen(dir string) bool {
	f, ok := freezerOf(dir)
	text, err := os.ReadFile(filepath.Join(dir, f.status))
	return ok && err == nil && strings.Contains(string(text), f.frozen)
}

// setFrozen freezes or thaws the group of an attempt, and waits until that has
// happened. It reports whether there is a group that can be.
func setFrozen(groups []string, frozen bool) (done bool, err error) {
	if len(groups) == 0 {
		return false, nil
	}
	dir := groups[0]
	f, ok := freezerOf(dir)
	if !ok {
		return false, nil
	}
	value, want := f.thaw, f.thawed
	if frozen {
		value, want = f.freeze, f.frozen
	}
	if err := os.WriteFile(filepath.Join(dir, f.file), []byte(value), 0); err != nil {
		return true, fmt.Errorf("freeze control group: %w", err)
	}
	for until := time.Now().Add(freezePatience); ; time.Sleep(2 * time.Millisecond) {
		text, err := os.ReadFile(filepath.Join(dir, f.status))
		if err != nil || strings.Contains(string(text), want) {
			return true, err
		}
		if time.Now().After(until) {
			return true, fmt.Errorf("control group %s is not %s after %s", dir, want, freezePatience)
		}
	}
}

// freeze stops the processes of an attempt where they are: by its control group or, if
// it has none, with SIGSTOP.
func (m *Machine) freeze(r *run) error {
	if done, err := setFrozen(r.shim.Groups, true); done {
		return err
	}
	for until := time.Now().Add(freezePatience); ; time.Sleep(5 * time.Millisecond) {
		all, err := m.processesOf(r)
		if err != nil {
			return err
		}
		left := 0
		for _, p := range all {
			if p.state != 'T' {
				left++
				_ = signalProcess(p.pid, p.start, unix.SIGSTOP)
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

// frozen reports whether all processes of an attempt are.
func frozen(groups []string, all []process) bool {
	if len(groups) > 0 && isFrozen(groups[0]) {
		return true
	}
	return !slices.ContainsFunc(all, func(p process) bool { return p.state != 'T' })
}

// thaw undoes freeze.
func (m *Machine) thaw(r *run) error {
	if done, err := setFrozen(r.shim.Groups, false); done {
		return err
	}
	all, err := m.processesOf(r)
	if err != nil {
		return nil // all have ended
	}
	for _, p := range all {
		_ = signalProcess(p.pid, p.start, unix.SIGCONT)
	}
	return nil
}
