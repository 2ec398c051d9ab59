// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package local

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A terminal is a job whose program is a shell on a pseudo-terminal of its own. Whoever
// sits in front of it listens on an abstract Unix socket, and the job connects: if the
// listener goes away, so does the shell, and no GPU is held for nobody. Each end checks
// that the other is the same user.
//
// Messages have a kind, a length and a content.
const (
	inputKind  = 'i' // what was typed
	sizeKind   = 'w' // rows and columns
	outputKind = 'o'
	exitKind   = 'x' // exit code; the last message

	maxMessage = 64 << 10
)

// ErrNoExit means that a terminal ended without the exit code of its shell: the job was
// stopped.
var ErrNoExit = errors.New("the connection to the shell was lost")

// messages writes messages from several goroutines.
type messages struct {
	mu sync.Mutex
	w  io.Writer
}

func (m *messages) send(kind byte, content []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	head := binary.BigEndian.AppendUint32([]byte{kind}, uint32(len(content)))
	_, err := m.w.Write(append(head, content...))
	return err
}

func receive(r io.Reader) (kind byte, content []byte, err error) {
	head := make([]byte, 5)
	if _, err := io.ReadFull(r, head); err != nil {
		return 0, nil, err
	}
	n := binary.BigEndian.Uint32(head[1:])
	if n > maxMessage {
		return 0, nil, fmt.Errorf("a message of %d bytes; want at most %d", n, maxMessage)
	}
	content = make([]byte, n)
	_, err = io.ReadFull(r, content)
	return head[0], content, err
}

// Terminal is the end of a terminal where somebody sits.
type Terminal struct {
	Name     string // for the job: the argument of TerminalMain
	listener net.Listener
	out      messages
	conn     net.Conn
}

// ListenTerminal waits for the shell of a job.
func ListenTerminal() (*Terminal, error) {
	name := "fairway-terminal-" + newNonce()
	l, err := net.Listen("unix", "@"+name)
	if err != nil {
		return nil, fmt.Errorf("listen for the shell: %w", err)
	}
	return &Terminal{Name: name, listener: l}, nil
}

// Accept waits for the job.
func (t *Terminal) Accept() error {
	for {
		conn, err := t.listener.Accept()
		if err != nil {
			return err
		}
		if peer, err := peerUser(conn); err != nil || peer != os.Geteuid() {
			conn.Close() // not ours
			continue
		}
		t.conn, t.out.w = conn, conn
		return nil
	}
}

// Close ends the terminal.
func (t *Terminal) Close() {
	t.listener.Close()
	if t.conn != nil {
		t.conn.Close()
	}
}

// Resize tells the shell the size of the window.
func (t *Terminal) Resize(columns, rows int) {
	size := binary.BigEndian.AppendUint16(nil, uint16(rows))
	_ = t.out.send(sizeKind, binary.BigEndian.AppendUint16(size, uint16(columns))) // the end is seen elsewhere
}

// Attach passes on what is typed and what is printed, until the shell ends; it returns
// the exit code. When there is nothing more to type, the shell sees the end of its input.
func (t *Terminal) Attach(in io.Reader, out io.Writer) (code int, err error) {
	go func() {
		buffer := make([]byte, 4<<10)
		for {
			n, err := in.Read(buffer)
			if n > 0 && t.out.send(inputKind, buffer[:n]) != nil {
				return
			}
			if err != nil {
				const endOfInput = 4 // Ctrl-D
				_ = t.out.send(inputKind, []byte{endOfInput})
				return
			}
		}
	}()
	for {
		kind, content, err := receive(t.conn)
		switch {
		case err != nil:
			return 0, ErrNoExit
		case kind == outputKind:
			if _, err := out.Write(content); err != nil {
				return 0, err
			}
		case kind == exitKind && len(content) == 1:
			return int(content[0]), nil
		}
	}
}

// TerminalMain is the program of a job with a terminal: it runs a command on a
// pseudo-terminal for whoever listens at name. It ends the command if that one goes away,
// or if nothing is typed or printed for as long as idle; 0: it may be idle for ever.
func TerminalMain(name string, idle time.Duration, command []string) error {
	conn, err := net.Dial("unix", "@"+name)
	if err != nil {
		return fmt.Errorf("nobody waits for this shell any more: %w", err)
	}
	defer conn.Close()
	if peer, err := peerUser(conn); err != nil || peer != os.Geteuid() {
		return fmt.Errorf("user %d waits for the shell, and the job runs as user %d: %w", peer, os.Geteuid(), errors.Join(err, os.ErrPermission))
	}
	master, slave, err := openPty()
	if err != nil {
		return fmt.Errorf("open a pseudo-terminal: %w", err)
	}
	defer master.Close()
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	err = cmd.Start()
	slave.Close()
	if err != nil {
		return err
	}
	s := &session{master: master, shell: cmd.Process.Pid, out: messages{w: conn}}
	s.moved()
	drained := make(chan struct{})
	go func() { defer close(drained); s.print() }()
	go s.keyboard(conn)
	if idle > 0 {
		go s.watch(idle)
	}
	_ = cmd.Wait() // its code is asked for below
	select {
	case <-drained:
	case <-time.After(time.Second): // a program in the background holds the terminal
	}
	code := cmd.ProcessState.ExitCode()
	if code < 0 {
		code = 128 + int(cmd.ProcessState.Sys().(syscall.WaitStatus).Signal())
	}
	_ = s.out.send(exitKind, []byte{byte(code)}) // if nobody is there, nobody wants to know
	return nil
}

// session is a shell on a pseudo-terminal.
type session struct {
	master *os.File
	shell  int // process
	out    messages
	last   atomic.Int64 // when something was typed or printed
}

func (s *session) moved() { s.last.Store(time.Now().UnixNano()) }

// hangUp ends the shell and what it runs in the foreground.
func (s *session) hangUp() {
	_ = unix.Kill(-s.shell, unix.SIGHUP)
	s.master.Close()
}

func (s *session) print() {
	buffer := make([]byte, 16<<10)
	for {
		n, err := s.master.Read(buffer)
		if n > 0 {
			s.moved()
			if s.out.send(outputKind, buffer[:n]) != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// keyboard passes on what is typed, until the other end goes away.
func (s *session) keyboard(conn net.Conn) {
	defer s.hangUp()
	for {
		kind, content, err := receive(conn)
		if err != nil {
			return
		}
		switch {
		case kind == inputKind:
			s.moved()
			if _, err := s.master.Write(content); err != nil {
				return
			}
		case kind == sizeKind && len(content) == 4:
			size := unix.Winsize{Row: binary.BigEndian.Uint16(content), Col: binary.BigEndian.Uint16(content[2:])}
			_ = control(s.master, func(fd int) error { return unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &size) })
		}
	}
}

// watch ends a shell that nobody uses.
func (s *session) watch(idle time.Duration) {
	for {
		left := idle - time.Since(time.Unix(0, s.last.Load()))
		if left <= 0 {
			_ = s.out.send(outputKind, fmt.Appendf(nil, "\r\nfairway: nothing was typed or printed for %s: the shell ends and gives its GPUs back\r\n", idle))
			s.hangUp()
			return
		}
		time.Sleep(left)
	}
}

// openPty returns both ends of a new pseudo-terminal.
func openPty() (master, slave *os.File, err error) {
	if master, err = os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0); err != nil {
		return nil, nil, err
	}
	var number int
	err = control(master, func(fd int) (err error) {
		if err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err == nil {
			number, err = unix.IoctlGetInt(fd, unix.TIOCGPTN)
		}
		return err
	})
	if err == nil {
		slave, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	}
	if err != nil {
		master.Close()
		return nil, nil, err
	}
	return master, slave, nil
}

// control calls f with the descriptor of a file, which stays as it is: Fd would make it
// block, and closing it would no longer wake who reads.
func control(f *os.File, call func(fd int) error) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var inner error
	err = raw.Control(func(fd uintptr) { inner = call(int(fd)) })
	return errors.Join(err, inner)
}
