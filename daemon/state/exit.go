// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"context"
	"slices"
	"strings"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/sched"
)

// Exited implements executor.Port.
func (b *Store) Exited(ctx context.Context, e api.Exit) error {
	e.Finding = b.classify(&e)
	e.Tails = nil // the feed keeps records for long
	var ended *entry
	err := b.commit(ctx, func(t *tx) error {
		delete(b.up, e.AttemptID)
		x := t.mem.jobs[e.Job]
		active := x != nil && !x.Job.Phase.Ended()
		if err := t.exited(x, e); err != nil {
			return err
		}
		if active && x.Job.Phase.Ended() {
			ended = x
		}
		return nil
	})
	if err == nil && ended != nil {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.learn(ended)
	}
	return err
}

// exited records that an attempt is gone, and the consequence for its job.
func (t *tx) exited(x *entry, e api.Exit) error {
	t.actor = "machine"
	if x == nil || !slices.Contains(x.Open, e.Number) {
		return nil // known already
	}
	if e.At.IsZero() || e.At.After(t.now) {
		e.At = t.now
	}
	t.decides = true
	current := x.Job.Phase == sched.Running && x.Job.Starts == e.Number
	suspended := x.suspended() && x.Job.Starts == e.Number
	active, complete := !x.Job.Phase.Ended(), x.Complete
	done := e.OK() || (complete && e.Code == 0 && e.Signal == "" && !e.Lost)
	held := e.Saw(api.HostHeldBack)
	fails := active && current && !done && !e.Yielded && !e.Noticed && !held
	var next sched.Event
	if fails {
		fitRemedy(&e, &x.Task)
		next = t.afterFailure(x, &e)
		next.Text = describeExit(&e)
	} else {
		e.Finding = nil // it was stopped: what it prints while it leaves is not a failure
	}
	if active && !fails && !done {
		e.Unsaved = max(0, x.Reported-x.Job.CheckpointedWork)
		if e.Unsaved > 0 && x.SaveFailed != "" {
			e.Why = strings.TrimPrefix(e.Why+"; it could not save its work: "+x.SaveFailed, "; ")
		}
	}
	e.Use = x.used(e.Number)
	text := e.Text()
	if e.Missing != "" {
		text += "; " + e.Missing
	}
	if err := t.add(api.Record{Exit: &e, Text: text}); err != nil {
		return err
	}
	if err := t.recordQuarantines(); err != nil {
		return err
	}
	id := e.Job
	switch {
	case !active:
		return nil
	case done:
		return t.event(sched.Event{Kind: sched.JobEnded, Job: id, Phase: sched.Finished, Text: "finished"})
	case !current:
		if suspended {
			if err := t.lostSuspended(x, &e); err != nil {
				return err
			}
		}
		return t.fallBack(x)
	case held:
		// It never ran: nothing counts, and it is tried again for as long as it takes.
		wait := heldBackOff(x.HeldBack, t.now.Sub(x.Job.Since))
		return t.event(sched.Event{Kind: sched.JobHeld, Job: id, Until: t.now.Add(wait), Avoid: unfit(&e), Text: e.Text() + "; tried again in " + sched.Duration(wait).String()})
	case !fails:
		// It was asked to stop, but not by Fairway: someone sent it a signal, or it could
		// not change in place. It saved its work, so it continues.
		hold := sched.Event{Kind: sched.JobHeld, Job: id, Until: t.now.Add(firstBackOff), Text: "left by itself: " + e.Text()}
		if x.changing() || x.changedLast() {
			hold.Until, hold.Text = t.now, "starts anew: "+e.Text()
		}
		if err := t.event(hold); err != nil {
			return err
		}
		return t.fallBack(x)
	}
	return t.event(next)
}

// fallBack sets the work of a stopped job back to its last checkpoint. A job that
// reports no work has none to set.
func (t *tx) fallBack(x *entry) error {
	j := x.Job
	if done := j.DoneBy(t.now); done <= j.CheckpointedWork {
		return nil
	}
	return t.event(sched.Event{Kind: sched.JobReported, Job: j.ID, Done: j.CheckpointedWork})
}
