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

	"github.com/fairway-gpu/fairway/daemon/proc"
	"github.com/fairway-gpu/fairway/sched"
)

// JobOf returns the job that a process belongs to; empty: none. Supervisors adopt the
// orphans of their ranks, so every process of a job has one among its ancestors, as long
// as the job has not killed its supervisor or had another service start the process. One
// in a container of docker has the first process of the container instead, which has the
// variables of a rank.
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
		p, err := proc.Read(at)
		if err != nil {
			return "", at, err
		}
		env := environ(at)
		for _, name := range []string{shimDirVar, keepDirVar} {
			dir, below := strings.CutPrefix(variable(env, name), m.jobsDir()+"/")
			if job, _, ok := strings.Cut(dir, "/"); below && ok {
				return sched.JobID(job), at, nil
			}
		}
		at = p.Parent
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

// killAll kills every process that match selects, repeatedly because they may
// start others, until none is left. It returns how many it killed.
func killAll(match func(all map[int]proc.Process, p proc.Process) bool, patience time.Duration) (int, error) {
	killed := map[[2]uint64]bool{}
	for until := time.Now().Add(patience); ; {
		all, err := proc.All()
		if err != nil {
			return len(killed), fmt.Errorf("look for processes: %w", err)
		}
		left := 0
		for _, p := range all {
			if p.State == 'Z' || p.PID == os.Getpid() || !match(all, p) {
				continue
			}
			left++
			killed[[2]uint64{uint64(p.PID), p.Start}] = true
			if err := proc.Signal(p.PID, p.Start, unix.SIGKILL); errors.Is(err, unix.EPERM) {
				return len(killed), fmt.Errorf("kill process %d: %w", p.PID, err)
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
