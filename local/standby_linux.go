// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package local

import (
	"cmp"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A standby is a supervisor without an attempt. It has started an interpreter that has
// imported torch and waits. When it gets an attempt, it becomes an ordinary supervisor
// by executing itself anew: process, child and lock stay. Its ranks are forks of the
// interpreter, which the kernel makes children of the supervisor, so that all else is
// as if it had started them. What cannot be done this way starts the ordinary way.

//go:embed warm.py
var warmScript string

const (
	controlFD = 3 // of a standby: the daemon's end is the pool's
	warmFD    = 5 // of a supervisor: its interpreter
	warmVar   = "FAIRWAY_WARM"
	// warmRoom is a variable of the interpreter that leaves room in its memory for the
	// variables of a rank, which /proc shall show.
	warmRoom     = "FAIRWAY_ROOM"
	warmPatience = 10 * time.Second // for an answer
)

// standbyOrder tells a standby what to start.
type standbyOrder struct {
	Program       string              `json:"program"`
	Flags         []string            `json:"flags,omitempty"`
	Env           []string            `json:"env"`
	Credential    *syscall.Credential `json:"credential,omitempty"`
	NewPrivileges bool                `json:"new_privileges,omitempty"`
}

// standbyLaunch gives a standby its attempt. The lock, the pipe of readiness and the log of
// the supervisor come with it.
type standbyLaunch struct {
	Dir   string `json:"dir"`
	Nonce string `json:"nonce"`
}

// warmAnswer is what an interpreter says: that it is ready, or the rank it has forked.
type warmAnswer struct {
	PID   int    `json:"pid"`
	Error string `json:"error"`
}

// standbyMain waits for an attempt. It ends with the daemon, or with its interpreter.
func standbyMain() int {
	err := beStandby()
	fmt.Fprintln(os.Stderr, "shim: standby:", err)
	return 1
}

func beStandby() error {
	buffer := make([]byte, 256<<10)
	n, err := unix.Read(controlFD, buffer)
	if err != nil || n <= 0 {
		return fmt.Errorf("read what to start: %w", err)
	}
	var o standbyOrder
	if err := json.Unmarshal(buffer[:n], &o); err != nil {
		return err
	}
	if err := calm(); err != nil {
		return err
	}
	link, pid, err := startInterpreter(&o)
	if err != nil {
		return err
	}
	var said warmAnswer
	if err := readFrame(link, &said); err != nil {
		return err
	}
	answer, _ := json.Marshal(said)
	if _, err := unix.Write(controlFD, answer); err != nil || said.Error != "" {
		return cmp.Or(err, errors.New(said.Error))
	}
	wait := []unix.PollFd{{Fd: controlFD, Events: unix.POLLIN}, {Fd: int32(link), Events: unix.POLLIN}}
	for {
		if _, err := unix.Poll(wait, -1); err != nil && err != unix.EINTR {
			return err
		}
		if wait[0].Revents != 0 {
			return takeAttempt(buffer, link, pid)
		}
		if wait[1].Revents != 0 {
			return errors.New("the interpreter has ended")
		}
	}
}

// calm sets what ranks inherit from their supervisor.
func calm() error {
	// Orphans of the ranks become our children, so none is out of reach.
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("become a subreaper: %w", err)
	}
	unix.Umask(0o022)
	var core unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_CORE, &core) == nil {
		core.Cur = 0 // a crash must not fill the disk; a job may ask for more
		_ = unix.Setrlimit(unix.RLIMIT_CORE, &core)
	}
	return nil
}

func startInterpreter(o *standbyOrder) (link, pid int, err error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, 0, err
	}
	defer unix.Close(pair[1])
	g := gang{}
	g.order.NewPrivileges = o.NewPrivileges
	defer g.restrict()()
	argv := append(append([]string{o.Program}, o.Flags...), "-c", warmScript)
	pid, err = syscall.ForkExec(o.Program, argv, &syscall.ProcAttr{
		Dir: "/", Env: o.Env, Files: []uintptr{0, 1, 1, uintptr(pair[1])},
		Sys: &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL, Credential: o.Credential},
	})
	return pair[0], pid, err
}

// takeAttempt receives an attempt and becomes its supervisor.
func takeAttempt(buffer []byte, link, pid int) error {
	rights := make([]byte, unix.CmsgSpace(3*4))
	n, rn, _, _, err := unix.Recvmsg(controlFD, buffer, rights, unix.MSG_CMSG_CLOEXEC)
	if err != nil || n == 0 {
		return errors.Join(err, io.EOF)
	}
	var l standbyLaunch
	fds, err := received(rights[:rn])
	if err = errors.Join(err, json.Unmarshal(buffer[:n], &l)); err != nil || len(fds) != 3 {
		return fmt.Errorf("%d descriptors came with an attempt: %w", len(fds), err)
	}
	// The daemon has reserved these numbers.
	for fd, from := range map[int]int{lockFD: fds[0], readyFD: fds[1], 2: fds[2], warmFD: link} {
		if err := unix.Dup3(from, fd, 0); err != nil {
			return err
		}
	}
	var env []string
	for _, kv := range os.Environ() {
		if !strings.HasPrefix(kv, shimDirVar+"=") {
			env = append(env, kv)
		}
	}
	env = append(env, shimVar+"="+l.Nonce, shimDirVar+"="+l.Dir, warmVar+"="+strconv.Itoa(pid))
	argv := append(append([]string{}, os.Args[:len(os.Args)-1]...), l.Dir)
	return unix.Exec("/proc/self/exe", argv, env)
}

func received(rights []byte) ([]int, error) {
	messages, err := unix.ParseSocketControlMessage(rights)
	if err != nil || len(messages) != 1 {
		return nil, fmt.Errorf("%d control messages: %w", len(messages), err)
	}
	return unix.ParseUnixRights(&messages[0])
}
