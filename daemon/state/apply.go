// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"fmt"
	"slices"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/sched"
)

// apply adds one record. It does the same for a new record and one read from the
// journal.
func (m *memory) apply(r *api.Record) error {
	if r.Seq != m.Seq+1 {
		return fmt.Errorf("the record has number %d; want %d", r.Seq, m.Seq+1)
	}
	if e := r.Event; e != nil {
		if err := m.event(r, *e); err != nil {
			return err
		}
	}
	if r.Accepted != nil {
		if err := m.accepted(r); err != nil {
			return err
		}
	}
	if r.Exit != nil {
		m.exit(r)
	}
	if r.Quarantine != nil {
		m.setQuarantine(r)
	}
	if r.Policy != "" {
		m.Policy, m.policyKept = r.Policy, true
	}
	if r.Token != nil {
		m.setToken(*r.Token)
	}
	if r.Bidder != nil {
		m.setBidder(*r.Bidder)
	}
	if r.Epoch != nil && r.Event == nil {
		m.beginEpoch(r)
	}
	if r.Damage != nil {
		m.setDamage(r)
	}
	if r.Search != nil {
		if err := m.applySearch(r); err != nil {
			return err
		}
	}
	if r.SetBack > 0 {
		if err := m.setBack(r); err != nil {
			return err
		}
	}
	m.Decisions = max(m.Decisions, r.Decision)
	m.Seq = r.Seq
	if r.At.After(m.At) {
		m.At = r.At
	}
	return nil
}

// event applies the event of a record.
func (m *memory) event(r *api.Record, e sched.Event) error {
	id := r.Job()
	before, _ := m.state.Job(id)
	var was sched.Job
	if before != nil {
		was = *before
		if x := m.jobs[id]; x != nil {
			x.count(before, r.At)
		}
	}
	there := e.Kind == sched.NodeJoined && m.hasNode(e.Node)
	if err := m.state.Apply(e); err != nil {
		return err
	}
	switch e.Kind {
	case sched.JobSubmitted:
		return m.submitted(r, id)
	case sched.NodeJoined:
		m.nodeSet(r, there)
		return nil
	}
	x := m.jobs[id]
	if x == nil {
		return nil // about a tenant
	}
	switch e.Kind {
	case sched.JobStarted:
		if !e.InPlace {
			x.Counted.Attempt = x.Counted.GPUs
		}
		x.started(r, &was)
		if !e.InPlace {
			x.StartEpoch = m.epoch()
		}
		if r.Epoch != nil {
			x.StartEpoch = r.Epoch.ID
		}
	case sched.JobStopped:
		verb := "preempt"
		if e.Moving {
			verb = "move"
		}
		x.lostGPUs(r, &was, verb)
	case sched.JobHeld:
		x.held(r, &was, e)
	case sched.JobFailed:
		if e := x.Exit; e != nil && (e.Lost || e.Advice != nil && e.Advice.Uncounted) { // its record comes right before
			x.LostAll++
		}
		if e.Memory > 0 && x.Asked == 0 {
			x.Asked = was.Memory
		}
		x.Reported = min(x.Reported, was.CheckpointedWork)
		x.lostGPUs(r, &was, "fail")
	case sched.JobReported:
		gpuType := m.gpuType(was.Placement)
		if r.Resized != nil {
			x.resized(r)
		}
		if len(x.Open) > 0 && x.Open[0] == was.Starts && was.Phase == sched.Running && x.stepped(r) && (!x.changing() || len(x.Task.Roles) > 0) {
			x.back(r.At)
		}
		x.reported(r, &was, gpuType)
		m.measuredSeries(x, r)
		if was.Phase == sched.Running {
			x.measured(m.companyOf(x.Job), gpuType, r)
		}
		m.trialReported(x, r.Point)
	case sched.JobCheckpoint:
		if e.Done > was.CheckpointedWork {
			x.Lost = 0
		}
		// Attempts of one job never run at the same time: only the oldest open one may
		// report.
		if len(x.Open) > 0 && (was.Phase != sched.Running || x.Open[0] != was.Starts) {
			if e := x.stopOf(x.Open[0]); e != nil { // it has saved all its work
				e.Lost, e.LostS = 0, 0
			}
		}
	case sched.JobNoted:
		if r.Warning != "" {
			x.Warning = r.Warning
		}
		if r.Slow != nil {
			m.slow(x, r)
		}
	case sched.JobEnded:
		m.ended(x, r, &was)
	}
	return nil
}

func (m *memory) submitted(r *api.Record, id sched.JobID) error {
	if r.Task == nil {
		return fmt.Errorf("job %s: the record has no task", id)
	}
	j, _ := m.state.Job(id)
	if x := m.waiting[id]; x != nil {
		m.unhold(x, j)
		return nil
	}
	x := &entry{Job: j, Task: *r.Task, Owner: api.Owner{UID: -1, GID: -1}, Key: r.Key, Epoch: m.epoch()}
	if r.Owner != nil {
		x.Owner = *r.Owner
	}
	m.put(x)
	m.queued.add(x, 1)
	m.enlist(x)
	m.trialSubmitted(x)
	m.Count = max(m.Count+1, JobNumber(id))
	return nil
}

func (m *memory) gpuType(p sched.Placement) string {
	if len(p) == 0 {
		return ""
	}
	return string(m.state.Cluster().Nodes[p[0].Node].Type)
}

// exit records that an attempt is gone.
func (m *memory) exit(r *api.Record) {
	x := m.jobs[r.Exit.Job]
	if x == nil {
		return
	}
	x.Open = slices.DeleteFunc(x.Open, func(n int) bool { return n == r.Exit.Number })
	x.countExit(r)
	x.Exit = r.Exit
	x.Complete = false // it was said of the attempt that is gone
	m.remember(x, r)
	x.SaveFailed = ""
	e := x.stopOf(r.Exit.Number)
	switch {
	case e == nil:
	case r.Exit.Unsaved > 0:
		e.Lost = r.Exit.Unsaved
	case r.Exit.Yielded:
		e.Lost, e.LostS = 0, 0
	}
}

func (m *memory) setToken(t api.Token) {
	i := slices.IndexFunc(m.Tokens, func(o api.Token) bool { return o.ID == t.ID })
	if i < 0 {
		m.Tokens = append(m.Tokens, t)
		return
	}
	m.Tokens[i] = t
}

// changesOrders reports whether a record can change what should run.
func changesOrders(r *api.Record) bool {
	if r.Exit != nil {
		return true
	}
	if r.Event == nil {
		return false
	}
	switch r.Event.Kind {
	case sched.JobStarted, sched.JobStopped, sched.JobFailed, sched.JobEnded, sched.JobHeld, sched.JobSuspension:
		return true
	}
	return false
}
