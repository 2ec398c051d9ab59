// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package local

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"time"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/daemon/executor"
	"github.com/fairway-gpu/fairway/sched"
)

// step compares what should run with what does, and acts.
func (m *Machine) step(ctx context.Context, orders executor.Port) {
	var list []api.Attempt
	var leaving []api.AttemptID
	if orders != nil {
		list = orders.Attempts()
		leaving = m.leaving(orders)
	}
	want := make(map[api.AttemptID]api.Attempt, len(list))
	for _, a := range list {
		want[a.AttemptID] = a
	}
	m.mu.Lock()
	if orders != nil {
		clear(m.ordered)
		for _, a := range list {
			m.ordered[a.Job] = true
		}
	}
	for _, a := range list {
		if m.runs[a.AttemptID] == nil && !m.stopping {
			m.runs[a.AttemptID] = &run{order: order{Attempt: a}, dir: m.attemptDir(a.AttemptID)}
		}
	}
	now := m.cfg.Now()
	for _, id := range leaving {
		if m.runs[id] == nil {
			m.runs[id] = &run{order: order{Attempt: api.Attempt{AttemptID: id}}, dir: m.attemptDir(id)}
			m.runs[id].end(api.Exit{AttemptID: id, At: now, Noticed: true, Why: "withdrawn before it started"})
		} else if r := m.runs[id]; r.state == told && now.Sub(r.toldAt) > tellAgain {
			r.state = ended // the other side has forgotten its end
		}
	}
	var up []api.AttemptID
	for _, id := range sortedRuns(m.runs) {
		r := m.runs[id]
		a, wanted := want[id]
		wanted = wanted && !r.stale
		if r.busy || (r.state != running && now.Before(r.after)) {
			continue
		}
		switch r.state {
		case waiting:
			m.stepWaiting(r, wanted, orders != nil)
		case running:
			same := wanted && (r.request == nil && a.Placement.Equal(r.order.Placement) || m.stepResize(r, a.Placement))
			if m.stepRunning(r, same && !m.stopping) {
				break
			}
			if same && !m.stopping && orders != nil && r.request == nil && m.stepSuspended(ctx, r, a.Suspended, orders) && !a.Suspended && r.up && !r.started {
				r.started = true
				up = append(up, id)
			}
		case ended:
			if r.stale {
				m.background(r, func() { m.setAsideEnded(r) })
			} else if orders != nil {
				m.background(r, func() { m.report(ctx, r, orders) })
			}
		case told:
			m.stepTold(r, wanted, orders != nil)
		}
	}
	if orders != nil && now.After(m.keepAt) {
		m.keepAt = now.Add(keepEvery)
		m.work.Go(m.collectGarbage)
	}
	m.mu.Unlock()
	for _, id := range up {
		orders.Started(id)
	}
}

// leaving asks, from time to time, for withdrawn attempts. It asks after those
// that should run, so that none is missed between the two.
func (m *Machine) leaving(orders executor.Port) []api.AttemptID {
	now := m.cfg.Now()
	if now.Before(m.leaveAt) {
		return nil
	}
	m.leaveAt = now.Add(leaveEvery)
	return orders.Withdrawn()
}

// leaveEvery is how often to ask for withdrawn attempts.
const leaveEvery = time.Second

// stepWaiting starts an attempt when its place is free, or ends one that was
// withdrawn before.
func (m *Machine) stepWaiting(r *run, wanted, known bool) {
	if !wanted {
		if known {
			r.end(api.Exit{AttemptID: r.order.AttemptID, At: m.cfg.Now(), Noticed: true, Why: "withdrawn before it started"})
			m.poke()
		}
		return
	}
	if m.stopping || m.blocked(r) {
		return
	}
	if e, bad := m.impossible(r.order.Attempt); bad {
		r.end(e)
		m.poke()
		return
	}
	if why := m.Paused(); why != "" {
		r.end(heldBackExit(r.order.AttemptID, m.cfg.Now(), why))
		m.poke()
		return
	}
	r.state = launching
	m.background(r, func() { m.launch(r) })
}

// stepRunning checks an attempt whose supervisor runs, or ran when last seen. It
// returns whether it found something to do.
func (m *Machine) stepRunning(r *run, wanted bool) (busy bool) {
	now := m.cfg.Now()
	if !r.up {
		var s shimRecord
		if readRecord(filepath.Join(r.dir, shimFile), &s) == nil && s.Nonce == r.order.Nonce {
			r.shim, r.up = s, s.Up
		}
	}
	switch {
	case (r.fired || r.watch == nil) && !now.Before(r.after):
		r.fired = false
		m.background(r, func() { m.settle(r) })
	case !wanted && r.stopAt.IsZero():
		m.background(r, func() { m.ask(r) })
	case !wanted && m.prolongs(r, now):
		m.prolong(r)
	case !r.stopAt.IsZero() && now.After(r.stopAt.Add(stuckAfter)):
		m.cfg.Log.Warn("supervisor does not exit; killing it", "job", r.order.Job, "attempt", r.order.Number)
		r.stopAt = now
		m.background(r, func() { r.signalShim(sigKill) })
	}
	return r.busy
}

// stepTold handles an attempt that is ordered although its exit was acknowledged:
// the other side has forgotten, so the exit is reported again.
func (m *Machine) stepTold(r *run, wanted, known bool) {
	switch {
	case wanted && m.cfg.Now().Sub(r.toldAt) > tellAgain:
		m.cfg.Log.Warn("attempt has ended but is still ordered; reporting its exit again", "job", r.order.Job, "attempt", r.order.Number)
		r.state = ended
		m.poke()
	case !wanted && known && !r.folder:
		delete(m.runs, r.order.AttemptID)
	}
}

// blocked reports whether another attempt of the job, or another holder of the
// GPUs, is still there.
func (m *Machine) blocked(r *run) bool {
	for _, other := range m.runs {
		if other == r || other.order.Job != r.order.Job {
			continue
		}
		if other.stale || other.state == running || other.state == launching { // of a stale one, the folder is in the way
			return true
		}
	}
	return m.taken(r, r.order.Placement)
}

// taken reports whether others hold GPUs of a placement.
func (m *Machine) taken(r *run, to sched.Placement) bool {
	used := map[int]int32{} // thousandths, by GPU
	for _, other := range m.runs {
		if other == r || (other.state != running && other.state != launching) || other.suspended == isSuspended {
			continue
		}
		for _, s := range other.holds() {
			for _, g := range s.GPUs.Indexes() {
				used[g] += s.Milli
			}
		}
	}
	for _, s := range to {
		for _, g := range s.GPUs.Indexes() {
			if used[g]+s.Milli > sched.WholeGPU {
				return true
			}
		}
	}
	return false
}

// impossible returns why an attempt can never start, if so.
func (m *Machine) impossible(a api.Attempt) (api.Exit, bool) {
	e := api.Exit{AttemptID: a.AttemptID, At: m.cfg.Now(), Code: 126}
	all := sched.FirstGPUs(len(m.cfg.Devices))
	switch {
	case checkJob(a.Job) != nil:
		e.Why = checkJob(a.Job).Error()
	case a.Number < 1:
		e.Why = fmt.Sprintf("attempt number %d; want 1 or more", a.Number)
	case len(a.Task.Command) == 0 || a.Task.Validate() != nil:
		e.Why = fmt.Sprintf("the task is not valid: %v", a.Task.Validate())
	case a.Task.Image != "" && m.cfg.Runtime.Kind == "":
		e.Why = fmt.Sprintf("this machine has nothing that runs containers any more, and the job needs the image %.200s", a.Task.Image)
	case len(a.Placement) != 1 || a.Placement[0].GPUs == 0 || a.Placement[0].GPUs&^all != 0:
		e.Code, e.Lost = 0, true
		e.Why = fmt.Sprintf("placement %v is not on this machine, which has %d slots", a.Placement, len(m.cfg.Devices))
	default:
		_, err := a.Task.Positions(a.Placement.GPUs())
		if err == nil {
			return e, false
		}
		e.Why = err.Error()
	}
	return e, true
}

func sortedRuns(runs map[api.AttemptID]*run) []api.AttemptID {
	return slices.SortedFunc(maps.Keys(runs), func(a, b api.AttemptID) int {
		if a.Job != b.Job {
			if a.Job < b.Job {
				return -1
			}
			return 1
		}
		return a.Number - b.Number
	})
}
