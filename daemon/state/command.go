// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"context"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/sched"
)

// Command implements api.Jobs.
func (b *Store) Command(ctx context.Context, who api.Identity, id sched.JobID, c api.Command) (api.Job, error) {
	err := b.commit(ctx, func(t *tx) error {
		n, err := t.mem.refer(who, id)
		if err != nil {
			return err
		}
		id = sched.JobID(n.id()) // the name may stand for another job afterwards
		return t.command(who, id, c)
	})
	if err != nil {
		return api.Job{}, err
	}
	return b.job(who, id)
}

func (t *tx) command(who api.Identity, id sched.JobID, c api.Command) error {
	n, err := t.mem.refer(who, id)
	if err != nil {
		return err
	}
	if err := who.Require(api.User); err != nil {
		return err
	}
	if n.array != nil {
		return t.commandArray(who, n.array, c)
	}
	return t.commandJob(who, n.job, c)
}

func (t *tx) commandJob(who api.Identity, x *entry, c api.Command) error {
	id := x.Job.ID
	if x.Job.Phase.Ended() {
		if c == api.Cancel && x.Job.Phase == sched.Cancelled {
			return nil // asked twice
		}
		return api.Errorf(api.Conflict, "job %s has already ended", id)
	}
	if x.Hold && c != api.Cancel {
		return api.Errorf(api.Conflict, "job %s does not queue yet: %s", id, t.mem.holds(x).Text).Try("cancel it, or wait")
	}
	t.actor, t.decides = who.User, true
	switch c {
	case api.Cancel:
		text := "cancelled by " + who.User
		if _, trial := t.mem.trialOf(x); trial != nil && trial.Early {
			text = "stopped early: " + trial.Why
		}
		if x.Hold {
			if err := t.submitHeld(x); err != nil {
				return err
			}
		}
		return t.event(sched.Event{Kind: sched.JobEnded, Job: id, Phase: sched.Cancelled, Text: text})
	case api.Pause:
		if x.PausedBy != "" {
			return nil
		}
		e := sched.Event{Kind: sched.JobHeld, Job: id, Paused: true, Suspend: x.Job.Suspends && x.Job.Phase == sched.Running, Text: "paused by " + who.User}
		if e.Suspend {
			e.Text += "; it is suspended in place and loses nothing"
		}
		return t.event(e)
	case api.Resume:
		if x.PausedBy == "" {
			return nil
		}
		return t.event(sched.Event{Kind: sched.JobHeld, Job: id, Until: t.now, Text: "resumed by " + who.User})
	}
	return api.Errorf(api.Invalid, "%.20q is not a command", c).On("command").Try("use cancel, pause or resume")
}

// HandOver implements api.Jobs. That a job has not started is decided together with its end,
// so it runs here or there, and never in both places.
func (b *Store) HandOver(ctx context.Context, who api.Identity, id sched.JobID, h api.Handover) (api.Job, error) {
	if err := h.Validate(); err != nil {
		return api.Job{}, err
	}
	err := b.commit(ctx, func(t *tx) error {
		n, err := t.mem.refer(who, id)
		if err != nil {
			return err
		}
		if err := who.Require(api.User); err != nil {
			return err
		}
		if n.array != nil {
			return api.Errorf(api.Conflict, "%s is an array", id).Try("move a job that is on its own")
		}
		id = n.job.Job.ID
		return t.handOver(who, n.job, h.To)
	})
	if err != nil {
		return api.Job{}, err
	}
	return b.job(who, id)
}

func (t *tx) handOver(who api.Identity, x *entry, to string) error {
	id := x.Job.ID
	switch {
	case x.MovedTo == to:
		return nil // asked twice
	case x.MovedTo != "":
		return api.Errorf(api.Conflict, "job %s was handed over to %s", id, x.MovedTo)
	case x.Job.Phase.Ended():
		return api.Errorf(api.Conflict, "job %s has already ended", id)
	case x.Job.Phase != sched.Pending || x.Job.Starts > 0 || len(x.Open) > 0:
		return api.Errorf(api.Conflict, "job %s has started", id)
	case x.Hold || x.Task.Member != nil || len(t.mem.dependents[string(id)]) > 0:
		return api.Errorf(api.Conflict, "job %s waits for other jobs of this cluster, or they for it", id)
	}
	if _, trial := t.mem.trialOf(x); trial != nil {
		return api.Errorf(api.Conflict, "job %s belongs to a search", id)
	}
	t.actor, t.decides = who.User, true
	text := "moved to " + to + " by " + who.User
	return t.add(api.Record{Actor: who.User, Text: text, MovedTo: to,
		Event: &sched.Event{Kind: sched.JobEnded, Job: id, Phase: sched.Cancelled, Text: text}})
}

// CommandApp implements api.Jobs.
func (b *Store) CommandApp(ctx context.Context, who api.Identity, app sched.AppID, c api.Command) ([]api.Job, error) {
	var ids []sched.JobID
	err := b.commit(ctx, func(t *tx) error {
		found, err := t.commandSearch(who, app, c)
		if err != nil {
			return err
		}
		for _, x := range t.mem.inOrder() {
			if c == api.Resume && x.PausedBy == api.SearchActor(x.Job.App) {
				continue // it waits for other trials; only its search can tell
			}
			if isApp(x.Job.App, who.Tenant, app) && who.Sees(x.Job.Tenant) {
				ids = append(ids, x.Job.ID)
			}
		}
		for _, x := range t.mem.heldInOrder() {
			if c == api.Cancel && isApp(x.Job.App, who.Tenant, app) && who.Sees(x.Job.Tenant) {
				ids = append(ids, x.Job.ID)
			}
		}
		if len(ids) == 0 && !found {
			return api.Errorf(api.Unknown, "no app %q has jobs that wait or run", app)
		}
		for _, id := range ids {
			if err := t.command(who, id, c); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return b.jobs(who, ids)
}
