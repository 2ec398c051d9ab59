// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"fmt"
	"slices"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/sched"
)

// searchEntry is a search with all that is known about its trials. Trials outlive
// their jobs, which are forgotten.
type searchEntry struct {
	api.Search
	Owner api.Owner `json:"owner"`
	torn  bool      // the journal has lost some of its trials; see salvage
}

// Limits on one trial's curve. It only grows: readings by which trials were
// compared must not change.
const (
	denseReadings = 64
	mostReadings  = 1000
	nextReading   = 1.02 // times the work of the last one, after the dense ones
)

// applySearch adds a record about a search.
func (m *memory) applySearch(r *api.Record) error {
	n := r.Search
	if n.Spec != nil {
		s := &searchEntry{Search: api.Search{
			ID: n.ID, Tenant: n.Tenant, User: r.Actor, State: api.SearchRunning, Submitted: r.At, Spec: *n.Spec,
		}, Owner: api.Owner{UID: -1, GID: -1}}
		if n.Owner != nil {
			s.Owner = *n.Owner
		}
		m.Searches = append(m.Searches, s)
		m.searches[s.ID] = s
	}
	s := m.searches[n.ID]
	if s == nil {
		return fmt.Errorf("search %s is not known", n.ID)
	}
	for _, p := range n.Propose {
		if p.Number != len(s.Trials) {
			return fmt.Errorf("search %s: trial %d follows trial %d", n.ID, p.Number, len(s.Trials)-1)
		}
		s.Trials = append(s.Trials, api.Trial{Number: p.Number, Params: p.Params, State: api.Waiting})
		m.putTrial(s, p.Number)
	}
	for _, p := range n.Promote {
		if t := s.trial(p.Trial); t != nil {
			t.Rung = max(t.Rung, p.Rung)
		}
	}
	for _, p := range n.Stop {
		t := s.trial(p.Trial)
		if t == nil || t.State == api.Finished || t.State == api.Failed || t.State == api.Cancelled {
			continue
		}
		t.Why, t.Early = p.Why, !p.Failed
		switch {
		case p.Failed:
			t.State = api.Failed
		case t.Job == "": // it never became one
			t.State = api.Cancelled
		}
	}
	switch {
	case n.Command == api.Pause:
		s.PausedBy = r.Actor
	case n.Command == api.Resume:
		s.PausedBy = ""
	}
	if n.State != "" {
		s.State, s.Why, s.Ended, s.PausedBy = n.State, n.Why, r.At, ""
		for i := range s.Trials {
			if s.Trials[i].Job == "" && s.Trials[i].State == api.Waiting {
				s.Trials[i].State = api.Cancelled
			}
		}
		m.forgetSearches()
	}
	return nil
}

func (s *searchEntry) trial(number int) *api.Trial {
	if number < 0 || number >= len(s.Trials) {
		return nil
	}
	return &s.Trials[number]
}

// trialRef finds a trial.
type trialRef struct {
	search *searchEntry
	number int
}

func (m *memory) putTrial(s *searchEntry, number int) {
	m.trials[keyOf(s.Tenant, s.Spec.TrialKey(number))] = trialRef{s, number}
}

// trialOf returns the trial of a job; nil: it has none.
func (m *memory) trialOf(x *entry) (*searchEntry, *api.Trial) {
	if x.Key == "" || len(m.trials) == 0 {
		return nil, nil
	}
	ref, ok := m.trials[keyOf(x.Job.Tenant, x.Key)]
	if !ok || ref.search.ID != x.Job.App {
		return nil, nil
	}
	return ref.search, &ref.search.Trials[ref.number]
}

// admits refuses the job of a trial whose search has ended or was paused since the
// trial was proposed.
func (m *memory) admits(t sched.TenantID, key string) error {
	ref, ok := m.trials[keyOf(t, key)]
	switch {
	case !ok:
		return nil
	case ref.search.Over():
		return api.Errorf(api.Conflict, "search %s is over", ref.search.ID)
	case ref.search.PausedBy != "":
		return api.Errorf(api.Conflict, "search %s is paused", ref.search.ID)
	}
	return nil
}

// trialSubmitted records the job of a trial.
func (m *memory) trialSubmitted(x *entry) {
	if _, t := m.trialOf(x); t != nil {
		t.Job = x.Job.ID
	}
}

// trialReported adds a reading of the metric. Work repeated after a restart adds
// nothing.
func (m *memory) trialReported(x *entry, p *api.Point) {
	s, t := m.trialOf(x)
	if t == nil {
		return
	}
	value, ok := s.Spec.Metric.Of(p)
	if !ok {
		return
	}
	if t.Value == nil || s.better(value, *t.Value) {
		t.Value = &value
	}
	n := len(t.Curve)
	if n > 0 && p.Done <= t.Curve[n-1].Done {
		return
	}
	t.Done = p.Done
	if n >= mostReadings || n >= denseReadings && p.Done < nextReading*t.Curve[n-1].Done {
		return
	}
	t.Curve = append(t.Curve, api.CurvePoint{Done: p.Done, Value: value})
}

// trialEnded records how a trial ended.
func (m *memory) trialEnded(x *entry, why string) {
	_, t := m.trialOf(x)
	if t == nil {
		return
	}
	switch x.Job.Phase {
	case sched.Finished:
		t.State, t.Early, t.Why = api.Finished, false, ""
	case sched.Cancelled:
		t.State = api.Cancelled
	default:
		t.State, t.Early = api.Failed, false
	}
	if t.State != api.Finished && !t.Early {
		t.Why = why
	}
}

// forgetSearches drops the oldest ended searches.
func (m *memory) forgetSearches() {
	over := 0
	for _, s := range m.Searches {
		if s.Over() {
			over++
		}
	}
	m.Searches = slices.DeleteFunc(m.Searches, func(s *searchEntry) bool {
		if over <= keepSearches || !s.Over() {
			return false
		}
		over--
		delete(m.searches, s.ID)
		for i := range s.Trials {
			delete(m.trials, keyOf(s.Tenant, s.Spec.TrialKey(i)))
		}
		return true
	})
}

// frozen returns a copy of the search that shares no mutable data.
func (s *searchEntry) frozen() *searchEntry {
	c := *s
	c.Trials = slices.Clone(s.Trials)
	for i := range c.Trials {
		c.Trials[i].Curve = slices.Clip(c.Trials[i].Curve) // it only grows
	}
	return &c
}

// putSearches indexes the searches of a snapshot.
func (m *memory) putSearches() {
	for _, s := range m.Searches {
		m.searches[s.ID] = s
		for i := range s.Trials {
			m.putTrial(s, i)
		}
	}
}
