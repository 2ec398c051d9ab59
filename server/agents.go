// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"net"
	"sync"
)

// maxAgentConns bounds the connections of one user at the socket for agents, which
// everybody on the machine can open: nobody may use up the daemon's descriptors.
const maxAgentConns = 1024

// fairListener drops the connections of a user who has too many open. Agents try
// again later.
type fairListener struct {
	*net.UnixListener

	mu   sync.Mutex
	open map[int]int // by user
}

// Accept implements net.Listener.
func (l *fairListener) Accept() (net.Conn, error) {
	for {
		c, err := l.AcceptUnix()
		if err != nil {
			return nil, err
		}
		at, err := peerOf(c)
		if err != nil {
			at.uid = -1 // all that the system cannot tell apart count as one
		}
		if l.count(at.uid, 1) > maxAgentConns {
			l.count(at.uid, -1)
			_ = c.Close() // nothing was said to it
			continue
		}
		return &countedConn{Conn: c, done: sync.OnceFunc(func() { l.count(at.uid, -1) })}, nil
	}
}

// count adds to the open connections of a user and returns how many there are.
func (l *fairListener) count(uid, more int) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open[uid] += more
	if l.open[uid] == 0 {
		delete(l.open, uid)
	}
	return l.open[uid]
}

type countedConn struct {
	net.Conn
	done func()
}

// Close implements net.Conn.
func (c *countedConn) Close() error {
	c.done()
	return c.Conn.Close()
}
