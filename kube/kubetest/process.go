// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package kubetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// Process is a program that lives no longer than the cluster.
type Process struct {
	name  string
	log   string // the file of its output
	cmd   *exec.Cmd
	ended chan struct{} // closed when it has ended
}

// spawner starts processes from one thread that outlives them: the kernel sends the
// parent-death signal when the starting *thread* ends, and Go offers no other control
// over threads.
type spawner struct {
	starts chan func()
}

func newSpawner() *spawner {
	s := &spawner{starts: make(chan func())}
	go func() {
		runtime.LockOSThread()
		for start := range s.starts {
			start()
		}
	}()
	return s
}

// close ends the thread, and with it whatever is still running.
func (s *spawner) close() { close(s.starts) }

// start runs a program with its output in folder/name.log. The log is appended to, so
// that it survives a restart.
func (s *spawner) start(folder, name string, cmd *exec.Cmd) (*Process, error) {
	p := &Process{name: name, log: filepath.Join(folder, name+".log"), cmd: cmd, ended: make(chan struct{})}
	output, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	defer output.Close()
	cmd.Stdout, cmd.Stderr = output, output
	if cmd.Dir == "" {
		cmd.Dir = folder
	}
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	dieWithParent(cmd.SysProcAttr)
	failed := make(chan error)
	s.starts <- func() { failed <- cmd.Start() }
	if err := <-failed; err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	go func() {
		_ = cmd.Wait() // its log says how it ended
		close(p.ended)
	}()
	return p, nil
}

// Running reports whether the process has not ended.
func (p *Process) Running() bool {
	if p == nil {
		return false
	}
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

// Kill ends the process and its group at once.
func (p *Process) Kill() {
	if !p.Running() {
		return
	}
	_ = syscall.Kill(-p.PID(), syscall.SIGKILL) // it may just have ended
	<-p.ended
}

// Stop asks the process to end, and kills it if it has not ended within the time.
func (p *Process) Stop(within time.Duration) {
	if !p.Running() {
		return
	}
	_ = syscall.Kill(p.PID(), syscall.SIGTERM)
	select {
	case <-p.ended:
	case <-time.After(within):
		p.Kill()
	}
}

// Pause freezes the process, as a long stall does, until Resume.
func (p *Process) Pause() error {
	if err := syscall.Kill(-p.PID(), syscall.SIGSTOP); err != nil {
		return err
	}
	return awaitStop(p.PID())
}

// Resume undoes Pause.
func (p *Process) Resume() error { return syscall.Kill(-p.PID(), syscall.SIGCONT) }

// Tail returns the last lines of the process's log.
func (p *Process) Tail(lines int) string {
	data, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	all := bytes.Split(bytes.TrimSpace(data), []byte("\n"))
	return string(bytes.Join(all[max(0, len(all)-lines):], []byte("\n")))
}

// PID returns the process's ID.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// until polls ready until it returns nil, the process ends or ctx is done.
func (p *Process) until(ctx context.Context, ready func(context.Context) error) error {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		err := ready(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-p.ended:
			return fmt.Errorf("wait for %s: it ended: %s", p.name, strings.TrimSpace(p.Tail(8)))
		case <-ctx.Done():
			return fmt.Errorf("wait for %s: %w; its log ends: %s", p.name, errors.Join(ctx.Err(), err), strings.TrimSpace(p.Tail(8)))
		case <-tick.C:
		}
	}
}
