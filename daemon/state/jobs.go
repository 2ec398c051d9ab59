// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"cmp"
	"slices"
	"strings"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/sched"
)

// inOrder returns the active jobs in order of submission.
func (m *memory) inOrder() []*entry {
	s := m.state.Peek()
	out := make([]*entry, len(s.Jobs))
	for i, j := range s.Jobs {
		out[i] = m.jobs[j.ID]
	}
	return out
}

// Job implements api.Jobs.
func (b *Store) Job(who api.Identity, id sched.JobID) (api.Job, error) {
	b.look(b.idOf(who, id))
	return b.job(who, id)
}

// job is Job without a new forecast.
func (b *Store) job(who api.Identity, id sched.JobID) (api.Job, error) {
	out, err := b.jobs(who, []sched.JobID{id})
	if err != nil {
		return api.Job{}, err
	}
	return out[0], nil
}

// jobs returns many jobs as they are at one moment.
func (b *Store) jobs(who api.Identity, ids []sched.JobID) ([]api.Job, error) {
	return durably(b, func() ([]api.Job, error) {
		fair := b.fair()
		out := make([]api.Job, len(ids))
		for i, id := range ids {
			n, err := b.mem.refer(who, id)
			switch {
			case err != nil:
				return nil, err
			case n.array != nil:
				out[i] = b.fold(n.array, fair)
			default:
				out[i] = b.view(n.job, fair)
			}
		}
		return out, nil
	})
}

// List implements api.Jobs: newest first.
func (b *Store) List(who api.Identity, f api.JobFilter) (api.JobPage, error) {
	limit, err := api.PageSize(f.Limit)
	if err != nil {
		return api.JobPage{}, err
	}
	order, err := b.jobOrder(f.Sort)
	if err != nil {
		return api.JobPage{}, err
	}
	b.look("")
	return durably(b, func() (api.JobPage, error) { return b.page(who, f, order, limit) })
}

// page is List under the lock.
func (b *Store) page(who api.Identity, f api.JobFilter, order func(a, c *entry) int, limit int) (api.JobPage, error) {
	var from named
	if f.After != "" {
		var err *api.Error
		if from, err = b.mem.refer(who, f.After); err != nil {
			return api.JobPage{}, api.Errorf(api.Invalid, "no job %q", f.After).On("after").Try("start again without it")
		}
	}
	var match []*entry
	for _, x := range b.mem.jobs {
		if who.Sees(x.Job.Tenant) && b.selects(f, x) {
			match = append(match, x)
		}
	}
	slices.SortFunc(match, order)
	if f.Fold {
		match = b.mem.onePerArray(match)
	}
	after := from.job
	if from.array != nil {
		after = from.array.members[0]
		if i := slices.IndexFunc(match, func(x *entry) bool { return b.mem.arrayOf(x) == from.array }); i >= 0 {
			after = match[i]
		}
	}
	page := api.JobPage{Total: len(match), Jobs: []api.Job{}}
	fair := b.fair()
	for _, x := range match {
		a := b.mem.arrayOf(x)
		if after != nil && order(x, after) <= 0 {
			continue
		}
		if len(page.Jobs) == limit {
			page.Next = page.Jobs[limit-1].ID
			break
		}
		if f.Fold && a != nil {
			page.Jobs = append(page.Jobs, b.fold(a, fair))
			continue
		}
		page.Jobs = append(page.Jobs, b.view(x, fair))
	}
	return page, nil
}

func (b *Store) selects(f api.JobFilter, x *entry) bool {
	switch {
	case f.Tenant != "" && x.Job.Tenant != f.Tenant:
	case f.App != "" && !isApp(x.Job.App, x.Job.Tenant, f.App):
	case f.User != "" && x.Job.User != f.User:
	case f.Search != "" && !strings.Contains(string(x.Job.ID), f.Search) && !strings.Contains(x.Task.Name, f.Search):
	case len(f.States) > 0 && !slices.Contains(f.States, b.stateOf(x)):
	default:
		return true
	}
	return false
}

// Points implements api.Jobs.
func (b *Store) Points(who api.Identity, id sched.JobID) ([]api.Point, error) {
	return durably(b, func() ([]api.Point, error) {
		x, err := b.mem.find(who, id)
		if err != nil {
			return nil, err
		}
		return slices.Clone(x.Points), nil
	})
}

// Apps implements api.Jobs: apps with active or recently ended jobs, newest first.
func (b *Store) Apps(who api.Identity) ([]api.AppView, error) {
	return durably(b, func() ([]api.AppView, error) { return b.apps(who), nil })
}

func (b *Store) apps(who api.Identity) []api.AppView {
	apps := map[sched.AppID]*api.AppView{}
	fair := b.fair()
	for _, x := range b.mem.jobs {
		j := x.Job
		if !who.Sees(j.Tenant) {
			continue
		}
		a := apps[j.App]
		if a == nil {
			a = &api.AppView{ID: j.App, Tenant: j.Tenant, Submitted: j.Submitted, Rho: fair.rho(j.App)}
			apps[j.App] = a
		}
		if j.Submitted.Before(a.Submitted) {
			a.Submitted = j.Submitted
		}
		a.Jobs++
		switch j.Phase {
		case sched.Pending:
			a.Waiting++
		case sched.Running:
			a.Running++
			a.GPUs += j.Placement.GPUs()
		case sched.Finished:
			a.Finished++
		case sched.Failed:
			a.Failed++
		case sched.Cancelled:
			a.Killed++
		}
	}
	out := make([]api.AppView, 0, len(apps))
	for _, a := range apps {
		out = append(out, *a)
	}
	slices.SortFunc(out, func(a, c api.AppView) int {
		return cmp.Or(c.Submitted.Compare(a.Submitted), cmp.Compare(a.ID, c.ID))
	})
	return out
}
