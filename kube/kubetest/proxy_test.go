// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package kubetest

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"testing"
	"time"
)

// echoes starts a server that answers each line, and returns a cluster whose API
// server it pretends to be.
func echoes(t *testing.T) *Cluster {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				for lines := bufio.NewScanner(conn); lines.Scan(); {
					fmt.Fprintln(conn, lines.Text())
				}
			}()
		}
	}()
	return &Cluster{host: "127.0.0.1", ports: ports{apiServer: listener.Addr().(*net.TCPAddr).Port}}
}

// ask sends a line and reports whether the answer came in time.
func ask(conn net.Conn, within time.Duration) error {
	if _, err := fmt.Fprintln(conn, "hello"); err != nil {
		return err
	}
	return hear(conn, within)
}

func hear(conn net.Conn, within time.Duration) error {
	if err := conn.SetReadDeadline(time.Now().Add(within)); err != nil {
		return err
	}
	_, err := conn.Read(make([]byte, 6))
	return err
}

func TestLink(t *testing.T) {
	link := echoes(t).Link(t)
	dial := func() net.Conn {
		conn, err := net.Dial("tcp", link.listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		return conn
	}
	old := dial()
	if err := ask(old, patience); err != nil {
		t.Fatalf("through an open link: %v", err)
	}
	link.Block()
	during := dial()
	for name, conn := range map[string]net.Conn{"an old connection": old, "a new connection": during} {
		if err, isNet := ask(conn, 100*time.Millisecond).(net.Error); !isNet || !err.Timeout() {
			t.Errorf("%s through a blocked link: %v; want no answer", name, err)
		}
	}
	link.Unblock()
	for name, conn := range map[string]net.Conn{"an old connection": old, "a new connection": during} {
		if err := hear(conn, patience); err != nil {
			t.Errorf("%s after the block: %v; want the answer", name, err)
		}
	}
	link.Sever()
	if err := ask(old, patience); err == nil {
		t.Error("a severed connection answers")
	}
	if err := ask(dial(), patience); err != nil {
		t.Errorf("a new connection after the cut: %v", err)
	}
}

// TestLinkToCluster: certificates are valid through a link, too.
func TestLinkToCluster(t *testing.T) {
	c, ctx := shared.Cluster(t), inTime(t)
	link := c.Link(t)
	through := clientOf(t, link.Through(c.Admin()))
	if err := list(ctx, through); err != nil {
		t.Fatal(err)
	}
	link.Block()
	short, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
	defer cancel()
	if err := list(short, through); err == nil {
		t.Error("the API server answers through a blocked link")
	}
	if err := list(ctx, c.Client); err != nil {
		t.Errorf("another client: %v; want it untouched", err)
	}
	link.Unblock()
	if err := list(ctx, through); err != nil {
		t.Errorf("after the block: %v", err)
	}
}
