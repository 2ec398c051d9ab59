// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"cmp"
	"slices"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/sched"
)

// Mirrored is a job that was made from an object outside Fairway.
type Mirrored struct {
	ID     sched.JobID
	Tenant sched.TenantID
	Origin string // see api.Task
	Key    string // it was submitted with
	Ended  bool

	Selector string // see sched.Spec
}

// Mirrored returns the jobs that have an origin, in order of submission, and the
// sequence number that the list is current to.
func (b *Store) Mirrored() (list []Mirrored, seq uint64) {
	b.mu.RLock()
	defer b.mu.RUnlock()
	entries := make([]*entry, 0, len(b.mem.jobs))
	for _, x := range b.mem.jobs {
		if x.Task.Origin != "" {
			entries = append(entries, x)
		}
	}
	slices.SortFunc(entries, func(a, c *entry) int { return cmp.Compare(a.Job.Seq, c.Job.Seq) })
	for _, x := range entries {
		list = append(list, Mirrored{ID: x.Job.ID, Tenant: x.Job.Tenant, Origin: x.Task.Origin, Key: x.Key, Ended: x.Job.Phase.Ended(), Selector: x.Job.Selector})
	}
	return list, b.mem.Seq
}

// WithOrigin returns the searches whose trials have an origin, newest first.
func (b *Store) WithOrigin(origin string) []api.Search {
	b.mu.RLock()
	defer b.mu.RUnlock()
	var out []api.Search
	for _, s := range slices.Backward(b.mem.Searches) {
		if s.Spec.Trial.Origin == origin {
			out = append(out, b.searchView(s, false))
		}
	}
	return out
}
