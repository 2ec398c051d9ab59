// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package proc

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// ClockTicks is the unit of times in /proc: USER_HZ, 100 on every Linux that Go
// runs on.
const ClockTicks = 100

// parseStat parses /proc/<pid>/stat. The program name is in parentheses and may
// contain anything, parentheses and spaces included.
func parseStat(text string) (Process, error) {
	open, end := strings.IndexByte(text, '('), strings.LastIndexByte(text, ')')
	if open < 1 || end < open {
		return Process{}, fmt.Errorf("stat of a process: %.60q has no name in parentheses", text)
	}
	f := strings.Fields(text[end+1:])
	pid, err := strconv.Atoi(strings.TrimSpace(text[:open]))
	if err != nil || len(f) < 22 || len(f[0]) != 1 || f[0][0] <= ' ' {
		return Process{}, fmt.Errorf("stat of a process: %.60q; want a number, and behind the name a letter and 21 more fields", text)
	}
	p := Process{PID: pid, State: f[0][0]}
	var bad error
	number := func(i int) uint64 {
		v, err := strconv.ParseUint(f[i], 10, 64)
		if err != nil {
			bad = fmt.Errorf("stat of process %d: field %d is %.40q; want a number", pid, i+3, f[i])
		}
		return v
	}
	p.Parent, p.Session = int(number(1)), int(number(3))
	for i := 11; i <= 14; i++ {
		p.Ticks += number(i)
	}
	p.Start = number(19)
	p.RSS = int64(number(21)) * int64(os.Getpagesize())
	return p, bad
}

// Read returns a process by its number.
func Read(pid int) (Process, error) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return Process{}, err
	}
	return parseStat(string(text))
}

// All returns every process of the machine by number.
func All() (map[int]Process, error) {
	d, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	defer d.Close()
	names, err := d.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	out := make(map[int]Process, len(names))
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		if p, err := Read(pid); err == nil { // it may have ended
			out[pid] = p
		}
	}
	return out, nil
}

// Under reports whether a process is, or descends from, another.
func Under(all map[int]Process, pid, ancestor int) bool {
	for range len(all) {
		if pid == ancestor {
			return true
		}
		p, ok := all[pid]
		if !ok || p.Parent <= 0 {
			return false
		}
		pid = p.Parent
	}
	return false
}

// Handle returns a descriptor of a process, and fails if the process is gone or
// its number was reused.
func Handle(pid int, start uint64) (int, error) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return -1, err
	}
	// The descriptor is fixed now: if /proc still shows the same start, it is the
	// same process.
	if p, err := Read(pid); err != nil || p.Start != start || p.State == 'Z' {
		unix.Close(fd)
		return -1, unix.ESRCH
	}
	return fd, nil
}

// Signal sends a signal to exactly that process.
func Signal(pid int, start uint64, sig unix.Signal) error {
	fd, err := Handle(pid, start)
	if errors.Is(err, unix.ENOSYS) {
		if p, e := Read(pid); e != nil || p.Start != start {
			return unix.ESRCH
		}
		return unix.Kill(pid, sig)
	}
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.PidfdSendSignal(fd, sig, nil, 0)
}

// MemoryInfo returns a line of /proc/meminfo in bytes; 0: not known.
func MemoryInfo(name string) int64 {
	f, err := os.Open("/proc/meminfo")
	if err != nil {
		return 0
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, 64<<10))
	if err != nil {
		return 0
	}
	for line := range strings.SplitSeq(string(text), "\n") {
		rest, ok := strings.CutPrefix(line, name)
		if !ok {
			continue
		}
		if f := strings.Fields(rest); len(f) > 0 {
			if kib, err := strconv.ParseInt(f[0], 10, 64); err == nil {
				return kib << 10
			}
		}
	}
	return 0
}
