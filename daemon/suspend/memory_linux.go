// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package suspend

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/fairway-gpu/fairway/daemon/proc"
)

// unlimited is the least value of cgroup v1 that means that there is no limit.
const unlimited = 1 << 60

// remember notes the limits of memory of control groups, before they are changed.
func (r *record) remember(groups []string) {
	for _, dir := range groups {
		for _, file := range []string{"memory.max", "memory.limit_in_bytes"} {
			path := filepath.Join(dir, file)
			text, err := os.ReadFile(path)
			if err != nil || r.Limits[path] != "" {
				continue
			}
			value := strings.TrimSpace(string(text))
			if n, err := strconv.ParseInt(value, 10, 64); err != nil || n <= 0 || n >= unlimited {
				continue // "max"
			}
			if r.Limits == nil {
				r.Limits = map[string]string{}
			}
			r.Limits[path] = value
		}
	}
}

// raise lets the control groups have more memory than their limits.
func (r *record) raise(more int64) error {
	for path, value := range r.Limits {
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil {
			return fmt.Errorf("limit %q of %s: want a number", value, path)
		}
		if err := os.WriteFile(path, []byte(strconv.FormatInt(n+more, 10)), 0); err != nil && !os.IsNotExist(err) {
			return fmt.Errorf("raise limit of memory: %w", err)
		}
	}
	return nil
}

// restore undoes raise. A group that is gone, or uses more for a moment, keeps what it
// has.
func (r *record) restore() {
	for path, value := range r.Limits {
		_ = os.WriteFile(path, []byte(value), 0)
	}
}

// holdsGPU reports whether a process has the file of a GPU open.
func holdsGPU(pid int) bool {
	dir := "/proc/" + strconv.Itoa(pid) + "/fd"
	d, err := os.Open(dir)
	if err != nil {
		return false
	}
	defer d.Close()
	names, _ := d.Readdirnames(-1)
	return slices.ContainsFunc(names, func(name string) bool {
		to, err := os.Readlink(dir + "/" + name)
		return err == nil && strings.HasPrefix(to, "/dev/nvidia")
	})
}

func residentSize(all []proc.Process) (sum int64) {
	for _, p := range all {
		sum += p.RSS
	}
	return sum
}

// memoryFree returns the bytes of host memory that programs could still have; 0: not
// known.
func memoryFree() int64 { return proc.MemoryInfo("MemAvailable:") }
