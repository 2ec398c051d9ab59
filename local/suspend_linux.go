// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package local

import (
	"context"
	"errors"
	"path/filepath"
	"time"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/daemon/executor"
	"github.com/fairway-gpu/fairway/daemon/proc"
	"github.com/fairway-gpu/fairway/daemon/suspend"
	"github.com/fairway-gpu/fairway/sched"
)

// suspendState is what the daemon knows about the suspension of an attempt.
type suspendState uint8

const (
	goesOn    suspendState = iota
	unsettled              // it is being suspended or let go on, or was when a daemon ended: it holds its GPUs
	isSuspended
)

const (
	suspendAgain = 10 * time.Minute // after host memory was short
	tellPause    = time.Second      // before a report that was not heard is made again
	resumeTries  = 30
	resumePause  = 2 * time.Second
)

// stepSuspended makes a running attempt suspended or not, as it should be, and reports
// whether there is nothing left to do.
func (m *Machine) stepSuspended(ctx context.Context, r *run, wanted bool, orders executor.Port) (settled bool) {
	switch {
	case wanted && r.refused != nil:
		if !m.cfg.Now().Before(r.after) {
			m.background(r, func() { m.refuse(ctx, r, orders) })
		}
	case wanted && r.suspended != isSuspended:
		if r.up && !m.cfg.Now().Before(r.after) {
			m.background(r, func() { m.suspendRun(ctx, r, orders) })
		}
	case !wanted && r.suspended != goesOn:
		if !m.blocked(r) && !m.cfg.Now().Before(r.after) {
			r.suspended = unsettled // from now on it may have its GPUs
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

// suspendRun suspends an attempt and reports it. Its GPUs are not free before that was
// heard, so whoever follows on them begins after it in the journal too.
func (m *Machine) suspendRun(ctx context.Context, r *run, orders executor.Port) {
	t := m.suspension(r)
	if r.order.Box.beside() {
		m.update(func() {
			r.suspended = goesOn
			r.refused = &api.Suspended{AttemptID: r.order.AttemptID, Suspension: sched.Suspension{Failed: "docker has its processes; with podman or apptainer it could be suspended"}}
		})
		m.refuse(ctx, r, orders)
		return
	}
	done, err := m.host().TakeOff(t)
	if err != nil {
		m.cfg.Log.Error("cannot suspend attempt", "job", r.order.Job, "attempt", r.order.Number, "err", err)
		back := m.host().PutBack(t)
		m.update(func() {
			if r.suspended = goesOn; back != nil {
				r.suspended = unsettled
			}
			r.refused = &api.Suspended{AttemptID: r.order.AttemptID, Suspension: sched.Suspension{Failed: err.Error()}}
			if errors.Is(err, suspend.ErrShort) {
				r.refused.Until = m.cfg.Now().Add(suspendAgain)
			}
		})
		m.refuse(ctx, r, orders)
		return
	}
	if !done.Told {
		s := api.Suspended{AttemptID: r.order.AttemptID, Suspension: sched.Suspension{Memory: done.Memory, Out: sched.Duration(done.Out)}}
		if !m.tellSuspended(ctx, orders, s) {
			m.update(func() { r.suspended, r.after = unsettled, m.cfg.Now().Add(tellPause) })
			return
		}
		if err := suspend.Told(t); err != nil {
			m.cfg.Log.Warn("cannot mark a suspension as reported; it is reported again after a restart", "job", r.order.Job, "attempt", r.order.Number, "err", err)
		}
	}
	m.update(func() { r.suspended, r.started = isSuspended, false })
}

// refuse reports that an attempt cannot be suspended, until that is heard.
func (m *Machine) refuse(ctx context.Context, r *run, orders executor.Port) {
	m.tellSuspended(ctx, orders, *r.refused)
	m.update(func() { r.after = m.cfg.Now().Add(tellPause) })
}

// tellSuspended reports something about a suspension, and returns whether it was heard.
func (m *Machine) tellSuspended(ctx context.Context, orders executor.Port, s api.Suspended) (heard bool) {
	err := orders.Suspended(ctx, s)
	if err != nil && ctx.Err() == nil {
		m.cfg.Log.Error("cannot report the suspension of an attempt", "job", s.Job, "attempt", s.Number, "err", err)
	}
	return err == nil
}

// resumeRun lets a suspended attempt go on. If that fails again and again, the attempt
// is given up.
func (m *Machine) resumeRun(ctx context.Context, r *run, orders executor.Port) {
	began := time.Now()
	if err := m.host().PutBack(m.suspension(r)); err != nil {
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

// suspension returns what is suspended with an attempt.
func (m *Machine) suspension(r *run) suspend.Target {
	t := suspend.Target{
		File: filepath.Join(r.dir, suspendFile), Limits: r.shim.Groups,
		Processes: func() ([]proc.Process, error) { return m.processesOf(r) },
	}
	if len(r.shim.Groups) > 0 {
		t.Groups = r.shim.Groups[:1] // the first holds all processes
	}
	return t
}

// host returns the machine on which attempts are suspended.
func (m *Machine) host() *suspend.Host {
	h := m.cfg.Suspend
	if h.Memory == nil {
		h.Memory = m.gpuMemory
	}
	return &h
}
