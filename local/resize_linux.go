// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package local

import (
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/fairway-gpu/fairway/sched"
)

// The daemon's part of a change in place: an attempt that is ordered with its number
// and another placement. The request is a file, as is the answer, so a daemon that
// restarts at any instruction finds both. What cannot be done in place ends the
// attempt, and the scheduler starts the next one where it should be.

// resizePatience is how long to wait for a supervisor's answer. It gives up sooner by
// itself, unless it is of a version that knows no requests.
const resizePatience = startPatience + 2*meetPatience

// stepResize moves an attempt that runs towards another placement, and reports
// whether it can get there in place. The caller holds the mutex.
func (m *Machine) stepResize(r *run, to sched.Placement) (ok bool) {
	if r.unable != "" || !r.up || m.stopping || !r.stopAt.IsZero() {
		return r.unable == "" && r.stopAt.IsZero()
	}
	now := m.cfg.Now()
	if r.request == nil {
		if r.suspended != goesOn {
			return true // it goes on first
		}
		if why := m.cannotResize(r, to); why != "" {
			m.unable(r, why)
			return false
		}
		if m.taken(r, to) {
			return true // by an attempt that is about to leave
		}
		q := m.requestFor(r, to)
		if err := placeRecord(filepath.Join(r.dir, resizeFile), q); err != nil {
			m.unable(r, err.Error())
			return false
		}
		r.request, r.requestAt, r.resizes = &q, now, q.Number
		m.background(r, func() { r.signalShim(sigLook) })
		return true
	}
	var done resizedRecord
	if readRecord(filepath.Join(r.dir, resizedFile), &done) == nil && done.Number == r.request.Number {
		r.request = nil
		if done.Why != "" {
			m.unable(r, done.Why)
			return false
		}
		r.resized(&done)
		m.cfg.Log.Info("changed in place", "job", r.order.Job, "attempt", r.order.Number, "gpus", r.order.Slots, "after", now.Sub(r.requestAt))
		m.poke() // others may wait for its GPUs
		return true
	}
	if now.Sub(r.requestAt) > resizePatience {
		m.unable(r, "its supervisor does not answer")
		return false
	}
	time.AfterFunc(resizePoll, m.poke)
	return true
}

// resizePoll is how often the answer to a request is looked for.
const resizePoll = 100 * time.Millisecond

func (m *Machine) unable(r *run, why string) {
	r.unable = why
	m.cfg.Log.Warn("cannot change in place; stopping the attempt to start it elsewhere", "job", r.order.Job, "attempt", r.order.Number, "why", why)
}

// cannotResize returns why an attempt cannot change to a placement; empty: it may.
func (m *Machine) cannotResize(r *run, to sched.Placement) string {
	from := r.order.Placement
	switch {
	case len(from) != 1 || len(to) != 1 || from[0].Node != to[0].Node || to[0].GPUs&^sched.FirstGPUs(len(m.cfg.Devices)) != 0:
		return "the new GPUs are not of this machine"
	case from[0].GPUs&to[0].GPUs == 0:
		return "it would keep no GPU"
	case from[0].Milli != sched.WholeGPU || to[0].Milli != sched.WholeGPU || r.order.MPS != nil:
		return "it shares a GPU"
	case r.order.Task.Single:
		return "one process has all GPUs"
	case r.order.Box != nil:
		return "it runs in a container"
	}
	return ""
}

func (m *Machine) requestFor(r *run, to sched.Placement) resizeRequest {
	o := order{Attempt: r.order.Attempt}
	o.Placement = to
	m.assign(&o)
	return resizeRequest{
		Number: r.resizes + 1, Placement: to, Slots: o.Slots, Visible: o.Visible, Denied: o.Denied, Processes: o.Processes,
	}
}

// assign fills in what follows from the GPUs of an order.
func (m *Machine) assign(o *order) {
	gpus := o.Placement[0].GPUs
	o.Slots = gpus.Len()
	o.Processes = max(0, m.cfg.Processes) * o.Slots
	var visible []string
	for i, d := range m.cfg.Devices {
		switch {
		case gpus&(1<<i) == 0:
			if d.File != "" {
				o.Denied = append(o.Denied, d.File)
			}
		case d.Index < 0:
			o.CPU = true
		default:
			visible = append(visible, strconv.Itoa(d.Index))
		}
	}
	o.Visible = strings.Join(visible, ",")
	if m.cfg.AllGPUs {
		o.Denied = nil
	}
}

// resized takes in that the attempt holds other GPUs than at its start.
func (r *run) resized(done *resizedRecord) {
	o := &r.order
	o.Placement, o.Slots, o.Visible, o.Denied, o.Processes = done.Placement, done.Slots, done.Visible, done.Denied, done.Processes
}

// holds returns the GPUs that the processes of an attempt may use: in a change, those
// before and those after.
func (r *run) holds() sched.Placement {
	if r.request == nil || len(r.order.Placement) != 1 {
		return r.order.Placement
	}
	s := r.order.Placement[0]
	s.GPUs |= r.request.Placement[0].GPUs
	return sched.Placement{s}
}

// loadResize reads how an attempt has changed since its start, for a daemon that
// adopts it.
func (m *Machine) loadResize(r *run) {
	var done resizedRecord
	if readRecord(filepath.Join(r.dir, resizedFile), &done) == nil && len(done.Placement) == 1 {
		r.resized(&done)
		r.resizes, r.unable = done.Number, done.Why
	}
	var q resizeRequest
	if readRecord(filepath.Join(r.dir, resizeFile), &q) == nil && q.Number > r.resizes && len(q.Placement) == 1 {
		r.request, r.requestAt, r.resizes = &q, m.cfg.Now(), q.Number
	}
}
