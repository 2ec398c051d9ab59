// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/sched"
)

// Notices returns what happened to jobs after a record, as far as it is known, the record
// that it looked at last, and a channel that is closed when there is more. All of it is
// durable.
func (b *Store) Notices(after uint64) (list []api.Notice, last uint64, more <-chan struct{}) {
	b.mu.RLock()
	defer b.mu.RUnlock()
	records := b.feed.after(after)
	for i := range records {
		if n, ok := b.mem.notice(&records[i]); ok {
			list = append(list, n)
		}
	}
	return list, b.feed.last, b.feed.more
}

// notice tells a record to people; ok is false if it is not for them.
func (m *memory) notice(r *api.Record) (n api.Notice, ok bool) {
	x := m.jobs[r.Job()]
	event := noticeEvent(r.Event)
	if x == nil || event == "" {
		return n, false
	}
	return api.Notice{
		Seq: r.Seq, At: r.At, Event: event, Job: x.Job.ID, Name: x.Task.Name, User: x.Job.User, Tenant: x.Job.Tenant, App: x.Job.App,
		Text: r.Text, Notify: x.Task.Notify,
	}, true
}

func noticeEvent(e *sched.Event) string {
	switch {
	case e == nil:
	case e.Kind == sched.JobStarted && !e.InPlace:
		return api.NoticeStarted
	case e.Kind == sched.JobStopped && !e.InPlace && !e.Moving:
		return api.NoticePreempted
	case e.Kind == sched.JobFailed:
		return api.NoticeRetried
	case e.Kind == sched.JobEnded && e.Phase == sched.Finished:
		return api.NoticeFinished
	case e.Kind == sched.JobEnded && e.Phase == sched.Failed:
		return api.NoticeFailed
	case e.Kind == sched.JobEnded:
		return api.NoticeCancelled
	}
	return ""
}
