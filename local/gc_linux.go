// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package local

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/sched"
)

// collectGarbage removes what exceeds the limits on age and size: folders of ended
// attempts, oldest first, and what ended jobs left behind. Of a job that may still
// run, it only removes logs of attempts before the last.
func (m *Machine) collectGarbage() {
	for _, id := range m.surplus() {
		if err := os.RemoveAll(m.attemptDir(id)); err != nil {
			m.cfg.Log.Warn("cannot remove an old attempt", "job", id.Job, "attempt", id.Number, "err", err)
		}
	}
	if m.cfg.Ended == nil {
		return
	}
	m.freeMemory("")
	names, err := os.ReadDir(m.jobsDir())
	if err != nil {
		m.cfg.Log.Warn("cannot list old jobs", "err", err)
		return
	}
	for _, d := range names {
		id := sched.JobID(d.Name())
		if !d.IsDir() || checkJob(id) != nil || !m.cfg.Ended(id) || !m.idle(id) {
			continue
		}
		m.collectJob(id)
	}
}

// surplus forgets the attempts that are over the limits, and returns them.
func (m *Machine) surplus() []api.AttemptID {
	m.mu.Lock()
	last := map[sched.JobID]int{}
	var ended []*run // newest first
	for id, r := range m.runs {
		last[id.Job] = max(last[id.Job], id.Number)
		if r.state == told && r.folder && !r.busy {
			ended = append(ended, r)
		}
	}
	slices.SortFunc(ended, func(a, b *run) int {
		return cmp.Or(b.exit.At.Compare(a.exit.At), cmp.Compare(a.order.Job, b.order.Job), cmp.Compare(b.order.Number, a.order.Number))
	})
	var over []api.AttemptID
	kept, bytes := 0, int64(0)
	for _, r := range ended {
		kept++
		bytes += r.bytes
		if (kept > m.cfg.LogKeep || bytes > m.cfg.LogBytes) && !m.ordered[r.order.Job] {
			over = append(over, r.order.AttemptID)
		}
	}
	m.mu.Unlock()
	// The callback may wait for the mutex.
	over = slices.DeleteFunc(over, func(id api.AttemptID) bool {
		return last[id.Job] == id.Number && (m.cfg.Ended == nil || !m.cfg.Ended(id.Job))
	})
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.DeleteFunc(over, func(id api.AttemptID) bool {
		r := m.runs[id]
		if m.ordered[id.Job] || r == nil || r.busy || r.state != told {
			return true
		}
		delete(m.runs, id)
		return false
	})
}

// idle reports whether the machine has nothing to do for a job.
func (m *Machine) idle(id sched.JobID) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.ordered[id] {
		return false
	}
	for other, r := range m.runs {
		if other.Job == id && r.state != told {
			return false
		}
	}
	return true
}

// collectJob removes the checkpoints and the working folder of a job that ended
// long ago, and its own folder when it is empty.
func (m *Machine) collectJob(id sched.JobID) {
	dir := m.jobDir(id)
	if m.cfg.Now().Sub(m.lastUsed(id)) < m.cfg.KeepEnded {
		return
	}
	for _, name := range []string{checkpointDir, workDir} {
		if err := os.RemoveAll(filepath.Join(dir, name)); err != nil {
			m.cfg.Log.Warn("cannot remove the files of an old job", "job", id, "err", err)
		}
	}
	if attempts, err := m.attemptsOf(id); err == nil && len(attempts) == 0 { // else logs are kept
		_ = os.Remove(filepath.Join(dir, epochFile)) // version 0.1 had none
		_ = os.Remove(dir)
	}
}

// lastUsed returns when the last attempt of a job ended.
func (m *Machine) lastUsed(id sched.JobID) time.Time {
	var at time.Time
	if info, err := os.Stat(m.jobDir(id)); err == nil {
		at = info.ModTime()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for other, r := range m.runs {
		if other.Job == id && r.exit.At.After(at) {
			at = r.exit.At
		}
	}
	return at
}

// folderBytes returns the size of the files of a folder.
func folderBytes(dir string) int64 {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return 0
	}
	var sum int64
	for _, e := range entries {
		if info, err := e.Info(); err == nil {
			sum += info.Size()
		}
	}
	return sum
}
