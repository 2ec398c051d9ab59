// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package local

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/daemon/proc"
	"github.com/fairway-gpu/fairway/diagnose"
	"github.com/fairway-gpu/fairway/sched"
)

// probeEvery is how often the lock of an attempt is polled if nothing else
// notifies.
const probeEvery = 200 * time.Millisecond

// settle finds out what happened to an attempt whose supervisor may have ended.
func (m *Machine) settle(r *run) {
	lock, err := takeLock(filepath.Join(r.dir, lockFile))
	if errors.Is(err, errHeld) {
		m.update(func() {
			r.after = m.cfg.Now().Add(probeEvery)
			if r.shim.PID > 0 && r.watch == nil {
				m.watchShim(r)
			}
		})
		time.AfterFunc(probeEvery, m.poke)
		return
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		m.retry(r, err)
		return
	}
	if lock != nil {
		defer lock.Close()
	} else {
		r.signalShim(sigKill) // without its folder it cannot be followed
	}
	starved := false
	if r.process != nil {
		end, err := r.process.Wait()
		starved = err == nil && end.ExitCode() == starvedCode
		r.process = nil
	}
	var e exitRecord
	if err := readRecord(filepath.Join(r.dir, exitFile), &e); err == nil && e.AttemptID == r.order.AttemptID {
		for _, note := range e.Notes {
			m.cfg.Log.Warn("note from an attempt", "job", r.order.Job, "attempt", r.order.Number, "note", note)
		}
		if e.Saw(api.HostHeldBack) {
			m.heldBack(e.AttemptID, errors.New(e.Why)) // nothing may be able to start
		}
		if r.order.Boot != m.boot && e.Signal != "" && len(e.Host) == 0 {
			m.restarted(&e.Exit) // a machine that goes down kills ranks before their supervisor
		}
		m.update(func() { r.end(e.Exit) })
		return
	}
	if r.order.Boot != m.boot {
		m.lost(r, shimRecord{Boot: r.order.Boot})
		return
	}
	var s shimRecord
	if err := readRecord(filepath.Join(r.dir, shimFile), &s); errors.Is(err, fs.ErrNotExist) || (err == nil && s.Nonce != r.order.Nonce) {
		if lock != nil {
			m.neverStarted(r, starved)
			return
		}
		s = r.shim // the folder is gone, with all that was known
	}
	m.lost(r, s)
}

func (m *Machine) retry(r *run, err error) {
	m.cfg.Log.Error("cannot clean up after an attempt; trying again", "job", r.order.Job, "attempt", r.order.Number, "err", err)
	m.update(func() { r.after, r.fired = m.cfg.Now().Add(time.Second), true })
}

// neverStarted puts back an attempt that no supervisor ever took.
func (m *Machine) neverStarted(r *run, starved bool) {
	said, _ := os.ReadFile(filepath.Join(r.dir, shimLog))
	err := fmt.Errorf("its supervisor does not start: %.300s", strings.TrimSpace(string(said)))
	if starved {
		err = fmt.Errorf("%w (%w)", err, unix.EAGAIN)
	}
	m.startFailed(r, err)
}

// lost ends an attempt whose supervisor vanished: first it kills what is left.
func (m *Machine) lost(r *run, s shimRecord) {
	e := api.Exit{AttemptID: r.order.AttemptID, At: m.cfg.Now(), Lost: true, Noticed: exists(filepath.Join(r.dir, stopFile))}
	if s.Boot != "" && s.Boot != m.boot {
		m.restarted(&e)
	} else {
		e.Why = cmp.Or(r.lostWhy, "the supervisor of the job was killed")
		if err := m.killLeft(r.order.Nonce, s); err != nil {
			m.retry(r, err)
			return
		}
	}
	if err := r.order.unbox(); err != nil && r.order.Box.beside() {
		m.retry(r, err)
		return
	} else if err != nil {
		m.cfg.Log.Warn("a container is left behind; its processes are gone", "job", r.order.Job, "attempt", r.order.Number, "err", err)
	}
	if err := writeRecord(filepath.Join(r.dir, exitFile), exitRecord{Exit: e}); err != nil && !errors.Is(err, fs.ErrNotExist) {
		m.retry(r, err)
		return
	}
	m.update(func() {
		r.folder = exists(filepath.Join(r.dir, exitFile))
		r.end(e)
	})
}

// restarted says that an attempt ended because the machine did.
func (m *Machine) restarted(e *api.Exit) {
	e.Lost, e.Why = true, "the machine was restarted"
	e.Host = []diagnose.Event{{Kind: api.HostRestarted, Node: m.cfg.Node.Name}}
}

// killLeft kills what is left of an attempt without a supervisor: everything in
// its control groups, in the supervisor's session, or with the nonce in its
// environment (which a program may have overwritten).
func (m *Machine) killLeft(nonce string, s shimRecord) error {
	var mine []string
	for _, g := range s.Groups {
		// A tampered record must not make us kill anything else.
		if strings.HasPrefix(g, cgroupRoot+"/") && strings.HasPrefix(filepath.Base(g), "fairway-") {
			mine = append(mine, g)
		}
	}
	if err := (&group{dirs: mine}).end(); err != nil {
		return err
	}
	_, err := killAll(func(_ map[int]proc.Process, p proc.Process) bool {
		return (s.PID > 0 && p.Session == s.PID && p.Start >= s.Start) || variable(environ(p.PID), nonceVar) == nonce
	}, killPatience)
	return err
}

// killStrays kills supervisors and ranks of this folder whose attempt is unknown,
// because someone removed its records.
func (m *Machine) killStrays() {
	all, err := proc.All()
	if err != nil {
		m.cfg.Log.Error("cannot look for stray processes", "err", err)
		return
	}
	below := m.jobsDir() + "/"
	for _, p := range all {
		env := environ(p.PID)
		dir, nonce := variable(env, shimDirVar), variable(env, shimVar)
		supervisor := strings.HasPrefix(dir, below) && nonce != ""
		if !supervisor {
			nonce = variable(env, nonceVar)
			keep := variable(env, keepDirVar)
			if nonce == "" || !strings.HasPrefix(keep, below) {
				continue
			}
			dir = filepath.Join(filepath.Dir(keep), variable(env, "FAIRWAY_ATTEMPT"))
		}
		var o order
		if readRecord(filepath.Join(dir, attemptFile), &o) == nil && (o.Nonce == nonce || !supervisor) {
			continue
		}
		m.cfg.Log.Warn("killing a process of an unknown attempt", "pid", p.PID, "dir", dir)
		_ = proc.Signal(p.PID, p.Start, sigKill)
		if supervisor {
			id := api.AttemptID{Job: sched.JobID(filepath.Base(filepath.Dir(dir))), Number: attemptNumber(filepath.Base(dir))}
			s := shimRecord{PID: p.PID, Start: p.Start, Groups: findCgroups().named(groupName(id, nonce))}
			if err := m.killLeft(nonce, s); err != nil {
				m.cfg.Log.Error("cannot kill the processes of a stray supervisor", "err", err)
			}
		}
	}
}

// load reads the folders of all attempts, and sets aside those that are not ours.
func (m *Machine) load() error {
	jobs, err := os.ReadDir(m.jobsDir())
	if err != nil {
		return err
	}
	for _, j := range jobs {
		id := sched.JobID(j.Name())
		if !j.IsDir() || checkJob(id) != nil {
			continue
		}
		attempts, err := m.attemptsOf(id)
		if err != nil {
			return err
		}
		if err := m.loadJob(id, attempts); err != nil {
			return err
		}
	}
	m.tellSetAside()
	return nil
}

func (m *Machine) loadAttempt(id api.AttemptID) *run {
	r := &run{dir: m.attemptDir(id), folder: true, order: order{Attempt: api.Attempt{AttemptID: id}}}
	var o order
	err := readRecord(filepath.Join(r.dir, attemptFile), &o)
	if info, e := os.Stat(filepath.Join(r.dir, toldFile)); e == nil {
		var e exitRecord
		if err := readRecord(filepath.Join(r.dir, exitFile), &e); err != nil {
			e.Exit = api.Exit{AttemptID: id, At: info.ModTime(), Lost: true, Why: "its exit status is lost"}
		}
		r.state, r.exit, r.toldAt, r.bytes = told, e.Exit, info.ModTime(), folderBytes(r.dir)
		r.order.Epoch, r.order.Placement = o.Epoch, o.Placement
		return r
	}
	if errors.Is(err, fs.ErrNotExist) {
		// A crash came before anything was written: nothing ever ran, and killStrays
		// has killed any stray process.
		if err := os.RemoveAll(r.dir); err != nil {
			m.cfg.Log.Warn("cannot remove an empty folder", "dir", r.dir, "err", err)
		}
		return nil
	}
	if err != nil || o.AttemptID != id {
		r.end(api.Exit{AttemptID: id, At: m.cfg.Now(), Lost: true, Why: fmt.Sprintf("cannot read its record: %v", err)})
		return r
	}
	r.order, r.state, r.fired = o, running, true
	m.loadResize(r)
	var s shimRecord
	if readRecord(filepath.Join(r.dir, shimFile), &s) == nil && s.Nonce == o.Nonce && s.Boot == m.boot {
		r.shim, r.up = s, s.Up
	}
	if exists(filepath.Join(r.dir, suspendFile)) {
		r.suspended = unsettled
	}
	return r
}
