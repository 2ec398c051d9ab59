// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package book

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/fairway-gpu/fairway/live"
	"github.com/fairway-gpu/fairway/sched"
)

var (
	_ live.Searches     = (*Book)(nil)
	_ live.SearchLedger = (*Book)(nil)
)

// keepSearches is how many searches that have ended are remembered.
const keepSearches = 200

// MaxSearches bounds the searches that go on at a time.
const MaxSearches = 1000

// CreateSearch implements live.Searches.
func (b *Book) CreateSearch(ctx context.Context, who live.Identity, s live.SearchSpec) (live.Search, error) {
	if who.Role < live.User {
		return live.Search{}, live.Errorf(live.Denied, "%s has the role %s", who.User, who.Role).Try("ask for a token with the role user")
	}
	s.Complete()
	if err := s.Validate(); err != nil {
		return live.Search{}, err
	}
	if b.CheckSearch != nil {
		if err := b.CheckSearch(s); err != nil {
			return live.Search{}, live.Errorf(live.Invalid, "the search cannot be run: %w", err)
		}
	}
	trial := s.Trial
	if err := b.complete(who, &trial); err != nil {
		return live.Search{}, err
	}
	s.Trial.Tenant = trial.Tenant
	if err := b.resolve(&who.Owner); err != nil {
		return live.Search{}, err
	}
	id := appID(trial.Tenant, s.ID)
	err := b.commit(ctx, func(t *tx) error {
		if known := t.mem.searches[id]; known != nil && s.Key != "" && known.Spec.Key == s.Key {
			return nil // asked twice
		}
		if err := t.mem.roomFor(id); err != nil {
			return err
		}
		t.actor = who.User
		owner := who.Owner
		return t.add(live.Record{Search: &live.SearchRecord{ID: id, Tenant: trial.Tenant, Spec: &s, Owner: &owner}})
	})
	if err != nil {
		return live.Search{}, err
	}
	return b.Search(who, id)
}

// roomFor refuses names that were used: the keys of trials hang on them.
func (m *memory) roomFor(id sched.AppID) error {
	open := 0
	for _, s := range m.Searches {
		if !s.Over() {
			open++
		}
	}
	if open >= MaxSearches {
		return live.Errorf(live.TooMany, "%d searches go on already", open).Try("try again when some have ended")
	}
	taken := m.searches[id] != nil
	for _, x := range m.jobs {
		taken = taken || x.Job.App == id
	}
	if taken {
		return live.Errorf(live.Conflict, "there is an app %q already", id).On("id").Try("choose another name")
	}
	return nil
}

// Search implements live.Searches.
func (b *Book) Search(who live.Identity, id sched.AppID) (live.Search, error) {
	b.mu.RLock()
	defer b.mu.RUnlock()
	for _, name := range []sched.AppID{id, appID(who.Tenant, id)} {
		if s := b.mem.searches[name]; s != nil && who.Sees(s.Tenant) {
			return b.searchView(s, true), nil
		}
	}
	return live.Search{}, live.Errorf(live.Unknown, "no search %q", id).Try("list the apps with `fairway app list`")
}

// Searches implements live.Searches.
func (b *Book) Searches(who live.Identity) ([]live.Search, error) {
	b.mu.RLock()
	defer b.mu.RUnlock()
	out := []live.Search{}
	for _, s := range slices.Backward(b.mem.Searches) {
		if who.Sees(s.Tenant) {
			out = append(out, b.searchView(s, false))
		}
	}
	return out, nil
}

// OpenSearches implements live.SearchLedger.
func (b *Book) OpenSearches() []live.OpenSearch {
	b.mu.RLock()
	defer b.mu.RUnlock()
	var out []live.OpenSearch
	for _, s := range b.mem.Searches {
		if !s.Over() {
			out = append(out, live.OpenSearch{Search: b.searchView(s, true), Owner: s.Owner})
		}
	}
	return out
}

// Searched implements live.SearchLedger.
func (b *Book) Searched() <-chan struct{} { return b.searched }

// NoteSearch implements live.SearchLedger.
func (b *Book) NoteSearch(ctx context.Context, r live.SearchRecord) error {
	return b.commit(ctx, func(t *tx) error {
		s := t.mem.searches[r.ID]
		switch {
		case s == nil || s.Over():
			return live.Errorf(live.Conflict, "search %s goes on no longer", r.ID)
		case r.Spec != nil || r.Command != "":
			return live.Errorf(live.Invalid, "a note creates no search and commands none")
		case len(r.Propose) > 0 && (s.PausedBy != "" || r.Propose[0].Number != len(s.Trials)):
			return live.Errorf(live.Conflict, "search %s has %d trials (paused by %q)", r.ID, len(s.Trials), s.PausedBy)
		}
		for i, p := range r.Propose {
			if p.Number != r.Propose[0].Number+i {
				return live.Errorf(live.Invalid, "trial %d does not follow", p.Number).On("propose")
			}
		}
		r.Tenant = s.Tenant
		t.actor = live.SearchActor(s.ID)
		return t.add(live.Record{Search: &r, Text: noteText(&r)})
	})
}

// noteText says what a step of a search is about, for people.
func noteText(r *live.SearchRecord) string {
	var parts []string
	for _, p := range r.Propose {
		parts = append(parts, fmt.Sprintf("try trial %d", p.Number))
	}
	for _, p := range r.Promote {
		parts = append(parts, fmt.Sprintf("go on with trial %d", p.Trial))
	}
	for _, p := range r.Stop {
		parts = append(parts, fmt.Sprintf("stop trial %d: %s", p.Trial, p.Why))
	}
	if r.State != "" {
		parts = append(parts, r.State+": "+r.Why)
	}
	const most = 8
	if len(parts) > most {
		parts = append(parts[:most], fmt.Sprintf("and %d more", len(parts)-most))
	}
	return strings.Join(parts, "; ")
}

// commandSearch applies a command for an app to its search; found is false if it
// has none that goes on.
func (t *tx) commandSearch(who live.Identity, app sched.AppID, c live.Command) (found bool, err error) {
	s := t.mem.searches[app]
	if s == nil || !who.Sees(s.Tenant) {
		s = t.mem.searches[appID(who.Tenant, app)]
	}
	switch {
	case s == nil || !who.Sees(s.Tenant) || s.Over():
		return false, nil
	case who.Role < live.User:
		return true, live.Errorf(live.Denied, "%s has the role %s", who.User, who.Role).Try("ask for a token with the role user")
	}
	r := live.SearchRecord{ID: s.ID, Tenant: s.Tenant}
	text := string(c) + "d by " + who.User
	switch {
	case c == live.Cancel:
		text = "cancelled by " + who.User
		r.State, r.Why = live.Killed, text
	case (c == live.Pause) == (s.PausedBy != ""):
		return true, nil
	default:
		r.Command = c
	}
	t.actor = who.User
	return true, t.add(live.Record{Search: &r, Text: text})
}

// searchView returns a search as people see it.
func (b *Book) searchView(s *searchEntry, curves bool) live.Search {
	v := s.Search
	v.Trials = slices.Clone(s.Trials)
	for i := range v.Trials {
		t := &v.Trials[i]
		if x := b.mem.jobs[t.Job]; x != nil && t.Job != "" && !x.Job.Phase.Ended() {
			t.State = b.stateOf(x)
			t.Held = x.PausedBy == live.SearchActor(s.ID)
		}
		t.Curve = slices.Clip(t.Curve) // it only grows: what is there can be shared
		if !curves {
			t.Curve = nil
		}
	}
	if s.PausedBy != "" {
		v.State = live.SearchPaused
	}
	v.Best = s.best()
	return v
}

// best returns the number of the trial with the best reading; those that failed
// or were cancelled do not count.
func (s *searchEntry) best() *int {
	var best *int
	for i := range s.Trials {
		t := &s.Trials[i]
		if t.Value == nil || t.State == live.Failed || t.State == live.Killed && !t.Early {
			continue
		}
		if best == nil || s.better(*t.Value, *s.Trials[*best].Value) {
			best = &t.Number
		}
	}
	if best == nil {
		return nil
	}
	n := *best
	return &n
}

func (s *searchEntry) better(a, b float64) bool {
	if s.Spec.Metric.Maximises() {
		a, b = b, a
	}
	return cmp.Less(a, b)
}
