// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"slices"
	"time"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/sched"
)

func (m *memory) ended(x *entry, r *api.Record, was *sched.Job) {
	e := *x.Job // the state has forgotten it
	x.Job = &e
	x.Ended = r.At
	x.PausedBy, x.MovedTo = "", r.MovedTo
	if e.Phase == sched.Failed && slices.Contains(x.Open, was.Starts) || x.Broken != "" {
		x.Why = r.Text
	}
	x.back(r.At)
	if was.Phase == sched.Running {
		x.addLedger(api.Entry{At: r.At, Verb: "end", Attempt: was.Starts, From: was.Placement.GPUs(), Why: r.Text})
	}
	m.Ends[e.Phase]++
	m.GPUTime[e.Tenant] += e.GPUSeconds
	m.Ended = append(m.Ended, x)
	m.queued.add(x, -1)
	m.endedBytes += x.size()
	m.endedPoints += m.Metrics[e.ID].points()
	m.thinOld()
	m.test(x)
	m.trialEnded(x, r.Text)
	m.noteEnd(x)
	m.forget(r.At)
}

// forget drops the oldest ended jobs beyond the limits, in batches, and remembers
// their keys. Jobs whose processes may still run are kept.
func (m *memory) forget(now time.Time) {
	const stride = 256
	if len(m.Ended) < m.keep+stride && m.endedBytes <= m.keepBytes {
		return
	}
	mostBytes := m.keepBytes - m.keepBytes/8
	kept := make([]*entry, 0, m.keep+stride)
	drop := len(m.Ended) - m.keep
	for i, x := range m.Ended {
		if (i < drop || m.endedBytes > mostBytes) && len(x.Open) == 0 {
			m.endedBytes -= x.size()
			m.endedPoints -= m.Metrics[x.Job.ID].points()
			delete(m.Metrics, x.Job.ID)
			m.bury(x, now)
			delete(m.jobs, x.Job.ID)
			m.delist(x)
			m.untest(x)
			if x.Key != "" {
				delete(m.keys, keyOf(x.Job.Tenant, x.Key))
				m.used.add(hashKey(x.Job.Tenant, x.Key), usedKey{job: x.Job.ID, ended: x.Ended.Unix(), phase: x.Job.Phase}, now)
			}
			continue
		}
		kept = append(kept, x)
	}
	m.Ended = kept
}
