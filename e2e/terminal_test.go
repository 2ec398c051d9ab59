// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package e2e

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/fairway-gpu/fairway/api"
)

// screen is a command on a terminal of its own, and what the terminal shows.
type screen struct {
	*exec.Cmd
	t      *testing.T
	master *os.File
	shown  lockedBuffer
}

// onScreen starts a command of the program on a terminal, as its session's leader: the
// terminal turns Ctrl-C into a signal to it.
func (d *daemon) onScreen(args ...string) *screen {
	d.t.Helper()
	path, err := program()
	if err != nil {
		d.t.Fatal(err)
	}
	s := &screen{t: d.t, Cmd: exec.Command(path, args...)}
	if s.master, err = os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0); err != nil {
		d.t.Fatal(err)
	}
	number, err := unix.IoctlGetInt(s.fd(), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(s.fd(), unix.TIOCSPTLCK, 0)
	}
	if err != nil {
		d.t.Fatal(err)
	}
	slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		d.t.Fatal(err)
	}
	defer slave.Close()
	s.resize(132, 40)
	s.Env = append(os.Environ(), "FAIRWAY_ADDRESS=unix://"+filepath.Join(d.data, "fairway.sock"))
	s.Stdin, s.Stdout, s.Stderr = slave, slave, slave
	s.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := s.Start(); err != nil {
		d.t.Fatal(err)
	}
	go func() { _, _ = io.Copy(&s.shown, s.master) }() // ends when the terminal is closed
	d.t.Cleanup(func() {
		if d.t.Failed() {
			d.t.Logf("%s shows:\n%q", strings.Join(args, " "), s.shown.tail(4000))
		}
		_ = s.Process.Kill()
		s.master.Close()
	})
	return s
}

func (s *screen) fd() int { return int(s.master.Fd()) }

func (s *screen) resize(columns, rows uint16) {
	s.t.Helper()
	if err := unix.IoctlSetWinsize(s.fd(), unix.TIOCSWINSZ, &unix.Winsize{Row: rows, Col: columns}); err != nil {
		s.t.Fatal(err)
	}
}

func (s *screen) types(text string) {
	s.t.Helper()
	if _, err := io.WriteString(s.master, text); err != nil {
		s.t.Fatal(err)
	}
}

// shows waits for a text on the terminal.
func (s *screen) shows(text string) {
	s.t.Helper()
	waitFor(s.t, patience, func() bool { return strings.Contains(s.shown.tail(8000), text) })
}

// ends waits for the end and compares the exit code.
func (s *screen) ends(code int) {
	s.t.Helper()
	err := s.Wait()
	var ended *exec.ExitError
	if got := s.ProcessState.ExitCode(); got != code || err != nil && !errors.As(err, &ended) {
		s.t.Errorf("%s: %v; want exit code %d\n%s", strings.Join(s.Args[1:], " "), err, code, s.shown.tail(4000))
	}
}

// TestTerminal: what the commands do for a person in front of a terminal, which they do
// not for a pipe.
func TestTerminal(t *testing.T) {
	d := startDaemon(t, shortDir(t), "--slots", "1")

	// The shell has the size of the terminal, follows it, and gets Ctrl-C like any key.
	s := d.onScreen("shell", "--", "sh")
	was, err := unix.IoctlGetTermios(s.fd(), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	s.types("stty size\n")
	s.shows("40 132")
	s.resize(100, 30)
	waitFor(t, patience, func() bool { s.types("stty size\n"); return strings.Contains(s.shown.tail(8000), "30 100") })
	s.types("echo sle''ep; sleep 1000\n")
	s.shows("sleep\r\n")
	s.types("\x03")
	// An interrupted shell forgets what was typed before it noticed.
	waitFor(t, patience, func() bool { s.types("echo go''es-on\n"); return strings.Contains(s.shown.tail(8000), "goes-on") })
	s.types("exit 7\n")
	s.ends(7)
	if is, err := unix.IoctlGetTermios(s.fd(), unix.TCGETS); err != nil || *is != *was {
		t.Errorf("the shell left the terminal as %+v, %v; want it as it was: %+v", is, err, was)
	}

	// A progress bar runs in place where it is followed, and is one line where it is read.
	s = d.onScreen("run", "--name", "bar", `printf '10%%\r50%%\r100%%\ndone\n'`)
	s.ends(0)
	s.shows("10%\r50%\r100%\r\ndone")
	s = d.onScreen("logs", "bar")
	s.ends(0)
	if s.shows("done"); s.shown.tail(8000) != "100%\r\ndone\r\n" {
		t.Errorf("fairway logs shows %q; want the last state of the bar", s.shown.tail(8000))
	}

	// Ctrl-C asks, and Enter leaves the job running.
	s = d.onScreen("run", "--name", "long", "echo began; exec sleep 1000")
	s.shows("began")
	s.types("\x03")
	s.shows("Ctrl-C again cancels it; Enter leaves it running")
	s.types("\n")
	s.ends(1)
	s.shows("keeps running")
	d.until("long-3", api.Running)
	if _, err := d.cli(nil, "cancel", "long"); err != nil {
		t.Error(err)
	}
	d.until("long-3", api.Cancelled)
}
