// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package local

import (
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strconv"
	"syscall"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/fairway-gpu/fairway/daemon/proc"
)

// warm is the interpreter of a supervisor.
type warm struct {
	link, pid int
	placed    bool // in the control group of the attempt
}

// openWarm returns the interpreter that a standby has left; nil: there is none.
func openWarm() *warm {
	pid, err := strconv.Atoi(os.Getenv(warmVar))
	if err != nil {
		return nil
	}
	os.Unsetenv(warmVar)
	unix.CloseOnExec(warmFD)
	t := unix.NsecToTimeval(warmPatience.Nanoseconds())
	_ = unix.SetsockoptTimeval(warmFD, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &t)
	_ = unix.SetsockoptTimeval(warmFD, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &t)
	return &warm{link: warmFD, pid: pid}
}

// fork starts the process of a rank, from the interpreter if there is one.
func (g *gang) fork(program string, command []string, attr *syscall.ProcAttr) (int, error) {
	if g.warm != nil {
		pid, err := g.forkWarm(attr)
		if err == nil {
			g.record.Warm = true
			return pid, nil
		}
		fmt.Fprintln(os.Stderr, "shim: starting without the warm interpreter:", err)
		g.endWarm()
	}
	return syscall.ForkExec(program, command, attr)
}

// settleWarm ends an interpreter that no later rank will need.
func (g *gang) settleWarm() {
	if g.order.ranks() == 1 && g.order.Spec.MaxGPUs <= 1 {
		g.endWarm()
	}
}

// endWarm ends the interpreter. Ranks that it has started are not touched.
func (g *gang) endWarm() {
	if g.warm != nil {
		_ = unix.Kill(g.warm.pid, unix.SIGKILL)
		unix.Close(g.warm.link)
		g.warm = nil
	}
}

func (g *gang) forkWarm(attr *syscall.ProcAttr) (int, error) {
	c, ok := pythonCommand(g.order.Task.Command)
	if !ok {
		return 0, errors.New("not a command for it")
	}
	if err := g.warm.place(g.group); err != nil {
		return 0, err
	}
	for _, s := range append(append([]string{attr.Dir}, attr.Env...), g.order.Task.Command...) {
		if !utf8.ValidString(s) {
			return 0, errors.New("its command or variables are not UTF-8")
		}
	}
	var gate [2]int
	if err := unix.Pipe2(gate[:], unix.O_CLOEXEC); err != nil {
		return 0, err
	}
	defer unix.Close(gate[0])
	defer unix.Close(gate[1]) // a rank that has not been let through ends
	err := writeFrame(g.warm.link, map[string]any{
		"dir": attr.Dir, "env": attr.Env, "command": g.order.Task.Command, "args": c.args, "module": c.module,
		"pgid": attr.Sys.Pgid, "parent": os.Getpid(),
	}, int(attr.Files[0]), int(attr.Files[1]), gate[0])
	if err != nil {
		return 0, err
	}
	var said warmAnswer
	if err := readFrame(g.warm.link, &said); err != nil || said.Error != "" {
		return 0, cmp.Or(err, errors.New(said.Error))
	}
	if p, err := proc.Read(said.PID); err != nil || p.Parent != os.Getpid() || said.PID == g.warm.pid {
		return 0, fmt.Errorf("process %d is not a child of this one: %w", said.PID, err)
	}
	_, err = unix.Write(gate[1], []byte("1"))
	runtime.KeepAlive(attr)
	return said.PID, err
}

// place puts the interpreter, and so what it forks, into the control groups of the
// attempt.
func (w *warm) place(g *group) error {
	for _, dir := range g.dirs {
		if w.placed {
			break
		}
		if err := os.WriteFile(dir+"/cgroup.procs", []byte(strconv.Itoa(w.pid)), 0); err != nil {
			return fmt.Errorf("enter control group: %w", err)
		}
	}
	w.placed = true
	return nil
}

// writeFrame sends a message, and descriptors with its beginning.
func writeFrame(fd int, message any, rights ...int) error {
	data, err := json.Marshal(message)
	if err != nil {
		return err
	}
	data = append(binary.BigEndian.AppendUint32(nil, uint32(len(data))), data...)
	n, err := unix.SendmsgN(fd, data, unix.UnixRights(rights...), nil, unix.MSG_NOSIGNAL)
	for err == nil && n < len(data) {
		data = data[n:]
		n, err = unix.SendmsgN(fd, data, nil, nil, unix.MSG_NOSIGNAL)
	}
	return err
}

func readFrame(fd int, message any) error {
	read := func(buffer []byte) error {
		for len(buffer) > 0 {
			n, err := unix.Read(fd, buffer)
			switch {
			case err == unix.EINTR:
				continue
			case err != nil:
				return err
			case n == 0:
				return io.ErrUnexpectedEOF
			}
			buffer = buffer[n:]
		}
		return nil
	}
	head := make([]byte, 4)
	if err := read(head); err != nil {
		return err
	}
	size := binary.BigEndian.Uint32(head)
	if size > 64<<10 {
		return fmt.Errorf("a message of %d bytes", size)
	}
	data := make([]byte, size)
	if err := read(data); err != nil {
		return err
	}
	return json.Unmarshal(data, message)
}
