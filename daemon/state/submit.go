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
	return b.jobs(who, ids)
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
	if s.Image != "" && b.NoContainers != "" {
		return api.Errorf(api.Invalid, "%.200q cannot be run here: %s", s.Image, b.NoContainers).On("image").
			Try("install podman (or apptainer, or docker) on this machine and restart the daemon, or leave the image out")
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

// isApp reports whether a name stands for an app: it is its id, or its id without the
// tenant.
func isApp(id sched.AppID, t sched.TenantID, name sched.AppID) bool {
	return id == name || id == appID(t, name)
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
		if s.MovedFrom != "" {
			if err := t.command(who, s.ID, api.Pause); err != nil {
				return err
			}
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
		r.Event = &sched.Event{Kind: sched.JobSubmitted, Spec: &s.Spec, Can: can, Perf: t.mem.planned(&s.Task, &s.Spec)}
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
