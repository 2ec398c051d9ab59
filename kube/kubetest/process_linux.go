// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package kubetest

import (
	"fmt"
	"net"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// dieWithParent puts a process into its own process group, and makes the kernel kill it
// when the test process ends in any way.
func dieWithParent(a *syscall.SysProcAttr) {
	a.Setpgid = true
	a.Pdeathsig = syscall.SIGKILL
}

// awaitStop returns when all threads of a child that was told to stop have stopped, or
// it has ended.
func awaitStop(pid int) error {
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WSTOPPED|unix.WEXITED|unix.WNOWAIT, nil)
		if err != unix.EINTR {
			if err != nil {
				return fmt.Errorf("wait until process %d has stopped: %w", pid, err)
			}
			return nil
		}
	}
}

// claim reports whether a name was free on this machine, and holds it long enough for a
// program to use what the name stands for.
func claim(name string) bool {
	l, err := net.Listen("unix", "@"+ownPrefix+name) // an abstract socket, not a file
	if err != nil {
		return false
	}
	time.AfterFunc(startWithin, func() { l.Close() })
	return true
}
