// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package kubetest

import (
	"fmt"
	"io"
	"net"
	"sync"
	"testing"

	"k8s.io/client-go/rest"
)

// Link is a connection to the API server that can be cut, to separate one client from
// the cluster while others continue.
type Link struct {
	listener net.Listener
	target   func() (string, error)
	wait     sync.WaitGroup

	mu     sync.Mutex
	open   *sync.Cond // no longer blocked, or closed
	blocks blocked
	closed bool
	conns  map[net.Conn]bool
}

// blocked says what a link does not let through.
type blocked int

const (
	nothing    blocked = iota
	answers            // from the API server
	everything         // both ways, and new connections
)

// Link returns a connection to the API server that is open until it is cut or the test
// ends.
func (c *Cluster) Link(t testing.TB) *Link {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(fmt.Errorf("open link: %w", err))
	}
	l := newLink(listener, c.toAPIServer)
	t.Cleanup(l.close)
	return l
}

// newLink forwards connections to the listener to the current target.
func newLink(listener net.Listener, target func() (string, error)) *Link {
	l := &Link{listener: listener, target: target, conns: map[net.Conn]bool{}}
	l.open = sync.NewCond(&l.mu)
	l.wait.Go(l.accept)
	return l
}

// Through returns a configuration that uses this link.
func (l *Link) Through(r *rest.Config) *rest.Config {
	r = rest.CopyConfig(r)
	r.Host = "https://" + l.listener.Addr().String()
	return r
}

// Block lets nothing through in either direction, while connections stay open and new
// ones are accepted: a partition. What is sent meanwhile arrives after Unblock.
func (l *Link) Block() { l.set(everything) }

// BlockAnswers lets requests through but no responses: the client's requests take
// effect without its knowledge, and it sees the cluster as it was. The responses arrive
// after Unblock.
func (l *Link) BlockAnswers() { l.set(answers) }

// Unblock undoes Block and BlockAnswers.
func (l *Link) Unblock() { l.set(nothing) }

// Sever closes all connections, as a load balancer does with long watches. New ones are
// accepted.
func (l *Link) Sever() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for conn := range l.conns {
		_ = conn.Close() // its copies end and remove it
	}
}

func (l *Link) set(blocks blocked) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.blocks = blocks
	l.open.Broadcast()
}

func (l *Link) close() {
	l.mu.Lock()
	l.closed = true
	l.open.Broadcast()
	l.mu.Unlock()
	_ = l.listener.Close()
	l.Sever()
	l.wait.Wait()
}

func (l *Link) accept() {
	for {
		conn, err := l.listener.Accept()
		if err != nil {
			return // closed
		}
		if l.keep(conn) {
			l.wait.Go(func() { l.serve(conn) })
		}
	}
}

// keep registers a connection, unless the link is closed.
func (l *Link) keep(conn net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		_ = conn.Close()
		return false
	}
	l.conns[conn] = true
	return true
}

func (l *Link) drop(conn net.Conn) {
	_ = conn.Close() // it may be closed already
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.conns, conn)
}

// pass waits while the link blocks this much or more.
func (l *Link) pass(least blocked) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.blocks >= least && !l.closed {
		l.open.Wait()
	}
}

func (l *Link) serve(client net.Conn) {
	defer l.drop(client)
	l.pass(everything)
	target, err := l.target()
	if err != nil {
		return
	}
	server, err := net.Dial("tcp", target)
	if err != nil || !l.keep(server) {
		return // the client sees its connection closed, as with a server that is down
	}
	defer l.drop(server)
	var both sync.WaitGroup
	both.Go(func() { l.copy(server, client, everything) })
	both.Go(func() { l.copy(client, server, answers) })
	both.Wait()
}

// copy forwards bytes until either end closes, and then closes the other. An end that
// has only closed its write side still receives the response. It waits while the link
// blocks this much or more.
func (l *Link) copy(to, from net.Conn, least blocked) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			l.pass(least)
			if _, err := to.Write(buffer[:n]); err != nil {
				_, _ = from.Close(), to.Close()
				return
			}
		}
		if half, ok := to.(*net.TCPConn); ok && err == io.EOF {
			_ = half.CloseWrite() // serve closes both ends after the response
			return
		}
		if err != nil {
			_, _ = from.Close(), to.Close()
			return
		}
	}
}
