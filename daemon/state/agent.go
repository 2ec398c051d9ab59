// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"slices"
	"time"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/sched"
)

var _ api.Agents = (*Store)(nil)

// Report implements api.Agents.
func (b *Store) Report(ctx context.Context, secret string, r api.AgentReport) (api.AgentAnswer, error) {
	id, epoch, ok := attemptOf(b.Key, secret)
	if !ok || !b.owns(id, epoch) {
		return api.AgentAnswer{}, api.Errorf(api.Denied, "the secret does not belong to an attempt of this daemon")
	}
	return b.ReportFor(ctx, id, r)
}

func (t *tx) report(id api.AttemptID, r *api.AgentReport) (api.AgentAnswer, error) {
	x := t.mem.jobs[id.Job]
	if x == nil || !slices.Contains(x.Open, id.Number) {
		return api.AgentAnswer{}, api.Errorf(api.Conflict, "attempt %s is over", id)
	}
	if x.Job.Phase.Ended() {
		return api.AgentAnswer{Stop: true}, nil
	}
	if len(x.Task.Roles) > 0 {
		r.Training = nil // of one role's GPUs; policies count all
	}
	t.actor = "agent"
	current := x.Job.Phase == sched.Running && x.Job.Starts == id.Number
	if !r.Ask {
		if err := t.progress(x, r, current); err != nil {
			return api.AgentAnswer{}, err
		}
	}
	if current && !r.Ask {
		if err := t.pace(x, r.Pace); err != nil {
			return api.AgentAnswer{}, err
		}
	}
	if r.Checkpoint && !r.Ask {
		saved := r.Done
		if r.Saved != nil { // it was written while the training went on
			saved = *r.Saved
		}
		if err := t.event(sched.Event{Kind: sched.JobCheckpoint, Job: id.Job, Done: saved}); err != nil {
			return api.AgentAnswer{}, err
		}
	}
	if current && !r.Ask {
		if err := t.replan(x); err != nil {
			return api.AgentAnswer{}, err
		}
	}
	answer := api.AgentAnswer{Stop: !x.current(id.Number), Gang: gangSecret(t.store.Key, id, x.StartEpoch)}
	if x.Job.Perf != nil {
		if p, ok := x.Job.Perf.Params[t.mem.gpuType(x.Job.Placement)]; ok {
			answer.Params = &p
		}
		answer.Noise = x.Job.Perf.Noise
	}
	return answer, nil
}

// progress records the work in the report. An attempt that is leaving after the
// next one got GPUs may only report how far it came.
func (t *tx) progress(x *entry, r *api.AgentReport, current bool) error {
	e := sched.Event{Kind: sched.JobReported, Job: x.Job.ID, Done: r.Done, SaveFailed: r.SaveFailed != ""}
	if can := r.Ability(x.Job.MaxGPUs > x.Job.MinGPUs); can > x.Shown {
		e.Can = can
		t.decides = true
	}
	if e.SaveFailed && !x.Job.SaveFailed || r.Checkpoint && x.Job.SaveFailed { // it may be stopped no longer, or again
		t.decides = true
	}
	rec := api.Record{Event: &e, Complete: r.Complete, Series: dated(r.Series, x.Job.Submitted, t.now)}
	if len(r.Links) > 0 && !slices.Equal(r.Links, x.Links) {
		rec.Links = r.Links
	}
	if current {
		e.Done, r.Rate = x.believe(r, t.now)
		e.Rate, e.Slowdown = r.Rate, t.slowdown(x, r)
		if x.Restored != x.Job.Starts {
			rec.Restored = r.Restored
		}
		if z := r.Resized; z != nil && (x.Resized == nil || *z != *x.Resized) {
			rec.Resized = z
		}
		if r.Point != nil || r.Work > 0 {
			var p api.Point
			if r.Point != nil {
				p = *r.Point
			}
			p.At, p.Done, p.Rate, p.GPUs, p.Work = t.now, e.Done, e.Rate, x.Job.Placement.GPUs(), r.Work
			p.Util, p.Memory = 0, 0
			if x.gauge.attempt == x.Job.Starts {
				p.Util, p.Memory = x.gauge.last.Util, x.gauge.last.Memory
			}
			rec.Point = &p
		}
		perf, err := t.perf(x, r, rec.Point)
		if err != nil {
			return err
		}
		if perf != nil {
			e.Perf, rec.Training = perf, r.Training
			t.decides = true
		}
	}
	if r.SaveFailed != x.SaveFailed && r.SaveFailed != "" {
		t.cannotSave(x, &rec, r.SaveFailed, current)
	}
	if err := t.add(rec); err != nil || rec.Restored == nil || *rec.Restored == x.Job.CheckpointedWork {
		return err
	}
	// What was reported as saved, and what is there, are not the same.
	return t.event(sched.Event{Kind: sched.JobCheckpoint, Job: x.Job.ID, Done: *rec.Restored, SaveFailed: x.Job.SaveFailed})
}

// cannotSave tells the operator that a job could not save its work.
func (t *tx) cannotSave(x *entry, rec *api.Record, why string, current bool) {
	rec.SaveFailed, rec.Text = why, "cannot save its work: "+why
	if !current {
		rec.Text += "; asked to stop, it runs on and tries again"
	}
	t.store.Log.Warn("a job cannot save its work", "job", x.Job.ID, "stopping", !current, "err", why)
}

// SaveFails reports whether an attempt that should stop has said that it cannot save its
// work. A job that its user made preemptible has agreed to lose it.
func (b *Store) SaveFails(id api.AttemptID) bool {
	b.mu.RLock()
	defer b.mu.RUnlock()
	x := b.mem.jobs[id.Job]
	return x != nil && x.Job.Protected && !x.Job.Phase.Ended() && x.SaveFailed != "" && len(x.Open) > 0 && x.Open[0] == id.Number
}

// lastReport is the last report of progress that this daemon had from an attempt.
type lastReport struct {
	attempt int
	at      time.Time
	done    float64
}

// believe returns the work done and the rate that a report of the present attempt
// proves. Work from a checkpoint is not work that the attempt did, so the rate needs
// two reports of the same attempt, unless there is no checkpoint.
func (x *entry) believe(r *api.AgentReport, now time.Time) (done, rate float64) {
	j, last := x.Job, x.last
	if r.Done == 0 && r.Restored == nil && j.CheckpointedWork > 0 {
		return x.Reported, 0 // it has not read its checkpoint yet
	}
	x.last = lastReport{attempt: j.Starts, at: now, done: r.Done}
	gained, took := r.Done-last.done, now.Sub(last.at).Seconds()
	switch {
	case last.attempt != j.Starts:
		if j.CheckpointedWork > 0 || r.Restored != nil && *r.Restored > 0 {
			return r.Done, 0
		}
		return r.Done, r.Rate
	case gained <= 0:
		return r.Done, min(r.Rate, j.Rate)
	case r.Rate*took > 2*gained: // an old agent counts what it restored
		return r.Done, gained / took
	}
	return r.Done, r.Rate
}

// gangSecret returns the secret by which the ranks of an attempt know each other.
// It does not authorise reports for the attempt.
func gangSecret(key []byte, id api.AttemptID, epoch string) string {
	mac := hmac.New(sha256.New, key)
	fmt.Fprintf(mac, "gang %s%s", id, epoch)
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// ReportFor takes a report of an attempt that the caller has authenticated.
func (b *Store) ReportFor(ctx context.Context, id api.AttemptID, r api.AgentReport) (api.AgentAnswer, error) {
	if err := r.Validate(); err != nil {
		return api.AgentAnswer{}, err
	}
	var answer api.AgentAnswer
	err := b.commit(ctx, func(t *tx) error {
		var err error
		answer, err = t.report(id, &r)
		return err
	})
	return answer, err
}
