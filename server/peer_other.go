// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package server

import (
	"errors"
	"net"
)

// peerOf is known on Linux only; elsewhere the socket needs a token too.
func peerOf(*net.UnixConn) (process, error) {
	return process{}, errors.New("identify the peer: not supported on this system")
}
