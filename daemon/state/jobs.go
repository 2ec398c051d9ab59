// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/sched"
)

// Submit implements api.Jobs.
func (b *Store) Submit(ctx context.Context, who api.Identity, list []api.Submission) ([]api.Job, error) {
	if err := api.MaySubmit(who, len(list)); err != nil {
		return nil, err
	}
	list = slices.Clone(list) // what is filled in is not the caller's
	for i := range list {
		if err := b.complete(who, &list[i]); err != nil {
			return nil, api.InList(err, i, len(list))
		}
	}
	list, err := expand(who, list)
	if err != nil {
		return nil, err
	}
	if err := b.resolve(&who.Owner); err != nil {
		return nil, err
	}
	decided, err := b.keepSecrets(list)
	defer decided()
	if err != nil {
		return nil, err
	}
	ids := make([]sched.JobID, len(list))
	if err := b.commit(ctx, func(t *tx) error { return t.submit(who, list, ids) }); err != nil {
		return nil, err
	}
	out := make([]api.Job, len(ids))
	for i, id := range ids {
		if out[i], err = b.job(who, id); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// expand makes one job for each number of an array.
func expand(who api.Identity, list []api.Submission) ([]api.Submission, error) {
	var out []api.Submission
	for i := range list {
		jobs, err := list[i].Expand()
		if err != nil {
			return nil, api.InList(err, i, len(list))
		}
		out = append(out, jobs...)
	}
	return out, api.MaySubmit(who, len(out))
}

// resolve finds the numeric id of an operating-system user given by name.
func (b *Store) resolve(o *api.Owner) error {
	if o.UID >= 0 {
		return nil
	}
	if o.Name == "" {
		if b.OwnersOnly {
			return api.Errorf(api.Denied, "the token is not tied to a user of this machine, and the daemon runs as root").Try("create a token with --run-as")
		}
		return nil
	}
	if b.Lookup == nil {
		return api.Errorf(api.Denied, "this daemon cannot run jobs as user %q", o.Name)
	}
	found, err := b.Lookup(o.Name)
	if err != nil {
		return api.Errorf(api.Conflict, "find user %q: %w", o.Name, err).Try("create the user, or create a token with another run_as")
	}
	*o = found
	return nil
}

// complete fills in the daemon's defaults and checks the rest.
func (b *Store) complete(who api.Identity, s *api.Submission) error {
	switch {
	case s.Tenant == "":
		s.Tenant = who.Tenant
	case s.Tenant != who.Tenant && who.Role != api.Admin:
		return api.Errorf(api.Denied, "%s may not submit for tenant %q", who.User, s.Tenant).On("tenant")
	}
	if strings.ContainsAny(string(s.App), "/\n") || len(s.App) > 100 {
		return api.Errorf(api.Invalid, "%.40q contains a slash or is longer than 100 bytes", s.App).On("app").Try("use a short word")
	}
	if s.App != "" {
		s.App = appID(s.Tenant, s.App)
	}
	if s.User == "" || who.Role != api.Admin {
		s.User = who.User
	}
	s.Submitted = time.Time{}
	if err := s.Complete(); err != nil {
		return err
	}
	for _, target := range s.Notify {
		if b.CheckNotify == nil {
			return api.Errorf(api.Invalid, "is not supported here").On("notify").Try("leave it out")
		}
		if err := b.CheckNotify(target); err != nil {
			return err
		}
	}
	return nil
}

// appID keeps apps of different tenants apart: fairness is between apps, so two
// tenants that choose the same name must not share one.
func appID(t sched.TenantID, app sched.AppID) sched.AppID {
	if t == "" || t == DefaultTenant {
		return app
	}
	return sched.AppID(t) + "/" + app
}

// DefaultTenant is the tenant of users without another.
const DefaultTenant sched.TenantID = "default"

func (t *tx) submit(who api.Identity, list []api.Submission, ids []sched.JobID) error {
	var more load
	for i := range list {
		if _, known := t.mem.keys[keyOf(list[i].Tenant, list[i].Key)]; !known || list[i].Key == "" {
			if err := t.mem.used.check(list[i].Tenant, list[i].Key); err != nil {
				return api.InList(err, i, len(list))
			}
			if err := t.mem.admits(list[i].Tenant, list[i].Key); err != nil {
				return err
			}
			more = more.plus(load{1, size(&list[i].Spec, &list[i].Task)})
		}
	}
	if more.jobs > 0 {
		if err := t.store.admit(who, more); err != nil {
			return err
		}
	}
	for i := range list {
		// A job without an app is its own app, named like the job: no one may join the
		// app of another tenant.
		if x := t.mem.jobs[sched.JobID(list[i].App)]; x != nil && x.Job.Tenant != list[i].Tenant {
			return api.InList(api.Errorf(api.Conflict, "%q is the name of a job", list[i].App).On("app").Try("choose another name"), i, len(list))
		}
	}
	can, wait, names := make([]sched.Ability, len(list)), make([]bool, len(list)), map[string]string{}
	for i := range list {
		if _, known := t.mem.keys[keyOf(list[i].Tenant, list[i].Key)]; known && list[i].Key != "" {
			continue
		}
		var err error
		if can[i], err = t.judge(who, &list[i]); err != nil {
			return api.InList(err, i, len(list))
		}
		if wait[i], err = t.depend(who, &list[i], names); err != nil {
			return api.InList(err, i, len(list))
		}
		names[list[i].Name] = "" // not known yet
	}
	t.actor = who.User
	group := arrayIDs{tx: t}
	for i := range list {
		s := list[i]
		if s.Key != "" {
			if id, ok := t.mem.keys[keyOf(s.Tenant, s.Key)]; ok {
				ids[i] = id
				group.found(&s, t.mem.jobs[id])
				continue
			}
		}
		group.name(&s)
		s.Submitted = t.now
		t.prepare(&s)
		s.DependsOn = withIDs(s.DependsOn, names)
		ids[i], names[s.Name] = s.ID, cmp.Or(group.id, string(s.ID))
		if err := t.enqueue(who, s, can[i], wait[i]); err != nil {
			return err
		}
		t.decides = true
	}
	return nil
}

// enqueue submits a job, or holds it if it has to wait for others.
func (t *tx) enqueue(who api.Identity, s api.Submission, can sched.Ability, wait bool) error {
	owner := who.Owner
	r := api.Record{Task: &s.Task, Owner: &owner, Key: s.Key}
	if wait || t.mem.atLimit(s.Member) {
		if s.App == "" {
			s.App = sched.AppID(s.ID)
		}
		r.Accepted = &s.Spec
	} else {
		r.Event = &sched.Event{Kind: sched.JobSubmitted, Spec: &s.Spec, Can: can}
	}
	return t.add(r)
}

// newID makes an ID that is easy to type: the job's name and a number.
func (t *tx) newID(name string) sched.JobID {
	var b strings.Builder
	for _, r := range strings.ToLower(name) {
		switch {
		case r >= 'a' && r <= 'z' || r >= '0' && r <= '9':
			b.WriteRune(r)
		case b.Len() > 0 && !strings.HasSuffix(b.String(), "-"):
			b.WriteByte('-')
		}
		if b.Len() >= 40 {
			break
		}
	}
	word := strings.Trim(b.String(), "-")
	if word == "" {
		word = "job"
	}
	return sched.JobID(fmt.Sprintf("%s-%d", word, t.mem.Count+1))
}

// Command implements api.Jobs.
func (b *Store) Command(ctx context.Context, who api.Identity, id sched.JobID, c api.Command) (api.Job, error) {
	err := b.commit(ctx, func(t *tx) error {
		n, err := t.mem.refer(who, id)
		if err != nil {
			return err
		}
		id = sched.JobID(n.id()) // the name may stand for another job afterwards
		return t.command(who, id, c)
	})
	if err != nil {
		return api.Job{}, err
	}
	return b.job(who, id)
}

func (t *tx) command(who api.Identity, id sched.JobID, c api.Command) error {
	n, err := t.mem.refer(who, id)
	if err != nil {
		return err
	}
	if err := who.Require(api.User); err != nil {
		return err
	}
	if n.array != nil {
		return t.commandArray(who, n.array, c)
	}
	return t.commandJob(who, n.job, c)
}

func (t *tx) commandJob(who api.Identity, x *entry, c api.Command) error {
	id := x.Job.ID
	if x.Job.Phase.Ended() {
		if c == api.Cancel && x.Job.Phase == sched.Cancelled {
			return nil // asked twice
		}
		return api.Errorf(api.Conflict, "job %s has already ended", id)
	}
	if x.Hold && c != api.Cancel {
		return api.Errorf(api.Conflict, "job %s does not queue yet: %s", id, t.mem.holds(x).Text).Try("cancel it, or wait")
	}
	t.actor, t.decides = who.User, true
	switch c {
	case api.Cancel:
		text := "cancelled by " + who.User
		if _, trial := t.mem.trialOf(x); trial != nil && trial.Early {
			text = "stopped early: " + trial.Why
		}
		if x.Hold {
			if err := t.submitHeld(x); err != nil {
				return err
			}
		}
		return t.event(sched.Event{Kind: sched.JobEnded, Job: id, Phase: sched.Cancelled, Text: text})
	case api.Pause:
		if x.PausedBy != "" {
			return nil
		}
		e := sched.Event{Kind: sched.JobHeld, Job: id, Paused: true, Suspend: x.Job.Suspends && x.Job.Phase == sched.Running, Text: "paused by " + who.User}
		if e.Suspend {
			e.Text += "; it is suspended in place and loses nothing"
		}
		return t.event(e)
	case api.Resume:
		if x.PausedBy == "" {
			return nil
		}
		return t.event(sched.Event{Kind: sched.JobHeld, Job: id, Until: t.now, Text: "resumed by " + who.User})
	}
	return api.Errorf(api.Invalid, "%.20q is not a command", c).On("command").Try("use cancel, pause or resume")
}

// CommandApp implements api.Jobs.
func (b *Store) CommandApp(ctx context.Context, who api.Identity, app sched.AppID, c api.Command) ([]api.Job, error) {
	var ids []sched.JobID
	err := b.commit(ctx, func(t *tx) error {
		found, err := t.commandSearch(who, app, c)
		if err != nil {
			return err
		}
		for _, x := range t.mem.inOrder() {
			if c == api.Resume && x.PausedBy == api.SearchActor(x.Job.App) {
				continue // it waits for other trials; only its search can tell
			}
			if (x.Job.App == app || x.Job.App == appID(who.Tenant, app)) && who.Sees(x.Job.Tenant) {
				ids = append(ids, x.Job.ID)
			}
		}
		for _, x := range t.mem.heldInOrder() {
			if c == api.Cancel && (x.Job.App == app || x.Job.App == appID(who.Tenant, app)) && who.Sees(x.Job.Tenant) {
				ids = append(ids, x.Job.ID)
			}
		}
		if len(ids) == 0 && !found {
			return api.Errorf(api.Unknown, "no app %q has jobs that wait or run", app)
		}
		for _, id := range ids {
			if err := t.command(who, id, c); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	out := make([]api.Job, len(ids))
	for i, id := range ids {
		if out[i], err = b.job(who, id); err != nil {
			return nil, err
		}
	}
	return out, nil
}

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
	return durably(b, func() (api.Job, error) {
		n, err := b.mem.refer(who, id)
		switch {
		case err != nil:
			return api.Job{}, err
		case n.array != nil:
			return b.fold(n.array, b.fair()), nil
		}
		return b.view(n.job, b.fair()), nil
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
	case f.App != "" && x.Job.App != f.App && x.Job.App != appID(x.Job.Tenant, f.App):
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
