// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package local

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/daemon/executor"
	"github.com/fairway-gpu/fairway/daemon/proc"
	"github.com/fairway-gpu/fairway/daemon/suspend"
	"github.com/fairway-gpu/fairway/sched"
)

const (
	sigKill = unix.SIGKILL
	sigStop = unix.SIGTERM // asks a supervisor to stop its ranks
	sigLook = unix.SIGHUP  // makes a supervisor look for requests
	sigMore = unix.SIGUSR1 // prolongs the grace period; an older supervisor ignores it
)

// state is the progress of an attempt.
type state uint8

const (
	waiting   state = iota // ordered; holds nothing
	launching              // its supervisor is being started
	running                // has, or may have, processes
	ended                  // nothing is left of it; the exit is not reported yet
	told                   // its exit was acknowledged
)

// run is the daemon's view of an attempt. The machine's mutex guards it, except
// what a goroutine that has set busy works on.
type run struct {
	order  order
	dir    string
	state  state
	folder bool // attempt.json is there
	stale  bool // the orders do not know it: it is stopped and set aside
	busy   bool // someone works on it
	tries  int
	after  time.Time // nothing is done before

	shim    shimRecord
	process *os.Process // a supervisor that is our child
	watch   *os.File    // readable when the supervisor ends
	fired   bool        // watch has fired
	up      bool        // the ranks are up
	started bool        // and this was reported
	stopAt  time.Time   // it was asked to stop, with this deadline
	askedAt time.Time   // by this process

	request   *resizeRequest // to change in place; nil: none is open
	requestAt time.Time
	resizes   int    // number of the last request
	unable    string // why it cannot change in place

	suspended suspendState
	refused   *api.Suspended // why it cannot be; told until it is heard
	lostWhy   string         // it was given up

	exit   api.Exit
	toldAt time.Time
	bytes  int64 // of its folder, once reported
}

func (r *run) end(e api.Exit) {
	r.state, r.exit, r.after = ended, e, time.Time{}
	r.unwatch()
}

func (r *run) unwatch() {
	if r.watch != nil {
		r.watch.Close()
		r.watch = nil
	}
}

// signalShim sends a signal to the supervisor, if it is still the same process.
func (r *run) signalShim(sig unix.Signal) {
	if r.shim.PID > 0 {
		_ = proc.Signal(r.shim.PID, r.shim.Start, sig)
	}
}

// launch writes the order and starts a supervisor for it.
func (m *Machine) launch(r *run) {
	err := m.prepare(r)
	if err == nil {
		err = m.startShim(r)
	}
	if err == nil {
		m.update(func() {
			r.state = running
			m.watchShim(r)
		})
		return
	}
	m.cfg.Log.Error("cannot start attempt", "job", r.order.Job, "attempt", r.order.Number, "err", err)
	m.startFailed(r, err)
}

// startFailed puts back an attempt that could not be started. It ends if it was
// tried often enough, or if the machine is at fault.
func (m *Machine) startFailed(r *run, err error) {
	held, machine := m.heldBack(r.order.AttemptID, err)
	m.update(func() {
		r.tries++
		r.state, r.after = waiting, m.cfg.Now().Add(time.Duration(r.tries-1)*time.Second)
		r.unwatch()
		switch {
		case machine:
			r.end(held)
		case r.tries >= maxTries:
			r.end(api.Exit{AttemptID: r.order.AttemptID, At: m.cfg.Now(), Lost: true, Why: err.Error()})
		}
	})
}

// prepare makes the folders and writes attempt.json.
func (m *Machine) prepare(r *run) error {
	a := r.order.Attempt
	o := order{
		Attempt: a, Nonce: newNonce(), Boot: m.boot, API: m.cfg.API,
		GracePeriod: a.Task.GracePeriod, Report: sched.Duration(m.cfg.Report), LogLimit: m.cfg.LogLimit,
		Checkpoint: filepath.Join(m.jobDir(a.Job), checkpointDir), Work: filepath.Join(m.jobDir(a.Job), workDir),
		Group:  m.group,
		Switch: os.Geteuid() == 0 && a.Owner.UID > 0, NewPrivileges: m.cfg.NewPrivileges,
	}
	m.assign(&o)
	if ref := a.Task.SecretsRef; ref != "" {
		if !secretsRef.MatchString(ref) {
			return fmt.Errorf("secrets_ref %.40q cannot name a file", ref)
		}
		o.SecretsFile = secretsPath(m.cfg.Dir, ref)
	}
	if o.GracePeriod == 0 {
		o.GracePeriod = sched.Duration(m.cfg.GracePeriod)
	}
	if o.GPUType == "" {
		o.GPUType = m.cfg.Node.Type
	}
	if o.Box = m.boxFor(&o); o.Box != nil {
		// Containers share a GPU by time slices.
	} else if o.MPS = m.joinMPS(&o); o.MPS != nil {
		o.Denied = nil // the GPUs of an MPS client are numbered by its server
	}
	if err := m.makeFolders(r.dir, &o); err != nil {
		return err
	}
	o.Memory = m.lendMemory(&o)
	if err := writeRecord(filepath.Join(r.dir, attemptFile), o); err != nil {
		os.Remove(r.dir) // if it is empty: there is nothing to see
		return err
	}
	m.update(func() { r.order, r.folder = o, true })
	return nil
}

func newNonce() string {
	b := make([]byte, 16)
	_, _ = rand.Read(b) // never fails
	return hex.EncodeToString(b)
}

func (m *Machine) makeFolders(dir string, o *order) error {
	if err := m.makeJobFolder(o); err != nil {
		return err
	}
	for _, own := range []string{o.Checkpoint, o.Work} {
		err := os.Mkdir(own, 0o700)
		if errors.Is(err, os.ErrExist) {
			continue
		}
		if err == nil && o.Switch {
			err = os.Lchown(own, o.Owner.UID, o.Owner.GID)
		}
		if err != nil {
			return err
		}
	}
	var old order
	if readRecord(filepath.Join(dir, attemptFile), &old) == nil && old.Epoch != o.Epoch {
		if err := m.setAside(dir); err != nil {
			return err
		}
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	return syncDir(m.jobDir(o.Job))
}

// startShim starts the supervisor with the lock already taken.
func (m *Machine) startShim(r *run) error {
	lock, err := takeLock(filepath.Join(r.dir, lockFile))
	if err != nil {
		return err
	}
	defer lock.Close()
	ready, signal, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("start supervisor: %w", err)
	}
	defer signal.Close()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		ready.Close()
		return fmt.Errorf("start supervisor: %w", err)
	}
	defer null.Close()
	said, err := os.OpenFile(filepath.Join(r.dir, shimLog), os.O_WRONLY|os.O_CREATE|os.O_APPEND|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		ready.Close()
		return fmt.Errorf("start supervisor: %w", err)
	}
	defer said.Close()
	var p *os.Process
	if s := m.takeStandby(&r.order); s != nil && s.launch(r, lock, signal, said) == nil {
		p = s.process
	} else {
		argv := append(append([]string{}, m.cfg.Shim...), r.dir)
		p, err = os.StartProcess(argv[0], argv, &os.ProcAttr{
			Dir:   "/",
			Env:   append(ownEnvironment(), shimVar+"="+r.order.Nonce, shimDirVar+"="+r.dir),
			Files: []*os.File{null, null, said, lock, signal}, // see lockFD and readyFD
			Sys:   &syscall.SysProcAttr{Setsid: true},
		})
	}
	if err != nil {
		ready.Close()
		return fmt.Errorf("start supervisor: %w", err)
	}
	s := shimRecord{Nonce: r.order.Nonce, PID: p.Pid, Boot: m.boot}
	if info, err := proc.Read(p.Pid); err == nil {
		s.Start = info.Start
	}
	m.update(func() { r.process, r.shim, r.up = p, s, false })
	go func() { // ends with the supervisor at the latest
		defer ready.Close()
		_, _ = ready.Read(make([]byte, 1))
		m.poke()
	}()
	return nil
}

// watchShim arranges a notification when the supervisor ends. The caller holds the
// mutex. Where the kernel cannot notify, the lock is polled.
func (m *Machine) watchShim(r *run) {
	fd, err := proc.Handle(r.shim.PID, r.shim.Start)
	if errors.Is(err, unix.ESRCH) {
		r.fired = true
		m.poke()
		return
	}
	if err != nil {
		return
	}
	_ = unix.SetNonblock(fd, true)
	f := os.NewFile(uintptr(fd), "pidfd")
	conn, err := f.SyscallConn()
	if err != nil {
		f.Close()
		return
	}
	r.watch = f
	go func() {
		_ = conn.Read(func(fd uintptr) bool {
			n, _ := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
			return n > 0
		})
		m.update(func() {
			if r.watch == f {
				r.unwatch()
				r.fired = true
			}
		})
		m.poke()
	}()
}

// ask requests that the attempt stop. The request is a file, so that it outlives
// both sides; the signal makes it take effect at once, and replaces the file if it
// cannot be written.
func (m *Machine) ask(r *run) {
	path := filepath.Join(r.dir, stopFile)
	var s stopRecord
	if readRecord(path, &s) != nil {
		s.Deadline = m.cfg.Now().Add(r.order.GracePeriod.D())
		if err := placeRecord(path, s); err != nil {
			m.cfg.Log.Error("cannot write the stop request", "job", r.order.Job, "attempt", r.order.Number, "err", err)
		}
	}
	if r.suspended != goesOn {
		if err := suspend.Thaw(m.suspension(r)); err != nil {
			m.cfg.Log.Error("cannot thaw an attempt that has to stop", "job", r.order.Job, "attempt", r.order.Number, "err", err)
		}
	}
	r.signalShim(sigStop)
	m.update(func() { r.stopAt, r.askedAt = s.Deadline, m.cfg.Now() })
}

// prolong gives an attempt that is leaving and cannot save a new grace period. It is a
// signal and no file, because a full disk may be why it cannot.
func (m *Machine) prolong(r *run) {
	r.stopAt = m.cfg.Now().Add(r.order.GracePeriod.D())
	m.background(r, func() { r.signalShim(sigMore) })
}

// prolongs reports whether the grace period of an attempt that is leaving is to be
// prolonged now.
func (m *Machine) prolongs(r *run, now time.Time) bool {
	const soon = 2 * tick
	return !m.stopping && !r.stopAt.IsZero() && now.Before(r.stopAt.Add(stuckAfter)) && r.stopAt.Sub(now) < max(r.order.GracePeriod.D()/2, soon) &&
		now.Sub(r.askedAt) < api.MaxGracePeriod && m.cfg.SaveFails(r.order.AttemptID)
}

// report reports how an attempt ended, and remembers that it did.
func (m *Machine) report(ctx context.Context, r *run, orders executor.Port) {
	if r.folder {
		path := filepath.Join(r.dir, exitFile)
		if !exists(path) {
			if err := writeRecord(path, exitRecord{Exit: r.exit}); err != nil {
				m.cfg.Log.Error("cannot write the exit of an attempt", "job", r.order.Job, "attempt", r.order.Number, "err", err)
			}
		}
	}
	e := r.exit
	if r.unable != "" && e.Why == "" {
		e.Why = "could not change in place: " + r.unable
	}
	if r.folder {
		e.Tails = tails(r.dir, &e)
		m.suspectMPS(r, &e)
	}
	if err := orders.Exited(ctx, e); err != nil {
		if ctx.Err() == nil {
			m.cfg.Log.Error("cannot report the exit of an attempt", "job", r.order.Job, "attempt", r.order.Number, "err", err)
		}
		m.update(func() { r.after = m.cfg.Now().Add(time.Second) })
		return
	}
	var size int64
	if r.folder {
		size = folderBytes(r.dir)
		if err := writeFile(filepath.Join(r.dir, toldFile), nil, true); err != nil {
			m.cfg.Log.Warn("cannot mark an exit as reported; it is reported again after a restart", "job", r.order.Job, "attempt", r.order.Number, "err", err)
		}
	}
	m.update(func() {
		r.state, r.toldAt, r.bytes = told, m.cfg.Now(), size
		r.order = order{Attempt: api.Attempt{AttemptID: r.order.AttemptID}} // the rest is on disk
	})
	m.freeMemory(e.Job)
}
