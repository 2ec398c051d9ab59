// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"fmt"
	"net"
	"syscall"
)

// peerOf asks the operating system who is at the other end of a Unix socket.
func peerOf(c *net.UnixConn) (process, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return process{}, fmt.Errorf("identify the peer: %w", err)
	}
	var cred *syscall.Ucred
	var inner error
	err = raw.Control(func(fd uintptr) {
		cred, inner = syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
	})
	switch {
	case err != nil:
		return process{}, fmt.Errorf("identify the peer: %w", err)
	case inner != nil:
		return process{}, fmt.Errorf("identify the peer: %w", inner)
	}
	return process{pid: int(cred.Pid), uid: int(cred.Uid), gid: int(cred.Gid)}, nil
}
