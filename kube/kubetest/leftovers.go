// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package kubetest

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	cgroupRoot = "/sys/fs/cgroup"
	// ownPrefix is the prefix of our control groups and folders; the PID of their
	// creator follows.
	ownPrefix = "kubetest-"
)

// hierarchies returns the roots of the control groups: one for each controller
// in version 1, one for all in version 2.
func hierarchies() ([]string, error) {
	if _, err := os.Stat(filepath.Join(cgroupRoot, "cgroup.controllers")); err == nil {
		return []string{cgroupRoot}, nil
	}
	entries, err := os.ReadDir(cgroupRoot)
	if err != nil {
		return nil, fmt.Errorf("list control groups: %w", err)
	}
	var out []string
	for _, e := range entries {
		if e.IsDir() { // links are aliases
			out = append(out, filepath.Join(cgroupRoot, e.Name()))
		}
	}
	return out, nil
}

// makeCgroup creates a control group in every hierarchy, because a kubelet expects its
// root to exist.
func makeCgroup(name string) error {
	roots, err := hierarchies()
	if err != nil {
		return err
	}
	for _, root := range roots {
		if err := os.Mkdir(filepath.Join(root, name), 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("make control group: %w", err)
		}
		// A cpuset group accepts no process until it has CPUs and memory.
		for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
			value, err := os.ReadFile(filepath.Join(root, file))
			if err != nil {
				continue // another hierarchy
			}
			if err := os.WriteFile(filepath.Join(root, name, file), value, 0o644); err != nil {
				return fmt.Errorf("make control group: %w", err)
			}
		}
	}
	return nil
}

// removeCgroup removes a control group and those below it. Processes that were just
// killed hold it until the kernel has reaped them, which takes seconds on a busy
// machine.
func removeCgroup(name string) {
	roots, err := hierarchies()
	if err != nil {
		return // none to remove
	}
	for _, root := range roots {
		for range 1000 {
			if removeFolders(filepath.Join(root, name)) {
				break
			}
			time.Sleep(20 * time.Millisecond)
		}
	}
}

// removeFolders removes a tree of folders, the deepest first. The files of a control
// group cannot be removed and need not be.
func removeFolders(path string) bool {
	entries, err := os.ReadDir(path)
	if err != nil {
		return errors.Is(err, fs.ErrNotExist)
	}
	for _, e := range entries {
		if e.IsDir() && !removeFolders(filepath.Join(path, e.Name())) {
			return false
		}
	}
	return syscall.Rmdir(path) == nil
}

// sweep removes what killed test processes have left: control groups, and folders in
// the temporary folder.
func sweep() {
	for _, path := range leftovers(os.TempDir()) {
		_ = os.RemoveAll(path) // another process may do the same
	}
	roots, err := hierarchies()
	if err != nil {
		return // none to remove
	}
	for _, root := range roots {
		for _, path := range leftovers(root) {
			removeFolders(path)
		}
	}
}

// leftovers returns the entries of a folder that belong to a process that no longer
// exists.
func leftovers(folder string) []string {
	paths, err := filepath.Glob(filepath.Join(folder, ownPrefix+"*"))
	if err != nil {
		return nil // the pattern is a constant and valid
	}
	return slices.DeleteFunc(paths, func(path string) bool {
		pid, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(path), ownPrefix), "-")
		n, err := strconv.Atoi(pid)
		return err != nil || n <= 0 || !errors.Is(syscall.Kill(n, 0), syscall.ESRCH)
	})
}
