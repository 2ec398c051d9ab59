// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// ListenConfig says where to listen.
type ListenConfig struct {
	// Address is unix:///path/of.sock, or host:port for TCP.
	Address string
	Agents  bool        // a Unix socket for the agents of jobs
	Mode    fs.FileMode // of a Unix socket; 0: 0600, or 0660 with a group
	Group   string      // of a Unix socket, name or number; empty: the daemon's
	// Cert and Key are files in PEM form; with them TCP is encrypted.
	Cert, Key string
	// Hosts are further names that requests to a loopback address may use.
	Hosts []string
}

// Listener accepts connections at an endpoint.
type Listener struct {
	endpoint Endpoint
	inner    net.Listener
	path     string      // of a Unix socket
	file     fs.FileInfo // of that path, as we made it
	tls      *tls.Config
}

// Listen starts to listen. A Unix socket that a daemon left behind is replaced;
// one that answers is an error.
func Listen(e ListenConfig) (*Listener, error) {
	if path, ok := strings.CutPrefix(e.Address, "unix://"); ok {
		return listenSocket(path, e)
	}
	l := &Listener{endpoint: Endpoint{Kind: Plain}}
	if (e.Cert == "") != (e.Key == "") {
		return nil, fmt.Errorf("listen at %s: certificate = %q, key = %q; want both or none", e.Address, e.Cert, e.Key)
	}
	if e.Cert != "" {
		pair, err := tls.LoadX509KeyPair(e.Cert, e.Key)
		if err != nil {
			return nil, fmt.Errorf("listen at %s: load certificate: %w", e.Address, err)
		}
		l.endpoint.Kind = Secure
		l.tls = &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}}
	}
	inner, err := net.Listen("tcp", e.Address)
	if err != nil {
		return nil, fmt.Errorf("listen at %s: %w", e.Address, err)
	}
	l.inner = inner
	if at, ok := inner.Addr().(*net.TCPAddr); ok && at.IP.IsLoopback() && l.endpoint.Kind == Plain {
		l.endpoint.Hosts = []string{"localhost", "127.0.0.1", "::1", at.IP.String()}
		if host, _, err := net.SplitHostPort(e.Address); err == nil {
			l.endpoint.Hosts = append(l.endpoint.Hosts, strings.ToLower(host))
		}
		for _, h := range e.Hosts {
			l.endpoint.Hosts = append(l.endpoint.Hosts, strings.ToLower(h))
		}
	}
	return l, nil
}

// maxSocketPath is what fits into the address of a Unix socket.
const maxSocketPath = 107

// listenSocket makes the socket in a folder only the daemon can enter and moves
// it into place when its mode is right, so that it is never open to more people
// than it should be.
func listenSocket(path string, e ListenConfig) (*Listener, error) {
	if !filepath.IsAbs(path) || len(path) > maxSocketPath {
		return nil, fmt.Errorf("listen at %s: want unix:// and an absolute path of at most %d bytes", e.Address, maxSocketPath)
	}
	if err := replaceable(path); err != nil {
		return nil, fmt.Errorf("listen at %s: %w", path, err)
	}
	hidden, err := os.MkdirTemp(filepath.Dir(path), ".s")
	if err != nil {
		return nil, fmt.Errorf("listen at %s: %w", path, err)
	}
	defer os.RemoveAll(hidden)
	fresh := filepath.Join(hidden, "s")
	inner, err := net.ListenUnix("unix", &net.UnixAddr{Name: fresh, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("listen at %s: %w", path, err)
	}
	inner.SetUnlinkOnClose(false)
	err = settle(fresh, path, e)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("listen at %s: %w", path, err), inner.Close())
	}
	file, err := os.Lstat(path)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("listen at %s: %w", path, err), inner.Close())
	}
	l := &Listener{endpoint: Endpoint{Kind: Socket}, inner: inner, path: path, file: file}
	if e.Agents {
		l.endpoint.Kind, l.inner = Agents, &fairListener{UnixListener: inner, open: map[int]int{}}
	}
	return l, nil
}

// settle gives the socket its group, mode and place.
func settle(fresh, path string, e ListenConfig) error {
	if e.Group != "" {
		gid, err := groupID(e.Group)
		if err != nil {
			return err
		}
		if err := os.Chown(fresh, -1, gid); err != nil {
			return err
		}
	}
	mode := fs.FileMode(0o600)
	if e.Group != "" {
		mode = 0o660
	}
	if err := os.Chmod(fresh, cmp.Or(e.Mode, mode)); err != nil {
		return err
	}
	return os.Rename(fresh, path)
}

func groupID(name string) (int, error) {
	if gid, err := strconv.Atoi(name); err == nil {
		return gid, nil
	}
	g, err := user.LookupGroup(name)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(g.Gid)
}

// replaceable says why a path cannot become our socket.
func replaceable(path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode().Type() != fs.ModeSocket:
		return errors.New("the path exists and is not a socket")
	}
	c, err := net.DialTimeout("unix", path, time.Second)
	if err != nil {
		return nil // nobody is behind it
	}
	return errors.Join(errors.New("another daemon is listening there"), c.Close())
}

// URL is where clients find the listener.
func (l *Listener) URL() string {
	switch l.endpoint.Kind {
	case Socket, Agents:
		return "unix://" + l.path
	case Secure:
		return "https://" + l.inner.Addr().String()
	}
	return "http://" + l.inner.Addr().String()
}

// Endpoint returns the way in which requests arrive here.
func (l *Listener) Endpoint() Endpoint { return l.endpoint }

// Close stops listening. Serve does it too.
func (l *Listener) Close() error {
	l.hide()
	if err := l.inner.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		return fmt.Errorf("close %s: %w", l.URL(), err)
	}
	return nil
}

// hide removes the socket from its folder, unless another daemon has put its own
// there. A socket that stays is replaced by the next daemon.
func (l *Listener) hide() {
	if l.path == "" {
		return
	}
	if now, err := os.Lstat(l.path); err == nil && os.SameFile(now, l.file) {
		_ = os.Remove(l.path)
	}
}
