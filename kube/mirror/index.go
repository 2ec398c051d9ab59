// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package mirror

import (
	"sync"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/daemon/state"
	"github.com/fairway-gpu/fairway/sched"
)

// index finds the state's jobs by the objects they were made from. It is a cache of the
// state: filled at the start, updated by records, and refreshed by every sweep.
type index struct {
	mu       sync.Mutex
	byKey    map[string]sched.JobID   // by the key of the submission: the object's UID
	jobs     map[string][]sched.JobID // of each origin, ended ones too
	active   map[string]map[sched.JobID]bool
	origins  map[sched.JobID]string
	keys     map[sched.JobID]string
	tenants  map[sched.JobID]sched.TenantID
	searches map[sched.AppID]string // origin of each search
}

func newIndex() *index {
	return &index{byKey: map[string]sched.JobID{}, jobs: map[string][]sched.JobID{}, active: map[string]map[sched.JobID]bool{}, origins: map[sched.JobID]string{}, keys: map[sched.JobID]string{}, tenants: map[sched.JobID]sched.TenantID{}, searches: map[sched.AppID]string{}}
}

func (x *index) put(m state.Mirrored) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.origins[m.ID] != m.Origin {
		x.jobs[m.Origin] = append(x.jobs[m.Origin], m.ID)
	}
	x.origins[m.ID], x.keys[m.ID], x.tenants[m.ID] = m.Origin, m.Key, m.Tenant
	if m.Key != "" {
		x.byKey[m.Key] = m.ID
	}
	if m.Ended {
		delete(x.active[m.Origin], m.ID)
		return
	}
	if x.active[m.Origin] == nil {
		x.active[m.Origin] = map[sched.JobID]bool{}
	}
	x.active[m.Origin][m.ID] = true
}

// note applies a record and returns the origin to reconcile; empty: none.
func (x *index) note(r *api.Record) string {
	if r.Search != nil {
		x.mu.Lock()
		defer x.mu.Unlock()
		if r.Search.Spec != nil && r.Search.Spec.Trial.Origin != "" {
			x.searches[r.Search.ID] = r.Search.Spec.Trial.Origin
		}
		return x.searches[r.Search.ID]
	}
	if r.Accepted != nil && r.Task != nil && r.Task.Origin != "" {
		x.put(state.Mirrored{ID: r.Accepted.ID, Tenant: r.Accepted.Tenant, Origin: r.Task.Origin, Key: r.Key})
	}
	if r.Event != nil {
		switch r.Event.Kind {
		case sched.JobSubmitted:
			if r.Task == nil || r.Task.Origin == "" {
				return ""
			}
			x.put(state.Mirrored{ID: r.Event.Spec.ID, Tenant: r.Event.Spec.Tenant, Origin: r.Task.Origin, Key: r.Key})
		case sched.JobEnded:
			x.mu.Lock()
			delete(x.active[x.origins[r.Event.Job]], r.Event.Job)
			x.mu.Unlock()
		case sched.JobReported, sched.JobCheckpoint, sched.JobNoted:
			return "" // the next sweep picks up the change
		}
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.origins[r.Job()]
}

// job returns the job that was submitted under a key.
func (x *index) job(key string) (sched.JobID, bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	id, ok := x.byKey[key]
	return id, ok
}

// last returns the newest job of an origin; empty: it has none.
func (x *index) last(origin string) sched.JobID {
	x.mu.Lock()
	defer x.mu.Unlock()
	if jobs := x.jobs[origin]; len(jobs) > 0 {
		return jobs[len(jobs)-1]
	}
	return ""
}

func (x *index) originOf(id sched.JobID) string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.origins[id]
}

// tenantOf returns the tenant of a job; empty: it is not known.
func (x *index) tenantOf(id sched.JobID) sched.TenantID {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.tenants[id]
}

// isActive reports whether an origin has active jobs.
func (x *index) isActive(origin string) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return len(x.active[origin]) > 0
}

// others returns the active jobs of an origin, except one.
func (x *index) others(origin string, but sched.JobID) []sched.JobID {
	x.mu.Lock()
	defer x.mu.Unlock()
	var out []sched.JobID
	for id := range x.active[origin] {
		if id != but {
			out = append(out, id)
		}
	}
	return out
}

// forget drops an origin whose object is gone, if none of its jobs is active.
func (x *index) forget(origin string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if len(x.active[origin]) > 0 {
		return
	}
	delete(x.active, origin)
	for _, id := range x.jobs[origin] {
		delete(x.byKey, x.keys[id])
		delete(x.keys, id)
		delete(x.origins, id)
		delete(x.tenants, id)
	}
	delete(x.jobs, origin)
}

// activeOrigins returns the origins that have active jobs.
func (x *index) activeOrigins() []string {
	x.mu.Lock()
	defer x.mu.Unlock()
	out := make([]string, 0, len(x.active))
	for origin, jobs := range x.active {
		if len(jobs) > 0 {
			out = append(out, origin)
		}
	}
	return out
}

// end marks a job as ended.
func (x *index) end(id sched.JobID) {
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.active[x.origins[id]], id)
}
