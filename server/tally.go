// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"strings"
	"time"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/sched"
)

// tally counts what happens to jobs from the feed, from now on.
type tally struct {
	*Server
	begun   bool
	last    uint64                    // sequence number of the last record seen
	waiting map[sched.JobID]waitSince // jobs that wait, as far as they were seen to begin
}

type waitSince struct {
	at    time.Time
	again bool // it has run before
}

// count follows the feed until the context ends.
func (s *Server) count(ctx context.Context) {
	t := &tally{Server: s, waiting: map[sched.JobID]waitSince{}}
	const pause = time.Second
	for ctx.Err() == nil {
		// Why it ended does not matter: it goes on behind the last record.
		_ = t.follow(ctx)
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

func (t *tally) follow(ctx context.Context) (err error) {
	defer func() {
		if p := recover(); p != nil {
			t.Log.Error("panic while counting records", "err", p)
		}
	}()
	if !t.begun {
		o, err := t.Cluster.Overview(observer())
		if err != nil {
			return err
		}
		t.last, t.begun = o.Seq, true
	}
	return t.Feed.Watch(ctx, observer(), api.RecordFilter{After: t.last}, func(r api.Record) error {
		t.last = max(t.last, r.Seq)
		if r.Event != nil {
			t.event(&r)
		}
		if r.Exit != nil {
			t.failure(r.Exit)
		}
		return nil
	})
}

func (t *tally) event(r *api.Record) {
	e, m, id := r.Event, t.Metrics, r.Job()
	switch e.Kind {
	case sched.JobSubmitted:
		t.waiting[id] = waitSince{at: e.At}
	case sched.JobStarted:
		m.starts.Inc()
		since, seen := t.waiting[id]
		if !seen {
			since, seen = t.before(id)
		}
		if seen {
			m.waitSec.Observe(max(0, e.At.Sub(since.at).Seconds()))
		}
		if since.again {
			m.restarts.Inc()
		}
		delete(t.waiting, id)
	case sched.JobStopped:
		t.waiting[id] = waitSince{at: e.At, again: true}
		if e.Moving {
			m.moves.Inc()
		} else {
			m.preemptions.Inc()
		}
	case sched.JobFailed:
		t.waiting[id] = waitSince{at: e.At, again: true}
		m.failures.Inc()
	case sched.JobEnded:
		delete(t.waiting, id)
		m.ends.WithLabelValues(e.Phase.String()).Inc()
	}
}

// failure counts why an attempt failed, and what was decided. Reasons come from
// a table that the daemon has read: there are only so many.
func (t *tally) failure(e *api.Exit) {
	if e.Finding == nil {
		return
	}
	outcome := "retried"
	if strings.HasPrefix(e.Next, "not retried") {
		outcome = "given-up"
	}
	t.Metrics.reasons.WithLabelValues(e.Finding.Reason, string(e.Finding.Category), outcome).Inc()
}

// before answers for a job that began to wait before anybody counted: how long
// is known only if this is its first start.
func (t *tally) before(id sched.JobID) (since waitSince, known bool) {
	j, err := t.Jobs.Job(observer(), id)
	if err != nil {
		return waitSince{}, false
	}
	if j.Status.Starts > 1 {
		return waitSince{again: true}, false
	}
	return waitSince{at: j.Submitted}, true
}
