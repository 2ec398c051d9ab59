// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/sched"
)

func TestListenSocket(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f.sock")
	open := func(e ListenConfig) (*Listener, error) { return Listen(e) }
	l, err := open(ListenConfig{Address: "unix://" + path})
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 || info.Mode().Type() != fs.ModeSocket {
		t.Errorf("mode %v, %v; want a socket with 0600", info.Mode(), err)
	}
	if _, err := open(ListenConfig{Address: "unix://" + path}); err == nil || !strings.Contains(err.Error(), "another daemon is listening") {
		t.Errorf("a socket that answers: %v", err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if left, _ := os.ReadDir(dir); len(left) > 0 {
		t.Errorf("%v is left behind", left)
	}
	// A daemon that was killed leaves its socket behind.
	stale, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	stale.SetUnlinkOnClose(false)
	stale.Close()
	l, err = open(ListenConfig{Address: "unix://" + path, Mode: 0o600})
	if err != nil {
		t.Fatalf("a socket nobody is behind: %v", err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v; want 0600", info.Mode(), err)
	}
	l.Close()
	file := filepath.Join(dir, "data")
	if err := os.WriteFile(file, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, address := range []string{"unix://" + file, "unix://relative", "unix://" + dir + "/" + strings.Repeat("x", 120), "unix:///none/none/f.sock", "nonsense", "127.0.0.1:99999"} {
		if l, err := open(ListenConfig{Address: address}); err == nil {
			t.Errorf("%s: no error", address)
			l.Close()
		}
	}
	if b, err := os.ReadFile(file); err != nil || string(b) != "precious" {
		t.Errorf("a file in the way became %q, %v", b, err)
	}
	for _, e := range []ListenConfig{{Address: "127.0.0.1:0", Cert: file}, {Address: "127.0.0.1:0", Cert: file, Key: file}, {Address: "unix://" + path, Group: "no such group"}} {
		if l, err := open(e); err == nil {
			t.Errorf("%+v: no error", e)
			l.Close()
		}
	}
}

// TestAgentSocket: only the routes of agents are there, and only the secret of an
// attempt opens them, whoever asks.
func TestAgentSocket(t *testing.T) {
	f := newFake()
	s := newServer(t, config(f))
	path := filepath.Join(t.TempDir(), "a.sock")
	l, err := Listen(ListenConfig{Address: "unix://" + path, Agents: true, Mode: 0o666})
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o666 {
		t.Errorf("mode %v, %v; want 0666", info.Mode(), err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx, l) }()
	defer func() { stop(); <-done }()
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", path)
	}}
	defer transport.CloseIdleConnections()
	for _, rt := range s.routes {
		path, body := example(rt)
		for secret, want := range map[string]int{"attempt": 200, "fw_admin": 401, "": 401} {
			if !rt.agent {
				want = 404
			}
			r, _ := http.NewRequest(rt.method, "http://fairway"+path, strings.NewReader(body))
			if secret != "" {
				r.Header.Set("Authorization", "Bearer "+secret)
			}
			a, err := transport.RoundTrip(r)
			if err != nil {
				t.Fatal(err)
			}
			a.Body.Close()
			if a.StatusCode != want {
				t.Errorf("%s %s with %q: %d; want %d", rt.method, path, secret, a.StatusCode, want)
			}
		}
	}
	for _, path := range []string{"/", "/login", "/index.html"} {
		r, _ := http.NewRequest("GET", "http://fairway"+path, nil)
		if a, err := transport.RoundTrip(r); err != nil || a.StatusCode != 404 {
			t.Errorf("%s: %v, %v; want 404", path, a, err)
		} else {
			a.Body.Close()
		}
	}
}

// TestAgentConnections: a user who opens many connections is held to his share, and
// gets it back.
func TestAgentConnections(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.sock")
	listener, err := Listen(ListenConfig{Address: "unix://" + path, Agents: true})
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	l := listener.inner.(*fairListener)
	l.open[os.Getuid()] = maxAgentConns - 1
	dial := func() net.Conn {
		c, err := net.Dial("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	first := dial()
	accepted, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	second := dial()
	got := make(chan net.Conn, 1)
	go func() { c, _ := l.Accept(); got <- c }()
	if _, err := second.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("one connection too many: %v; want it closed", err)
	}
	accepted.Close()
	accepted.Close() // counts once
	third := dial()
	if c := <-got; c == nil {
		t.Error("no connection after one was closed")
	} else {
		c.Close()
	}
	if n := l.open[os.Getuid()]; n != maxAgentConns-1 {
		t.Errorf("%d connections are counted; want %d", n, maxAgentConns-1)
	}
	for _, c := range []net.Conn{first, second, third} {
		c.Close()
	}
}

// TestProcessOfJob: the processes of jobs have no rights on the socket by themselves.
func TestProcessOfJob(t *testing.T) {
	for _, c := range []struct {
		job sched.JobID
		err error
	}{{"train-1", nil}, {"", errors.New("process 7 is gone")}} {
		cfg := config(newFake())
		cfg.JobOf = func(pid int) (sched.JobID, error) {
			if pid != os.Getpid() {
				t.Errorf("asked for process %d; want %d", pid, os.Getpid())
			}
			return c.job, c.err
		}
		r := start(t, cfg)
		if _, err := r.client(t, r.socket, "").Whoami(t.Context()); api.CodeOf(err) != api.Denied || !strings.Contains(err.Error(), cmp.Or(string(c.job), "is gone")) {
			t.Errorf("%+v: %v; want it denied", c, err)
		}
		if who, err := r.client(t, r.socket, "fw_viewer").Whoami(t.Context()); err != nil || who.Role != api.Viewer {
			t.Errorf("%+v with a token: %+v, %v; want a viewer", c, who, err)
		}
	}
}

func TestLocalIdentity(t *testing.T) {
	s := newServer(t, config(newFake()))
	s.uid = 4_000_001
	for uid, want := range map[int]api.Role{0: api.Admin, 4_000_001: api.Admin, 4_000_002: api.User} {
		who := s.local(uid, 55)
		if who.Role != want || who.Tenant != "default" || who.Owner.UID != uid || who.Owner.GID != 55 || who.User == "" {
			t.Errorf("uid %d: %+v; want role %s", uid, who, want)
		}
	}
}

func TestNewRefuses(t *testing.T) {
	if _, err := New(Config{}); err == nil {
		t.Error("no services: no error")
	}
	c := config(newFake())
	c.SessionKey = []byte("short")
	if _, err := New(c); err == nil {
		t.Error("a short key: no error")
	}
	c = config(newFake())
	c.Metrics = NewMetrics()
	if _, err := New(c); err != nil {
		t.Error(err)
	}
	if _, err := New(c); err == nil {
		t.Error("metrics of another server: no error")
	}
}
