// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"fmt"
	"net"
	"syscall"
)

// peerOf asks the operating system who is at the other end of a Unix socket.
func peerOf(c *net.UnixConn) (uid, gid int, err error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, 0, fmt.Errorf("identify the peer: %w", err)
	}
	var cred *syscall.Ucred
	var inner error
	err = raw.Control(func(fd uintptr) {
		cred, inner = syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
	})
	switch {
	case err != nil:
		return 0, 0, fmt.Errorf("identify the peer: %w", err)
	case inner != nil:
		return 0, 0, fmt.Errorf("identify the peer: %w", inner)
	}
	return int(cred.Uid), int(cred.Gid), nil
}
