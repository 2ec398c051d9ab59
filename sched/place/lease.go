// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package place

import (
	"time"

	"github.com/fairway-gpu/fairway/sched"
)

// Lease protects running jobs: one that was started keeps its GPUs for the
// length of the lease, whatever the policy's order says. It bounds churn: each
// start buys at least that much run time.
//
// Leases that end one by one would starve a large gang: the few GPUs that come
// free at a time go to small jobs, which take new leases. So a job that has
// been the first of the waiting ones for the length of a lease breaks all
// leases, for one decision. Who waits there, and since when, is kept in
// Job.Note, which a policy with leases cannot use for anything else.
type Lease struct {
	length time.Duration
	now    time.Time
	broken bool
}

// waitsFirst, as Note.Level, marks a job that is or was the first of the
// waiting ones; Note.Since says when that began.
const waitsFirst = 1

// NewLease returns the leases of a snapshot.
func NewLease(s *sched.Snapshot, length time.Duration) Lease {
	l := Lease{length: length, now: s.Now}
	for _, j := range s.Jobs {
		l.broken = l.broken || l.impatient(j)
	}
	return l
}

func (l Lease) impatient(j *sched.Job) bool {
	return j.Phase == sched.Pending && j.Note.Level == waitsFirst && j.Ready(l.now) && !l.now.Before(j.Note.Since.Add(l.length))
}

// Holds reports whether a running job may not be stopped yet.
func (l Lease) Holds(j *sched.Job) bool { return !l.broken && l.End(j).After(l.now) }

// End returns the end of a running job's lease, broken or not.
func (l Lease) End(j *sched.Job) time.Time { return j.Since.Add(l.length) }

// Wake asks for a decision at or soon after a time: rounded up to the next
// tenth of a lease, so that a large cluster decides about many leases at once.
func (l Lease) Wake(plan *sched.Plan, at time.Time) {
	step := max(1, l.length/10)
	if !at.After(l.now) {
		at = l.now.Add(1)
	}
	if whole := at.Truncate(step); !whole.Equal(at) {
		at = whole.Add(step)
	}
	plan.WakeBy(l.now, at)
}

// Mark completes a plan that was made under these leases: it notes which job
// is the first of the waiting ones, and asks for a decision when its patience
// ends. The order is the one the plan was made in.
func (l Lease) Mark(s *sched.Snapshot, order []int, plan *sched.Plan) {
	first := true
	for _, i := range order {
		j := s.Jobs[i]
		note := sched.Note{}
		if Waits(*plan, i) {
			if j.Phase == sched.Pending && j.Note.Level == waitsFirst {
				note = j.Note
			}
			if l.impatient(j) || (first && note.Level != waitsFirst) {
				note = sched.Note{Level: waitsFirst, Since: l.now}
			}
			first = false
		}
		if note != j.Note {
			if plan.Notes == nil {
				plan.Notes = notes(s)
			}
			plan.Notes[i] = note
		}
		if note.Level == waitsFirst {
			l.Wake(plan, note.Since.Add(l.length))
		}
	}
}

// Waits reports whether the job with that index waits in the plan for GPUs
// that others have: not for its tenant's quota or the end of a back-off, and
// not for what will never come.
func Waits(plan sched.Plan, i int) bool {
	if len(plan.Want[i]) > 0 {
		return false
	}
	switch plan.Why[i].Code {
	case sched.Full, sched.Fragmented, sched.Behind:
		return true
	}
	return false
}

func notes(s *sched.Snapshot) []sched.Note {
	out := make([]sched.Note, len(s.Jobs))
	for i, j := range s.Jobs {
		out[i] = j.Note
	}
	return out
}
