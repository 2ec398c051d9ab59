// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package local

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/sched"
)

// makeJobFolder makes the folder of a job with the epoch in it, at once: a folder
// without one would count as a folder of version 0.1.
func (m *Machine) makeJobFolder(o *order) error {
	dir := m.jobDir(o.Job)
	if exists(dir) {
		epoch, err := m.epochOf(o.Job)
		if err != nil {
			return err
		}
		ours, err := m.cfg.Claim(api.Attempt{AttemptID: api.AttemptID{Job: o.Job}, Epoch: epoch})
		if ours || err != nil {
			return err
		}
		if err := m.setAside(dir); err != nil {
			return err
		}
	}
	temp := filepath.Join(m.jobsDir(), ".new-"+string(o.Job))
	if err := os.RemoveAll(temp); err != nil {
		return err
	}
	err := os.Mkdir(temp, 0o711)
	if err == nil && o.Epoch != "" {
		err = writeFile(filepath.Join(temp, epochFile), []byte(o.Epoch), true)
	}
	if err == nil {
		err = os.Rename(temp, dir)
	}
	if err != nil {
		return errors.Join(err, os.RemoveAll(temp))
	}
	return syncDir(m.jobsDir())
}

// epochOf returns the epoch of a job's folder.
func (m *Machine) epochOf(id sched.JobID) (string, error) {
	b, err := os.ReadFile(filepath.Join(m.jobDir(id), epochFile))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return strings.TrimSpace(string(b)), err
}

// attemptsOf lists the attempts in the folder of a job.
func (m *Machine) attemptsOf(id sched.JobID) ([]int, error) {
	names, err := os.ReadDir(m.jobDir(id))
	if err != nil {
		return nil, err
	}
	var out []int
	for _, a := range names {
		if n := attemptNumber(a.Name()); n > 0 && a.IsDir() {
			out = append(out, n)
		}
	}
	return out, nil
}

// loadJob reads the attempts of a job. If the job is not ours, its folder is set
// aside as a whole, when none of its attempts runs any more; an attempt of our job
// that is not ours is set aside alone.
func (m *Machine) loadJob(id sched.JobID, attempts []int) error {
	epoch, err := m.epochOf(id)
	if err != nil {
		return err
	}
	ours, err := m.cfg.Claim(api.Attempt{AttemptID: api.AttemptID{Job: id}, Epoch: epoch})
	if err != nil {
		return err
	}
	if len(attempts) == 0 && os.Remove(m.jobDir(id)) == nil {
		return nil // it was empty
	}
	left := false
	for _, n := range attempts {
		r := m.loadAttempt(api.AttemptID{Job: id, Number: n})
		if r == nil {
			continue
		}
		known := ours
		if ours && r.state != ended { // else nobody can tell which one it is
			found := r.order.Attempt
			found.Suspended = r.suspended != goesOn
			if known, err = m.cfg.Claim(found); err != nil {
				return err
			}
		}
		if r.stale = !known; r.stale && r.state != running {
			if ours {
				_ = m.setAside(r.dir)
			}
			continue
		}
		left = left || r.stale
		m.runs[r.order.AttemptID] = r
	}
	if !ours && !left {
		_ = m.setAside(m.jobDir(id))
	}
	return nil
}

// setAsideEnded sets aside a stale attempt that has ended, or its whole job.
func (m *Machine) setAsideEnded(r *run) {
	id := r.order.AttemptID
	epoch, err := m.epochOf(id.Job)
	if err == nil {
		var ours bool
		ours, err = m.cfg.Claim(api.Attempt{AttemptID: api.AttemptID{Job: id.Job}, Epoch: epoch})
		if dir := r.dir; err == nil {
			if !ours {
				dir = m.jobDir(id.Job)
			}
			if ours || !m.otherStale(r) {
				err = m.setAside(dir)
			}
		}
	}
	if err != nil {
		m.retry(r, err)
		return
	}
	m.update(func() { delete(m.runs, id) })
	m.tellSetAside()
}

// otherStale reports whether another stale attempt of the job is still there.
func (m *Machine) otherStale(r *run) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	for id, other := range m.runs {
		if other != r && other.stale && id.Job == r.order.Job {
			return true
		}
	}
	return false
}

func (m *Machine) isStale(id api.AttemptID) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.runs[id]
	return r != nil && r.stale
}

// setAside moves a folder of a job or an attempt out of the way.
func (m *Machine) setAside(dir string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.aside == "" {
		m.aside = filepath.Join(m.cfg.Dir, setAsideDir, m.cfg.Now().UTC().Format("20060102T150405.000000Z"))
	}
	name, _ := filepath.Rel(m.jobsDir(), dir)
	to := filepath.Join(m.aside, name)
	for n := 2; exists(to); n++ {
		to = fmt.Sprintf("%s~%d", filepath.Join(m.aside, name), n)
	}
	err := os.MkdirAll(filepath.Dir(to), 0o700)
	if err == nil {
		err = os.Rename(dir, to)
	}
	if err != nil {
		m.cfg.Log.Error("cannot set a folder aside", "dir", dir, "err", err)
		return fmt.Errorf("set %s aside: %w", dir, err)
	}
	m.moved++
	return nil
}

// SetAside says what Open has set aside and which attempts it is stopping; empty:
// nothing.
func (m *Machine) SetAside() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	running := 0
	for _, r := range m.runs {
		if r.stale {
			running++
		}
	}
	if m.moved+running == 0 {
		return ""
	}
	text := fmt.Sprintf("%d folders of jobs that are not in the journal were set aside in %s", m.moved, filepath.Join(m.cfg.Dir, setAsideDir))
	if running > 0 {
		text += fmt.Sprintf("; %d of their attempts were still running and are being stopped", running)
	}
	return text
}

// tellSetAside logs what was set aside.
func (m *Machine) tellSetAside() {
	if text := m.SetAside(); text != "" {
		m.cfg.Log.Warn(text)
	}
}
