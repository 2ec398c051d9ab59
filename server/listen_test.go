// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fairway-gpu/fairway/api"
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
	if err != nil || info.Mode().Perm() != 0o660 || info.Mode().Type() != fs.ModeSocket {
		t.Errorf("mode %v, %v; want a socket with 0660", info.Mode(), err)
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
