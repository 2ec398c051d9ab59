// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/daemon/executor"
	"github.com/fairway-gpu/fairway/sched"
)

// An attempt is suspended in three steps: suspend.json names its processes that use
// GPUs, the driver moves what they have there to the host, and all processes are
// frozen. Each step can be done again, and the file stays until the attempt has gone
// on, so a daemon that restarts in between completes what was begun.

// suspendRecord is the content of suspend.json.
type suspendRecord struct {
	Processes []gpuUser `json:"processes,omitempty"` // with GPUs
	Memory    int64     `json:"memory,omitempty"`    // bytes that they had there
}

// gpuUser is a process that uses GPUs. A suspended one has closed their files.
type gpuUser struct {
	PID   int    `json:"pid"`
	Start uint64 `json:"start"`
}

// suspendState is what the daemon knows about the suspension of an attempt.
type suspendState uint8

const (
	goesOn    suspendState = iota
	unsettled              // a daemon ended while it was suspending it, or letting it go on
	isSuspended
)

const (
	freezePatience = 10 * time.Second
	suspendAgain   = 10 * time.Minute // after host memory was short
	resumeTries    = 30
	resumePause    = 2 * time.Second
	spareMemory    = 1 << 30 // bytes of the host that a suspension leaves
)

// errFrozen means that nothing was left to do.
var errFrozen = errors.New("it is suspended already")

// errShort means that host memory does not hold what is on the GPUs.
var errShort = errors.New("host memory is short")

// stepSuspended makes a running attempt suspended or not, as it should be, and reports
// whether there is nothing left to do.
func (m *Machine) stepSuspended(ctx context.Context, r *run, wanted bool, orders executor.Port) (settled bool) {
	switch {
	case wanted && r.refused != nil:
		if !m.cfg.Now().Before(r.after) {
			m.background(r, func() { m.refuse(ctx, r, orders) })
		}
	case wanted && r.suspended != isSuspended:
		if r.up {
			m.background(r, func() { m.suspendRun(ctx, r, orders) })
		}
	case !wanted && r.suspended != goesOn:
		if !m.blocked(r) && !m.cfg.Now().Before(r.after) {
			m.background(r, func() { m.resumeRun(ctx, r, orders) })
		}
	default:
		if !wanted {
			r.refused = nil
		}
		return true
	}
	return false
}

// suspendRun suspends an attempt and reports it.
func (m *Machine) suspendRun(ctx context.Context, r *run, orders executor.Port) {
	began := time.Now()
	memory, err := m.takeOff(r)
	if errors.Is(err, errFrozen) {
		m.update(func() { r.suspended, r.started = isSuspended, false })
		return
	}
	if err != nil {
		m.cfg.Log.Error("cannot suspend attempt", "job", r.order.Job, "attempt", r.order.Number, "err", err)
		back := m.putBack(r)
		m.update(func() {
			if r.suspended = goesOn; back != nil {
				r.suspended = unsettled
			}
			r.refused = &api.Suspended{AttemptID: r.order.AttemptID, Suspension: sched.Suspension{Failed: err.Error()}}
			if errors.Is(err, errShort) {
				r.refused.Until = m.cfg.Now().Add(suspendAgain)
			}
		})
		m.refuse(ctx, r, orders)
		return
	}
	took := time.Since(began)
	m.update(func() { r.suspended, r.started = isSuspended, false })
	m.tellSuspended(ctx, orders, api.Suspended{AttemptID: r.order.AttemptID, Suspension: sched.Suspension{Memory: memory, Out: sched.Duration(took)}})
}

// refuse reports that an attempt cannot be suspended, until that is heard.
func (m *Machine) refuse(ctx context.Context, r *run, orders executor.Port) {
	m.tellSuspended(ctx, orders, *r.refused)
	m.update(func() { r.after = m.cfg.Now().Add(time.Second) })
}

func (m *Machine) tellSuspended(ctx context.Context, orders executor.Port, s api.Suspended) {
	if err := orders.Suspended(ctx, s); err != nil && ctx.Err() == nil {
		m.cfg.Log.Error("cannot report the suspension of an attempt", "job", s.Job, "attempt", s.Number, "err", err)
	}
}

// resumeRun lets a suspended attempt go on. If that fails again and again, the attempt
// is given up.
func (m *Machine) resumeRun(ctx context.Context, r *run, orders executor.Port) {
	began := time.Now()
	if err := m.putBack(r); err != nil {
		m.cfg.Log.Error("cannot let a suspended attempt go on", "job", r.order.Job, "attempt", r.order.Number, "err", err)
		m.update(func() {
			r.tries++
			r.after = m.cfg.Now().Add(resumePause)
			if r.tries >= resumeTries {
				r.lostWhy = "it was suspended and could not be put back on its GPUs: " + err.Error()
			}
		})
		if r.lostWhy != "" {
			r.signalShim(sigKill)
		}
		time.AfterFunc(resumePause, m.poke)
		return
	}
	m.update(func() { r.suspended, r.tries = goesOn, 0 })
	m.tellSuspended(ctx, orders, api.Suspended{AttemptID: r.order.AttemptID, Suspension: sched.Suspension{Back: sched.Duration(time.Since(began))}})
}

// takeOff takes the processes of an attempt off their GPUs and freezes them. It returns
// the bytes that they had there.
func (m *Machine) takeOff(r *run) (memory int64, err error) {
	all, err := m.processesOf(r)
	if err != nil {
		return 0, err
	}
	path := filepath.Join(r.dir, suspendFile)
	var s suspendRecord
	begun := readRecord(path, &s) == nil // by a daemon that did not come to the end
	if begun && frozen(r.shim.Groups, all) {
		return 0, errFrozen
	}
	for _, p := range all {
		u := gpuUser{p.pid, p.start}
		if !slices.Contains(s.Processes, u) && holdsGPU(p.pid) {
			s.Processes = append(s.Processes, u)
		}
	}
	pids := alivePIDs(s.Processes)
	if len(pids) > 0 {
		s.Memory = max(s.Memory, m.gpuMemory(pids))
		if free := memoryFree(); !begun && free > 0 && s.Memory+spareMemory > free {
			return 0, fmt.Errorf("%w: %s are on its GPUs, and %s are free", errShort, mebibytes(s.Memory), mebibytes(free))
		}
	}
	if err := placeRecord(path, s); err != nil {
		return 0, err
	}
	if len(pids) > 0 {
		before := residentSize(all)
		limitMemory(r, s.Memory+s.Memory/10+spareMemory)
		d, err := m.cfg.openDriver()
		if err != nil {
			return 0, err
		}
		defer d.Close()
		if err := offGPUs(d, pids); err != nil {
			return 0, err
		}
		if all, err = m.processesOf(r); err != nil {
			return 0, err
		}
		s.Memory = max(s.Memory, residentSize(all)-before)
		if err := placeRecord(path, s); err != nil {
			return 0, err
		}
	}
	return s.Memory, m.freeze(r)
}

// putBack undoes takeOff, however far that came.
func (m *Machine) putBack(r *run) error {
	path := filepath.Join(r.dir, suspendFile)
	var s suspendRecord
	if err := readRecord(path, &s); errors.Is(err, os.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	if err := m.thaw(r); err != nil {
		return err
	}
	if pids := alivePIDs(s.Processes); len(pids) > 0 {
		d, err := m.cfg.openDriver()
		if err != nil {
			return err
		}
		defer d.Close()
		if err := ontoGPUs(d, pids); err != nil {
			return err
		}
		limitMemory(r, 0)
	}
	return os.Remove(path)
}
