// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package local

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/daemon/executor"
	"github.com/fairway-gpu/fairway/sched"
)

// ErrUnsupported means that jobs cannot run on this operating system.
var ErrUnsupported = errors.New("fairway runs jobs on Linux only; use a Linux machine, and this one as a client")

// Machine is available on Linux only.
type Machine struct{}

// Discover fails: it is available on Linux only.
func Discover(context.Context, Config) (sched.Node, []Device, error) {
	return sched.Node{}, nil, ErrUnsupported
}

// CanSuspend returns that nothing can be suspended.
func CanSuspend(Config) (ok bool, why string) { return false, ErrUnsupported.Error() }

// FindRuntime returns that there is none.
func FindRuntime(context.Context, Config, string) (r Runtime, why string) {
	return r, ErrUnsupported.Error()
}

// Open fails: it is available on Linux only.
func Open(Config) (*Machine, error) { return nil, ErrUnsupported }

// ShimMain fails: it is available on Linux only.
func ShimMain([]string) int { return 2 }

// Close does nothing.
func (*Machine) Close() error { return nil }

// Run fails: it is available on Linux only.
func (*Machine) Run(context.Context, executor.Port) error { return ErrUnsupported }

// StopAll fails: it is available on Linux only.
func (*Machine) StopAll(context.Context) error { return ErrUnsupported }

// JobOf returns that no process belongs to a job.
func (*Machine) JobOf(int) (sched.JobID, error) { return "", nil }

// Use returns nothing.
func (*Machine) Use() []*api.GPUUse { return nil }

// Warm returns nothing.
func (*Machine) Warm() *api.Warm { return nil }

// Joined returns that nothing is known.
func (*Machine) Joined(api.AttemptID) (joined, ok bool) { return false, false }

// Problem returns that nothing is measured.
func (*Machine) Problem() string { return ErrUnsupported.Error() }

// Paused returns that nothing is started.
func (*Machine) Paused() string { return ErrUnsupported.Error() }

// LogFiles fails: it is available on Linux only.
func (*Machine) LogFiles(sched.JobID) ([]api.LogFile, error) { return nil, ErrUnsupported }

// CopyLog fails: it is available on Linux only.
func (*Machine) CopyLog(context.Context, sched.JobID, api.LogQuery, io.Writer) error {
	return ErrUnsupported
}

// Secrets is available on Linux only.
type Secrets struct{}

// OpenSecrets fails: it is available on Linux only.
func OpenSecrets(string) (*Secrets, error) { return nil, ErrUnsupported }

// Keep fails: it is available on Linux only.
func (*Secrets) Keep(map[string]string) (string, error) { return "", ErrUnsupported }

// Decided does nothing.
func (*Secrets) Decided(string) {}

// Sweep fails: it is available on Linux only.
func (*Secrets) Sweep(func() (map[string]bool, error)) error { return ErrUnsupported }

// ErrNoExit means that a terminal ended without an exit code.
var ErrNoExit = ErrUnsupported

// Terminal is available on Linux only.
type Terminal struct{ Name string }

// ListenTerminal fails: it is available on Linux only.
func ListenTerminal() (*Terminal, error) { return nil, ErrUnsupported }

// Accept fails: it is available on Linux only.
func (*Terminal) Accept() error { return ErrUnsupported }

// Close does nothing.
func (*Terminal) Close() {}

// Resize does nothing.
func (*Terminal) Resize(int, int) {}

// Attach fails: it is available on Linux only.
func (*Terminal) Attach(io.Reader, io.Writer) (int, error) { return 0, ErrUnsupported }

// TerminalMain fails: it is available on Linux only.
func TerminalMain(string, time.Duration, []string) error { return ErrUnsupported }

// SetAside says what Open has set aside: nothing.
func (m *Machine) SetAside() string { return "" }
