// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/sched"
)

var (
	_ api.Searches     = (*Store)(nil)
	_ api.SearchLedger = (*Store)(nil)
)

// keepSearches is how many ended searches are kept.
const keepSearches = 200

// MaxSearches bounds the open searches.
const MaxSearches = 1000

// CreateSearch implements api.Searches.
func (b *Store) CreateSearch(ctx context.Context, who api.Identity, s api.SearchSpec) (api.Search, error) {
	if err := who.Require(api.User); err != nil {
		return api.Search{}, err
	}
	if err := s.Trial.ExpandRun(); err != nil {
		return api.Search{}, err
	}
	s.Complete()
	if err := s.Validate(); err != nil {
		return api.Search{}, err
	}
	if b.CheckSearch != nil {
		if err := b.CheckSearch(s); err != nil {
			return api.Search{}, api.Errorf(api.Invalid, "the search cannot be run: %w", err)
		}
	}
	trial := s.Trial
	if err := b.complete(who, &trial); err != nil {
		return api.Search{}, err
	}
	s.Trial.Tenant = trial.Tenant
	if err := b.resolve(&who.Owner); err != nil {
		return api.Search{}, err
	}
	id := appID(trial.Tenant, s.ID)
	trials := []api.Submission{s.Trial}
	decided, err := b.keepSecrets(trials)
	defer decided()
	if err != nil {
		return api.Search{}, err
	}
	s.Trial = trials[0]
	err = b.commit(ctx, func(t *tx) error {
		if known := t.mem.searches[id]; known != nil && s.Key != "" && known.Spec.Key == s.Key {
			return nil // asked twice
		}
		if err := t.mem.roomFor(who, id); err != nil {
			return err
		}
		as := who
		as.Role = api.User // as its trials are submitted
		if _, err := t.judge(as, &trial); err != nil {
			return err
		}
		t.actor = who.User
		owner := who.Owner
		return t.add(api.Record{Search: &api.SearchRecord{ID: id, Tenant: trial.Tenant, Spec: &s, Owner: &owner}})
	})
	if err != nil {
		return api.Search{}, err
	}
	return b.Search(who, id)
}

// roomFor refuses searches beyond the limit, and names that were used before: the keys
// of trials depend on them.
func (m *memory) roomFor(who api.Identity, id sched.AppID) error {
	open := api.Taken{User: 1, Tenant: 1, All: 1}
	for _, s := range m.Searches {
		if s.Over() {
			continue
		}
		open.All++
		if s.Tenant == who.Tenant {
			open.Tenant++
			if s.User == who.User {
				open.User++
			}
		}
	}
	if err := (api.Bound{What: "open searches", Most: MaxSearches}).Admit(who, open); err != nil {
		return err
	}
	taken := m.searches[id] != nil
	for _, x := range m.jobs {
		taken = taken || x.Job.App == id
	}
	if taken {
		return api.Errorf(api.Conflict, "app %q already exists", id).On("id").Try("choose another name")
	}
	return nil
}

// Search implements api.Searches.
func (b *Store) Search(who api.Identity, id sched.AppID) (api.Search, error) {
	return durably(b, func() (api.Search, error) {
		for _, name := range []sched.AppID{id, appID(who.Tenant, id)} {
			if s := b.mem.searches[name]; s != nil && who.Sees(s.Tenant) {
				return b.searchView(s, true), nil
			}
		}
		return api.Search{}, api.Errorf(api.Unknown, "no search %q", id).Try("list the apps with `fairway app list`")
	})
}

// Searches implements api.Searches.
func (b *Store) Searches(who api.Identity) ([]api.Search, error) {
	return durably(b, func() ([]api.Search, error) {
		out := []api.Search{}
		for _, s := range slices.Backward(b.mem.Searches) {
			if who.Sees(s.Tenant) {
				out = append(out, b.searchView(s, false))
			}
		}
		return out, nil
	})
}

// OpenSearches implements api.SearchLedger. While the journal does not answer there are
// none, so that nothing is done about them.
func (b *Store) OpenSearches() []api.OpenSearch {
	out, _ := durably(b, func() (out []api.OpenSearch, _ error) {
		for _, s := range b.mem.Searches {
			if !s.Over() {
				app, _ := b.mem.state.Peek().App(s.ID)
				out = append(out, api.OpenSearch{Search: b.searchView(s, true), Owner: s.Owner, Stages: app.Stages})
			}
		}
		return out, nil
	})
	return out
}

// Searched implements api.SearchLedger.
func (b *Store) Searched() <-chan struct{} { return b.searched }

// NoteSearch implements api.SearchLedger.
func (b *Store) NoteSearch(ctx context.Context, r api.SearchRecord) error {
	return b.commit(ctx, func(t *tx) error {
		s := t.mem.searches[r.ID]
		switch {
		case s == nil || s.Over():
			return api.Errorf(api.Conflict, "search %s is over", r.ID)
		case r.Spec != nil || r.Command != "":
			return api.Errorf(api.Invalid, "a note cannot create or command a search")
		case len(r.Propose) > 0 && (s.PausedBy != "" || r.Propose[0].Number != len(s.Trials)):
			return api.Errorf(api.Conflict, "search %s has %d trials (paused by %q)", r.ID, len(s.Trials), s.PausedBy)
		}
		for i, p := range r.Propose {
			if p.Number != r.Propose[0].Number+i {
				return api.Errorf(api.Invalid, "trial %d does not follow", p.Number).On("propose")
			}
		}
		r.Tenant = s.Tenant
		t.actor = api.SearchActor(s.ID)
		return t.add(api.Record{Search: &r, Text: noteText(&r)})
	})
}

// NoteStages implements api.SearchLedger.
func (b *Store) NoteStages(ctx context.Context, id sched.AppID, stages []api.Stage) error {
	return b.commit(ctx, func(t *tx) error {
		s := t.mem.searches[id]
		if _, active := t.mem.state.Peek().App(id); !active || s == nil || s.Over() {
			return nil
		}
		t.actor = api.SearchActor(id)
		return t.add(api.Record{
			Search: &api.SearchRecord{ID: id, Tenant: s.Tenant}, // whose tenant may see it
			Event:  &sched.Event{At: t.now, Kind: sched.AppStaged, App: id, Stages: stages},
		})
	})
}

// noteText describes a step of a search.
func noteText(r *api.SearchRecord) string {
	var parts []string
	for _, p := range r.Propose {
		parts = append(parts, fmt.Sprintf("try trial %d", p.Number))
	}
	for _, p := range r.Promote {
		parts = append(parts, fmt.Sprintf("continue trial %d", p.Trial))
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
// has no open search.
func (t *tx) commandSearch(who api.Identity, app sched.AppID, c api.Command) (found bool, err error) {
	s := t.mem.searches[app]
	if s == nil || !who.Sees(s.Tenant) {
		s = t.mem.searches[appID(who.Tenant, app)]
	}
	if s == nil || !who.Sees(s.Tenant) || s.Over() {
		return false, nil
	}
	if err := who.Require(api.User); err != nil {
		return true, err
	}
	r := api.SearchRecord{ID: s.ID, Tenant: s.Tenant}
	text := string(c) + "d by " + who.User
	switch {
	case c == api.Cancel:
		text = "cancelled by " + who.User
		r.State, r.Why = api.Cancelled, text
	case (c == api.Pause) == (s.PausedBy != ""):
		return true, nil
	default:
		r.Command = c
	}
	t.actor = who.User
	return true, t.add(api.Record{Search: &r, Text: text})
}

// searchView returns a search for the API.
func (b *Store) searchView(s *searchEntry, curves bool) api.Search {
	v := s.Search
	v.Trials = slices.Clone(s.Trials)
	for i := range v.Trials {
		t := &v.Trials[i]
		if x := b.mem.jobs[t.Job]; x != nil && t.Job != "" && !x.Job.Phase.Ended() {
			t.State = b.stateOf(x)
			t.Held = x.PausedBy == api.SearchActor(s.ID)
		}
		t.Curve = slices.Clip(t.Curve) // it only grows: what is there can be shared
		if !curves {
			t.Curve = nil
		}
	}
	if s.PausedBy != "" {
		v.State = api.SearchPaused
	}
	v.Best = s.best()
	return v
}

// best returns the number of the trial with the best reading; failed and cancelled
// trials do not count.
func (s *searchEntry) best() *int {
	var best *int
	for i := range s.Trials {
		t := &s.Trials[i]
		if t.Value == nil || t.State == api.Failed || t.State == api.Cancelled && !t.Early {
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
