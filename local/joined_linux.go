// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package local

import (
	"bufio"
	"os"
	"strconv"
	"strings"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/daemon/proc"
)

// Joined reports whether the processes of a running attempt have met where their
// environment tells them to: something listens on MASTER_PORT. ok is false if that
// cannot be told, or if there is only one process. Roles need not meet.
func (m *Machine) Joined(id api.AttemptID) (joined, ok bool) {
	m.mu.Lock()
	r := m.runs[id]
	if r == nil || r.state != running || !r.up || r.order.ranks() < 2 || len(r.order.Task.Roles) > 0 {
		m.mu.Unlock()
		return false, false
	}
	shim := r.shim.PID
	m.mu.Unlock()
	all, err := proc.All()
	if err != nil {
		return false, false
	}
	for pid := range all {
		if pid == shim || !proc.Under(all, pid, shim) {
			continue
		}
		if port, err := strconv.Atoi(variable(environ(pid), "MASTER_PORT")); err == nil && port > 0 {
			return listening(port)
		}
	}
	return false, false
}

// listening reports whether a socket of this machine listens on a TCP port.
func listening(port int) (is, ok bool) {
	const stateListen = "0A"
	end := strings.ToUpper(strconv.FormatInt(int64(port)+1<<16, 16))[1:] // four digits
	for _, path := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		f, err := os.Open(path)
		if err != nil {
			continue // without IPv6 there is no second file
		}
		ok = true
		for lines := bufio.NewScanner(f); lines.Scan(); {
			if f := strings.Fields(lines.Text()); len(f) > 3 && f[3] == stateListen && strings.HasSuffix(f[1], ":"+end) {
				is = true
			}
		}
		f.Close()
	}
	return is, ok
}
