// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package sched

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"
)

// Saved is a State as data: what a driver keeps in place of the events that led
// to it. It shares no memory with the State that changes.
type Saved struct {
	Now           time.Time     `json:"now"`
	Nodes         []Node        `json:"nodes"`
	Tenants       []Tenant      `json:"tenants,omitempty"`
	Jobs          []Job         `json:"jobs,omitempty"` // pending and running, in order of submission
	Apps          []App         `json:"apps,omitempty"` // of these jobs, by ID
	Seq           int64         `json:"seq"`            // of the next job
	ActiveApps    float64       `json:"active_apps"`
	Announcements Announcements `json:"announcements,omitzero"`
}

// Save returns the state as data.
func (st *State) Save() Saved {
	s := Saved{
		Now: st.now, Nodes: st.cluster.Nodes, Tenants: st.tenants, Jobs: make([]Job, len(st.jobs)),
		Seq: st.seq, ActiveApps: st.activeApps, Announcements: st.announcements,
	}
	for i, j := range st.jobs {
		s.Jobs[i] = *j
	}
	for _, id := range slices.Sorted(maps.Keys(st.apps)) {
		s.Apps = append(s.Apps, *st.apps[id])
	}
	return s
}

// Restore returns the state that was saved.
func Restore(s Saved) (*State, error) {
	cluster, err := NewCluster(s.Nodes)
	if err != nil {
		return nil, fmt.Errorf("restore: %w", err)
	}
	st := NewState(cluster)
	st.now, st.seq, st.activeApps, st.announcements = s.Now, s.Seq, s.ActiveApps, s.Announcements
	for _, t := range s.Tenants {
		if err := st.setTenant(Event{Tenant: &t}); err != nil {
			return nil, fmt.Errorf("restore: %w", err)
		}
	}
	for _, a := range s.Apps {
		st.apps[a.ID] = &a
	}
	slices.SortFunc(s.Jobs, func(a, b Job) int { return cmp.Compare(a.Seq, b.Seq) })
	active := map[AppID]int{}
	for _, j := range s.Jobs {
		switch {
		case j.Phase.Ended():
			return nil, fmt.Errorf("restore: job %s is %s; want pending or running", j.ID, j.Phase)
		case st.byID[j.ID] != nil || j.Seq >= s.Seq:
			return nil, fmt.Errorf("restore: job %s, number %d, is there twice or numbered beyond %d", j.ID, j.Seq, s.Seq)
		}
		for _, held := range j.Placement {
			if int(held.Node) >= len(cluster.Nodes) || held.Node < 0 {
				return nil, fmt.Errorf("restore: job %s holds GPUs of node %d; there are %d nodes", j.ID, held.Node, len(cluster.Nodes))
			}
		}
		st.assign(&j)
		st.byID[j.ID] = &j
		st.jobs = append(st.jobs, &j)
		active[j.App]++
	}
	for id, a := range st.apps {
		if a.Active != active[id] {
			return nil, fmt.Errorf("restore: app %s has %d active jobs; %d of them are there", id, a.Active, active[id])
		}
		delete(active, id)
	}
	if len(active) > 0 {
		return nil, fmt.Errorf("restore: %d jobs belong to apps that were not saved", len(active))
	}
	return st, nil
}

// State returns a state that goes on from the snapshot and shares nothing with it
// that changes.
func (s *Snapshot) State() *State {
	st := NewState(s.Cluster)
	st.now, st.activeApps, st.tenants, st.tree, st.outages, st.announcements = s.Now, s.ActiveApps, s.Tenants, s.tree, s.Outages, s.Announcements
	for i, t := range s.Tenants {
		st.byTen[t.ID] = i
	}
	for _, j := range s.Jobs {
		c := *j
		st.byID[c.ID], st.jobs = &c, append(st.jobs, &c)
		st.seq = max(st.seq, c.Seq+1)
		a, ok := st.apps[c.App]
		if !ok {
			a = &App{ID: c.App, Tenant: c.Tenant, Submitted: s.Now, ActiveApps: s.ActiveApps}
			if known, ok := s.apps[c.App]; ok {
				*a = *known
				a.Active = 0
			}
			st.apps[c.App] = a
		}
		a.Active++
	}
	slices.SortFunc(st.jobs, func(a, b *Job) int { return cmp.Compare(a.Seq, b.Seq) })
	return st
}

// Peek returns the world when the last job came or ended, for those who do not ask
// how time passes.
func (st *State) Peek() *Snapshot { return st.Snapshot(st.now) }

// Frozen returns the world at now as a copy: it stays as it is while the state
// goes on. What a Job points to is never changed in place, so a shallow copy
// of each is enough.
func (st *State) Frozen(now time.Time) *Snapshot {
	s := st.Snapshot(now)
	jobs := make([]Job, len(s.Jobs))
	s.Jobs = make([]*Job, len(jobs))
	for i, j := range st.jobs {
		jobs[i] = *j
		s.Jobs[i] = &jobs[i]
	}
	apps := make([]App, 0, len(st.apps))
	s.apps = make(map[AppID]*App, len(st.apps))
	for id, a := range st.apps {
		apps = append(apps, *a)
		s.apps[id] = &apps[len(apps)-1]
	}
	return s
}
