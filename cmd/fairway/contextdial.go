// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fairway-gpu/fairway/client"
)

// How long a command may take to print a token, and a tunnel to open.
const (
	tokenTime  = 30 * time.Second
	tunnelTime = 30 * time.Second
	tunnelEnd  = 10 * time.Second // to end by itself, when it is asked to
)

// dial opens the tunnel, if there is one, and makes the client. The tunnel ends when
// the client is closed.
func (p place) dial(r *remote) (*client.Client, error) {
	token, err := p.token(r)
	if err != nil {
		return nil, err
	}
	o := client.Options{Address: p.Address, Token: token, CA: cmp.Or(r.ca, p.CA), ServerName: p.ServerName}
	if len(p.Tunnel) > 0 {
		t, err := openTunnel(p.Tunnel)
		if err != nil {
			return nil, err
		}
		o.Address, o.OnClose = strings.ReplaceAll(o.Address, portMark, strconv.Itoa(t.port)), t.close
	}
	c, err := client.New(o)
	if err != nil {
		if o.OnClose != nil {
			o.OnClose()
		}
		return nil, usageError{err}
	}
	return c, nil
}

// token returns the secret to show; what was given by hand counts more.
func (p place) token(r *remote) (string, error) {
	if given := cmp.Or(r.token, os.Getenv(envToken)); given != "" {
		return given, nil
	}
	if file := cmp.Or(r.tokenFile, p.TokenFile); file != "" {
		return readTokenFile(file, true)
	}
	if len(p.TokenCommand) == 0 {
		return "", nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), tokenTime)
	defer cancel()
	var out, faults limited
	cmd := exec.CommandContext(ctx, p.TokenCommand[0], p.TokenCommand[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.WaitDelay = os.Stdin, &out, &faults, time.Second
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("get a token with %.200q: %w: %s", strings.Join(p.TokenCommand, " "), err, faults.text())
	}
	token := out.text()
	if token == "" || len(token) > maxToken || strings.ContainsAny(token, " \t\r\n") {
		return "", fmt.Errorf("get a token with %.200q: its output is not a single token", strings.Join(p.TokenCommand, " "))
	}
	return token, nil
}

// limited keeps the beginning of what a command prints.
type limited struct{ kept bytes.Buffer }

func (l *limited) Write(b []byte) (int, error) {
	const most = 16 << 10
	l.kept.Write(b[:min(len(b), most-min(most, l.kept.Len()))])
	return len(b), nil
}

func (l *limited) text() string { return strings.TrimSpace(l.kept.String()) }

// tunnel is a command that listens on a port of this machine.
type tunnel struct {
	port   int
	cmd    *exec.Cmd
	ended  chan struct{}
	faults *limited
}

// openTunnel starts the command and waits until its port answers.
func openTunnel(command []string) (*tunnel, error) {
	port, err := unusedPort()
	if err != nil {
		return nil, err
	}
	args := slices.Clone(command)
	for i := range args {
		args[i] = strings.ReplaceAll(args[i], portMark, strconv.Itoa(port))
	}
	t := &tunnel{port: port, cmd: exec.Command(args[0], args[1:]...), ended: make(chan struct{}), faults: &limited{}}
	t.cmd.Stdout, t.cmd.Stderr, t.cmd.WaitDelay = io.Discard, t.faults, time.Second
	if err := t.cmd.Start(); err != nil {
		return nil, fmt.Errorf("open tunnel: %w", err)
	}
	go func() {
		_ = t.cmd.Wait() // how it ended matters only if it never opened: then faults say why
		close(t.ended)
	}()
	if err := t.wait(); err != nil {
		t.close()
		return nil, fmt.Errorf("open tunnel with %.200q: %w", strings.Join(args, " "), err)
	}
	return t, nil
}

func (t *tunnel) wait() error {
	for deadline := time.Now().Add(tunnelTime); time.Now().Before(deadline); {
		c, err := net.DialTimeout("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(t.port)), time.Second)
		if err == nil {
			return c.Close()
		}
		select {
		case <-t.ended:
			return fmt.Errorf("it exited: %s", cmp.Or(t.faults.text(), "no output"))
		case <-time.After(20 * time.Millisecond):
		}
	}
	return errors.New("no answer")
}

// close ends the command. It is asked first, so that it can end what it has started.
func (t *tunnel) close() {
	_ = t.cmd.Process.Signal(os.Interrupt) // it may have ended
	select {
	case <-t.ended:
		return
	case <-time.After(tunnelEnd):
	}
	_ = t.cmd.Process.Kill()
	<-t.ended
}

func unusedPort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("find a free port: %w", err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	return port, l.Close()
}
