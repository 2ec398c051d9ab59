// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"fmt"
	"slices"
	"strings"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/sched"
)

// named is what an id or a name stands for: a job, or an array of jobs.
type named struct {
	job   *entry // nil: an array
	array *array
}

func (n named) id() string {
	if n.job != nil {
		return string(n.job.Job.ID)
	}
	return n.array.id
}

// newest returns the last job of it.
func (n named) newest() *entry {
	if n.job != nil {
		return n.job
	}
	return n.array.members[len(n.array.members)-1]
}

func (n named) ended() bool {
	if n.job != nil {
		return n.job.Job.Phase.Ended()
	}
	return n.array.open == 0
}

// refer finds what an id or a name stands for, among what the identity may see. A name
// stands for the only job or array that has it or, if several had it, for the only one
// that has not ended.
func (m *memory) refer(who api.Identity, id sched.JobID) (named, *api.Error) {
	if x := m.jobs[id]; x != nil && who.Sees(x.Job.Tenant) {
		return named{job: x}, nil
	}
	if a := m.arrays[string(id)]; a != nil && who.Sees(a.members[0].Job.Tenant) {
		return named{array: a}, nil
	}
	all := m.called(who, string(id))
	open := slices.DeleteFunc(slices.Clone(all), named.ended)
	switch {
	case len(open) == 1:
		return open[0], nil
	case len(all) == 1:
		return all[0], nil
	case len(all) == 0:
		return named{}, api.Errorf(api.Unknown, "no job %q", id).Try("list the jobs with `fairway ps --all`")
	}
	const most = 8
	var ids []string
	for _, n := range all[:min(len(all), most)] {
		ids = append(ids, fmt.Sprintf("%s (%s)", n.id(), spoken(n.newest().Job.Phase)))
	}
	if len(all) > most {
		ids = append(ids, fmt.Sprintf("%d more", len(all)-most))
	}
	return named{}, api.Errorf(api.Conflict, "%d jobs are named %q", len(all), id).Try("use an id, newest first: " + strings.Join(ids, ", "))
}

// spoken is a phase in the words of people.
func spoken(p sched.Phase) string {
	switch p {
	case sched.Pending:
		return api.Waiting
	case sched.Cancelled:
		return api.NoticeCancelled
	}
	return p.String()
}

// called returns the jobs and arrays of a name, newest first.
func (m *memory) called(who api.Identity, name string) (out []named) {
	if name == "" {
		return nil
	}
	for _, x := range m.jobs {
		if x.Task.Name != name || !who.Sees(x.Job.Tenant) {
			continue
		}
		if a := m.arrayOf(x); a == nil {
			out = append(out, named{job: x})
		} else if a.members[0] == x {
			out = append(out, named{array: a})
		}
	}
	slices.SortFunc(out, func(a, c named) int { return comparePlaces(c.newest(), a.newest()) })
	return out
}

// find returns a job that the identity may see, by its id or its name.
func (m *memory) find(who api.Identity, id sched.JobID) (*entry, error) {
	n, err := m.refer(who, id)
	switch {
	case err != nil:
		return nil, err
	case n.job == nil:
		return nil, api.Errorf(api.Conflict, "%s is an array of %d jobs", n.id(), len(n.array.members)).
			Try(fmt.Sprintf("name one of them, such as %s", n.array.members[0].Job.ID))
	}
	return n.job, nil
}

// idOf returns the id of the job that a text stands for, for a forecast: of an array, the
// job that stands for it. A text that stands for none is returned as it is.
func (b *Store) idOf(who api.Identity, id sched.JobID) sched.JobID {
	b.mu.RLock()
	defer b.mu.RUnlock()
	n, err := b.mem.refer(who, id)
	switch {
	case err != nil:
		return id
	case n.array != nil:
		x, _ := b.speaker(n.array)
		return x.Job.ID
	}
	return n.job.Job.ID
}
