// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"context"
	"fmt"
	"slices"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/sched"
)

// suspended reports whether the last attempt of the job should be suspended now: it
// keeps its number, and goes on when the job has GPUs again.
func (x *entry) suspended() bool {
	return x.Job.Phase == sched.Pending && len(x.Job.Suspended) > 0 && slices.Contains(x.Open, x.Job.Starts)
}

// current reports whether the attempt of a number should be there now, running or
// suspended.
func (x *entry) current(number int) bool {
	return number == x.Job.Starts && (x.Job.Phase == sched.Running || x.suspended())
}

// Suspended implements executor.Port.
func (b *Store) Suspended(ctx context.Context, s api.Suspended) error {
	return b.commit(ctx, func(t *tx) error {
		t.actor = "machine"
		x := t.mem.jobs[s.Job]
		if x == nil || x.Job.Phase.Ended() || !x.current(s.Number) {
			return nil // it is no longer so
		}
		if s.Failed != "" {
			return t.unsuspendable(x, s)
		}
		text := fmt.Sprintf("suspended in %.1f s", s.Out.D().Seconds())
		if s.Memory > 0 {
			text += fmt.Sprintf(": %s moved from its GPUs to the memory of the node", gigabytes(s.Memory))
		}
		if s.Back > 0 {
			text = fmt.Sprintf("went on after %.1f s", s.Back.D().Seconds())
		} else {
			delete(b.up, s.AttemptID)
		}
		return t.event(sched.Event{Kind: sched.JobSuspension, Job: s.Job, Suspension: &s.Suspension, Text: text})
	})
}

// unsuspendable puts a job that could not be suspended back where it still runs. Those
// that were given its GPUs have not started, because they waited for it to leave.
func (t *tx) unsuspendable(x *entry, s api.Suspended) error {
	t.decides = true
	why := "it cannot be suspended: " + s.Failed
	if err := t.event(sched.Event{Kind: sched.JobSuspension, Job: s.Job, Suspension: &s.Suspension, Text: why}); err != nil || x.Job.Phase == sched.Running {
		return err
	}
	at := x.Job.Suspended
	for _, other := range t.mem.inOrder() {
		if other != x && overlap(other.Job.Placement, at) {
			e := sched.Event{Kind: sched.JobHeld, Job: other.Job.ID, Until: t.now, Text: "its GPUs are not free: another job could not be suspended"}
			if err := t.event(e); err != nil {
				return err
			}
		}
	}
	if x.Job.Paused {
		if err := t.event(sched.Event{Kind: sched.JobHeld, Job: s.Job, Until: t.now, Text: "not paused: " + why}); err != nil {
			return err
		}
	}
	return t.event(sched.Event{Kind: sched.JobStarted, Job: s.Job, Placement: at, InPlace: true, Text: "runs on: " + why})
}

// displace takes their GPUs from those who, as far as the journal knows, run on the GPUs
// of a found attempt: it has lost the records in which they were suspended or stopped.
// Whoever is suspended by mistake, because the found attempt has ended, goes on with the
// next decision. Who would lose work by being stopped keeps its GPUs.
func (t *tx) displace(a api.Attempt) error {
	for _, x := range t.mem.inOrder() {
		shares := x.Job.Shareable || len(x.Job.Placement) > 0 && x.Job.Placement[0].Milli < sched.WholeGPU // with the found one, maybe
		if a.Suspended || x.Job.ID == a.Job || shares || x.Job.Pinned() || !overlap(x.Job.Placement, a.Placement) {
			continue
		}
		e := sched.Event{Kind: sched.JobHeld, Job: x.Job.ID, Until: t.now, Suspend: x.Job.Suspends, Text: "another job runs on its GPUs"}
		if err := t.event(e); err != nil {
			return err
		}
	}
	return nil
}

// lostSuspended records that the processes of a suspended job are gone.
func (t *tx) lostSuspended(x *entry, e *api.Exit) error {
	if len(x.Job.Suspended) == 0 {
		return nil
	}
	return t.event(sched.Event{Kind: sched.JobSuspension, Job: x.Job.ID, Text: "ended while it was suspended (" + e.Text() + "): " + x.lost()})
}

// lost says what a job loses that cannot go on from memory.
func (x *entry) lost() string {
	j := x.Job
	switch {
	case j.CheckpointedWork > 0 && x.Reported > j.CheckpointedWork:
		return fmt.Sprintf("its work since its last checkpoint is lost, %.6g of %.6g", x.Reported-j.CheckpointedWork, x.Reported)
	case j.CheckpointedWork > 0:
		return "it goes on from its last checkpoint"
	}
	return "all its work is lost, of " + sched.Brief(j.Ran.D()) + " of running; it starts from the beginning unless it saves by itself"
}

// alsoSuspended says where the state of a suspended job is; empty: it is not suspended.
func (m *memory) alsoSuspended(x *entry) string {
	if !x.suspended() {
		return ""
	}
	s := "; suspended in place: its processes are frozen on node " + m.state.Cluster().Nodes[x.Job.Suspended[0].Node].Name
	if n := x.Job.AwayMemory(); n > 0 {
		s += ", and " + gigabytes(n) + " from its GPUs are in that node's memory"
	}
	return s
}

func gigabytes(n int64) string { return fmt.Sprintf("%.1f GB", float64(n)/1e9) }
