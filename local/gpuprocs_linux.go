// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package local

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// processesOf returns the processes of an attempt without its supervisor.
func (m *Machine) processesOf(r *run) ([]process, error) {
	all, err := processes()
	if err != nil {
		return nil, err
	}
	var out []process
	for pid, p := range all {
		if pid != r.shim.PID && p.state != 'Z' && under(all, pid, r.shim.PID) {
			out = append(out, p)
		}
	}
	if len(out) == 0 {
		return nil, errors.New("it has no processes")
	}
	slices.SortFunc(out, func(a, b process) int { return a.pid - b.pid })
	return out, nil
}

func alivePIDs(users []gpuUser) (pids []int) {
	for _, u := range users {
		if p, err := readProcess(u.PID); err == nil && p.start == u.Start && p.state != 'Z' {
			pids = append(pids, u.PID)
		}
	}
	return pids
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

// gpuMemory returns the bytes that processes have on GPUs; 0: not known.
func (m *Machine) gpuMemory(pids []int) (sum int64) {
	ctx, cancel := context.WithTimeout(context.Background(), smiTimeout)
	defer cancel()
	rows, err := m.gauge.tool.procs(ctx)
	if err != nil {
		return 0
	}
	for _, row := range rows {
		if slices.Contains(pids, row.pid) {
			sum += max(0, row.memory)
		}
	}
	return sum
}

func residentSize(all []process) (sum int64) {
	for _, p := range all {
		sum += p.rss
	}
	return sum
}

// limitMemory lets the control group of an attempt have more memory than its limit: the
// driver moves what is on the GPUs into the memory of the processes.
func limitMemory(r *run, more int64) {
	limit := r.order.Spec.Memory * int64(r.order.Slots)
	if limit == 0 {
		return
	}
	for _, dir := range r.shim.Groups {
		for _, file := range []string{"memory.max", "memory.limit_in_bytes"} {
			if path := filepath.Join(dir, file); exists(path) {
				_ = os.WriteFile(path, []byte(strconv.FormatInt(limit+more, 10)), 0)
			}
		}
	}
}

// memoryFree returns the bytes of host memory that programs could still have; 0: not
// known.
func memoryFree() int64 { return memoryInfo("MemAvailable:") }
