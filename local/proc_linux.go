// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package local

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fairway-gpu/fairway/sched"
)

// process is what /proc reports of a process.
type process struct {
	pid, parent, session int
	state                byte   // 'Z': dead, waiting for its parent
	ticks                uint64 // CPU time of it and of its children that ended, in clock ticks
	start                uint64 // clock ticks since boot
	rss                  int64  // bytes
}

// clockTicks is the unit of times in /proc: USER_HZ, 100 on every Linux that Go
// runs on.
const clockTicks = 100

// parseStat parses /proc/<pid>/stat. The program name is in parentheses and may
// contain anything, parentheses and spaces included.
func parseStat(text string) (process, error) {
	open, end := strings.IndexByte(text, '('), strings.LastIndexByte(text, ')')
	if open < 1 || end < open {
		return process{}, fmt.Errorf("stat of a process: %.60q has no name in parentheses", text)
	}
	f := strings.Fields(text[end+1:])
	pid, err := strconv.Atoi(strings.TrimSpace(text[:open]))
	if err != nil || len(f) < 22 || len(f[0]) != 1 {
		return process{}, fmt.Errorf("stat of a process: %.60q; want a number and 22 fields behind the name", text)
	}
	p := process{pid: pid, state: f[0][0]}
	var bad error
	number := func(i int) uint64 {
		v, err := strconv.ParseUint(f[i], 10, 64)
		if err != nil {
			bad = fmt.Errorf("stat of process %d: field %d is %.40q; want a number", pid, i+3, f[i])
		}
		return v
	}
	p.parent, p.session = int(number(1)), int(number(3))
	for i := 11; i <= 14; i++ {
		p.ticks += number(i)
	}
	p.start = number(19)
	p.rss = int64(number(21)) * int64(os.Getpagesize())
	return p, bad
}

func readProcess(pid int) (process, error) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return process{}, err
	}
	return parseStat(string(text))
}

// processes returns every process of the machine by number.
func processes() (map[int]process, error) {
	d, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	defer d.Close()
	names, err := d.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	out := make(map[int]process, len(names))
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		if p, err := readProcess(pid); err == nil { // it may have ended
			out[pid] = p
		}
	}
	return out, nil
}

// under reports whether a process is, or descends from, another.
func under(all map[int]process, pid, ancestor int) bool {
	for range len(all) {
		if pid == ancestor {
			return true
		}
		p, ok := all[pid]
		if !ok || p.parent <= 0 {
			return false
		}
		pid = p.parent
	}
	return false
}

// JobOf returns the job that a process belongs to; empty: none. Supervisors adopt the
// orphans of their ranks, so every process of a job has one among its ancestors, as long
// as the job has not killed its supervisor or had another service start the process.
func (m *Machine) JobOf(pid int) (sched.JobID, error) {
	if pid == 0 {
		return "", nil // outside of this PID namespace, where no job can be
	}
	for tries := 0; ; tries++ {
		job, at, err := m.jobAbove(pid)
		switch {
		case err == nil:
			return job, nil
		case tries < 3:
			time.Sleep(time.Millisecond) // a parent ended: the process has another now
		case at != pid && os.Geteuid() != 0:
			return "", nil // the system hides other users' processes; supervisors are ours
		default:
			return "", fmt.Errorf("cannot tell whether process %d belongs to a job: %w", pid, err)
		}
	}
}

// jobAbove looks for a supervisor from a process upwards, and returns how far it came.
func (m *Machine) jobAbove(pid int) (job sched.JobID, at int, err error) {
	for at = pid; at > 1; {
		p, err := readProcess(at)
		if err != nil {
			return "", at, err
		}
		dir, below := strings.CutPrefix(variable(environ(at), shimDirVar), m.jobsDir()+"/")
		if job, _, ok := strings.Cut(dir, "/"); below && ok {
			return sched.JobID(job), at, nil
		}
		at = p.parent
	}
	return "", at, nil
}

// environ returns the variables a process was started with; nil: it is gone, or
// may not be read.
func environ(pid int) []byte {
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
	if err != nil {
		return nil
	}
	return data
}

// variable finds a variable in what environ returned.
func variable(env []byte, name string) string {
	for v := range bytes.SplitSeq(env, []byte{0}) {
		if value, ok := bytes.CutPrefix(v, []byte(name+"=")); ok {
			return string(value)
		}
	}
	return ""
}

// bootID identifies the current boot of the machine.
func bootID() string {
	data, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(data))
}

// handle returns a descriptor of a process, and fails if the process is gone or
// its number was reused.
func handle(pid int, start uint64) (int, error) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return -1, err
	}
	// The descriptor is fixed now: if /proc still shows the same start, it is the
	// same process.
	if p, err := readProcess(pid); err != nil || p.start != start || p.state == 'Z' {
		unix.Close(fd)
		return -1, unix.ESRCH
	}
	return fd, nil
}

// signalProcess sends a signal to exactly that process.
func signalProcess(pid int, start uint64, sig unix.Signal) error {
	fd, err := handle(pid, start)
	if errors.Is(err, unix.ENOSYS) {
		if p, e := readProcess(pid); e != nil || p.start != start {
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

// killAll kills every process that match selects, repeatedly because they may
// start others, until none is left. It returns how many it killed.
func killAll(match func(all map[int]process, p process) bool, patience time.Duration) (int, error) {
	killed := map[[2]uint64]bool{}
	for until := time.Now().Add(patience); ; {
		all, err := processes()
		if err != nil {
			return len(killed), fmt.Errorf("look for processes: %w", err)
		}
		left := 0
		for _, p := range all {
			if p.state == 'Z' || p.pid == os.Getpid() || !match(all, p) {
				continue
			}
			left++
			killed[[2]uint64{uint64(p.pid), p.start}] = true
			if err := signalProcess(p.pid, p.start, unix.SIGKILL); errors.Is(err, unix.EPERM) {
				return len(killed), fmt.Errorf("kill process %d: %w", p.pid, err)
			}
		}
		if left == 0 {
			return len(killed), nil
		}
		if time.Now().After(until) {
			return len(killed), fmt.Errorf("%d processes survive SIGKILL", left)
		}
		time.Sleep(5 * time.Millisecond)
	}
}
