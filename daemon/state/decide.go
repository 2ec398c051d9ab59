// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"context"
	"fmt"
	"time"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/daemon/loop"
	"github.com/fairway-gpu/fairway/sched"
)

var _ loop.Backend = (*Store)(nil)

// Snapshot implements loop.Backend.
func (b *Store) Snapshot(context.Context) (*sched.Snapshot, error) {
	b.mu.Lock() // Frozen moves the state's clock
	defer b.mu.Unlock()
	s := b.mem.frozen(b.now())
	b.seen.snapshot, b.seen.seq = s, b.mem.Seq
	return s, nil
}

// Peek is Snapshot for callers that do not apply a decision.
func (b *Store) Peek() *sched.Snapshot {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.mem.frozen(b.now())
}

// Changed implements loop.Backend.
func (b *Store) Changed() <-chan struct{} { return b.changed }

// InForce returns the policy and its spec. Only the loop may use it: a policy has
// caches and is not safe for concurrent use.
func (b *Store) InForce() (sched.Policy, string) {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.policy, b.mem.Policy
}

// Apply implements loop.Backend.
func (b *Store) Apply(ctx context.Context, d loop.Decision) error {
	return b.commit(ctx, func(t *tx) error { return t.decide(d) })
}

func (t *tx) decide(d loop.Decision) error {
	t.actor, t.mem.wake = "scheduler", d.Plan.Wake
	number := t.mem.Decisions + 1
	for i, j := range d.Snapshot.Jobs {
		t.keepReason(d, i, j)
	}
	inPlace := map[sched.JobID]bool{}
	stopped, goal := map[sched.JobID]bool{}, map[sched.JobID]sched.Placement{}
	for _, a := range d.Actions {
		if a.Verb == sched.Start {
			goal[a.Job.ID] = a.To
		}
	}
	held := t.mem.held()
	basis := &api.Basis{Policy: d.Policy, Now: d.Snapshot.Now}
	if t.store.seen.snapshot == d.Snapshot {
		basis.Seen = t.store.seen.seq
	}
	for _, a := range d.Actions {
		j, ok := t.mem.state.Job(a.Job.ID)
		if !ok || !same(j, a.Job) && !(a.Verb == sched.Start && stopped[j.ID]) {
			continue // it has changed since: the next decision sees it
		}
		e := sched.Event{Job: j.ID, At: t.now, Moving: a.Moving}
		if a.Verb == sched.Stop {
			if a.Moving && !t.takesWork(goal[j.ID]) {
				continue // it would lose what it has and get nothing
			}
			if a.Suspend && j.Pinned() {
				continue // the memory of its node is needed by now
			}
			e.Kind = sched.JobStopped
			e.Text = t.reasonToStop(d, a)
			if a.Moving && t.changesInPlace(j, goal[j.ID]) {
				e.InPlace, inPlace[j.ID] = true, true
				e.Text += ", in place"
			}
			if e.Suspend = j.Suspends && !a.Moving; e.Suspend {
				e.Text += "; it is suspended in place"
			}
			stopped[j.ID] = true
			held.add(j.Placement, -1)
		} else {
			if j.Phase != sched.Pending || !j.Ready(t.now) || !t.takesWork(a.To) || !held.room(a.To) {
				continue
			}
			held.add(a.To, 1)
			e.Kind, e.Placement, e.Screening = sched.JobStarted, a.To, a.Screening
			e.Text = "starts on " + a.To.Text(t.mem.state.Cluster())
			if e.InPlace = inPlace[j.ID]; e.InPlace {
				e.Text = "goes on with " + a.To.Text(t.mem.state.Cluster())
			}
			if a.Screening {
				e.Text += ", for screening"
			}
			if t.mem.jobs[j.ID].suspended() && a.To.Equal(j.Suspended) {
				e.InPlace = true
				e.Text = "resumes on " + a.To.Text(t.mem.state.Cluster()) + ", where it was suspended"
			}
		}
		r := api.Record{Event: &e, Decision: number, Basis: basis}
		if e.Kind == sched.JobStarted && !e.InPlace {
			if r.Plan = t.mem.planFor(t.mem.jobs[j.ID], a.To); r.Plan != nil {
				e.Text += ", plan " + r.Plan.String()
			}
		}
		r.Text = e.Text
		if err := t.add(r); err != nil {
			return err
		}
		basis = nil
		t.decides = true
	}
	return nil
}

// changesInPlace reports whether a running attempt can go on with other GPUs: those of
// one node, some of which it has, and its ranks have said that they can. An executor
// that fails at it ends the attempt, and the job starts anew.
func (t *tx) changesInPlace(j *sched.Job, to sched.Placement) bool {
	x, from := t.mem.jobs[j.ID], j.Placement
	if x == nil || x.Shown < sched.InPlace || x.Task.Single || x.Task.Plans != nil || j.Screening || len(from) != 1 || len(to) != 1 {
		return false
	}
	a, b := from[0], to[0]
	return a.Node == b.Node && a.GPUs&b.GPUs != 0 && a.Milli == sched.WholeGPU && b.Milli == sched.WholeGPU &&
		len(x.Open) == 1 && x.Open[0] == j.Starts && t.store.up[api.AttemptID{Job: j.ID, Number: j.Starts}]
}

// same reports whether a job is unchanged since the snapshot.
func same(now, then *sched.Job) bool {
	return now.Phase == then.Phase && now.Starts == then.Starts && now.Placement.Equal(then.Placement) && now.NotBefore.Equal(then.NotBefore) && now.Paused == then.Paused
}

// takesWork reports whether every node of a placement still takes new work: a node
// may have been cordoned, or others may have taken its GPUs, since the snapshot.
func (t *tx) takesWork(p sched.Placement) bool {
	for _, s := range p {
		if n := &t.mem.state.Cluster().Nodes[s.Node]; n.State != sched.Ready || s.GPUs&^n.Usable() != 0 {
			return false
		}
	}
	return true
}

// keepReason stores why a job waits, and the policy's note.
func (t *tx) keepReason(d loop.Decision, i int, j *sched.Job) {
	x := t.mem.jobs[j.ID]
	if x == nil {
		return
	}
	x.reason = sched.Reason{}
	if len(d.Plan.Want[i]) == 0 {
		x.reason = d.Plan.Why[i]
	}
	if d.Plan.Notes != nil && d.Plan.Notes[i] != j.Note {
		if now, ok := t.mem.state.Job(j.ID); ok && now.Note == j.Note {
			// A crash can lose the note only together with the decision that made it.
			_ = t.event(sched.Event{Kind: sched.JobNoted, Job: j.ID, Note: d.Plan.Notes[i]})
		}
	}
}

// reasonToStop returns why a job loses its GPUs, and to which job.
func (t *tx) reasonToStop(d loop.Decision, a sched.Action) string {
	if a.Moving {
		for i, j := range d.Snapshot.Jobs {
			if j == a.Job {
				return fmt.Sprintf("%s moves it from %s to %s", d.Policy, a.From.Text(d.Snapshot.Cluster), d.Plan.Want[i].Text(d.Snapshot.Cluster))
			}
		}
	}
	for i, want := range d.Plan.Want {
		other := d.Snapshot.Jobs[i]
		if other != a.Job && !want.Equal(other.Placement) && overlap(want, a.From) {
			if other.Tenant != a.Job.Tenant { // its users may not see the job's name
				return d.Policy + " gives its GPUs to a job of another tenant"
			}
			return fmt.Sprintf("%s gives its GPUs to %s", d.Policy, other.ID)
		}
	}
	return fmt.Sprintf("%s: %s", d.Policy, a.Why.Text(d.Snapshot.Cluster))
}

func overlap(p, q sched.Placement) bool {
	for _, a := range p {
		for _, b := range q {
			if a.Node == b.Node && a.GPUs&b.GPUs != 0 {
				return true
			}
		}
	}
	return false
}

// Decided stores how long a decision took, for Overview.
func (b *Store) Decided(d loop.Decision, took time.Duration) {
	b.mu.Lock()
	b.stats.lastMS = float64(took.Microseconds()) / 1000
	b.mu.Unlock()
	for _, v := range d.Vetoes {
		b.Log.Info("keep job", "job", v.Job, "rule", v.Rule, "why", v.Text, "policy", d.Policy)
	}
}

// holdings is what jobs hold of each GPU, in thousandths, by node and bit.
type holdings map[sched.Slice]int32

// held returns what the running jobs hold. Only the loop allocates GPUs, but it
// may have seen some as free in a change that the journal then refused.
func (m *memory) held() holdings {
	h := holdings{}
	for _, j := range m.state.Peek().Jobs {
		h.add(j.Placement, 1)
	}
	return h
}

func (h holdings) each(p sched.Placement, f func(gpu sched.Slice, milli int32)) {
	for _, s := range p {
		for g := s.GPUs; g != 0; g &= g - 1 {
			f(sched.Slice{Node: s.Node, GPUs: g & -g}, s.Milli)
		}
	}
}

func (h holdings) add(p sched.Placement, sign int32) {
	h.each(p, func(gpu sched.Slice, milli int32) { h[gpu] += sign * milli })
}

// room reports whether the GPUs of a placement are free.
func (h holdings) room(p sched.Placement) bool {
	ok := true
	h.each(p, func(gpu sched.Slice, milli int32) { ok = ok && h[gpu]+milli <= sched.WholeGPU })
	return ok
}
