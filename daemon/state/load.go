// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/sched"
)

// load is what jobs take of the daemon's memory.
type load struct{ jobs, bytes int64 }

// loads is the load of the jobs that wait or run, in all and by whose they are.
type loads struct {
	all     load
	tenants map[sched.TenantID]load
	users   map[tenantUser]load
}

// tenantUser is a user. The same name in two tenants may be two people.
type tenantUser struct {
	tenant sched.TenantID
	user   string
}

func newLoads() loads {
	return loads{tenants: map[sched.TenantID]load{}, users: map[tenantUser]load{}}
}

// size is how many bytes of memory a job takes, but for what all jobs take.
func size(s *sched.Spec, t *api.Task) int64 {
	n := len(t.Name) + len(t.Dir) + len(t.Image) + len(t.Graph) + len(s.Model) + 8*len(s.Sizes)
	for _, a := range t.Command {
		n += len(a) + 16
	}
	for k, v := range t.Env {
		n += len(k) + len(v) + 32
	}
	for _, g := range s.GPUTypes {
		n += len(g) + 16
	}
	for _, to := range t.Notify {
		n += len(to) + 16
	}
	for _, d := range t.DependsOn {
		n += len(d) + 64
	}
	return int64(n)
}

// add counts a job; with sign -1 it takes it back.
func (l *loads) add(x *entry, sign int64) {
	more := load{sign, sign * x.size()}
	l.all = l.all.plus(more)
	put(l.tenants, x.Job.Tenant, more)
	put(l.users, tenantUser{x.Job.Tenant, x.Job.User}, more)
}

func put[K comparable](m map[K]load, k K, more load) {
	if m[k] = m[k].plus(more); m[k] == (load{}) {
		delete(m, k)
	}
}

func (l load) plus(m load) load { return load{l.jobs + m.jobs, l.bytes + m.bytes} }

// admit refuses jobs that would take more than their submitter may have.
func (b *Store) admit(who api.Identity, more load) error {
	q := &b.mem.queued
	user, tenant, all := q.users[tenantUser{who.Tenant, who.User}].plus(more), q.tenants[who.Tenant].plus(more), q.all.plus(more)
	err := api.Bound{What: "jobs that wait or run", Most: int64(b.MaxQueue)}.Admit(who, api.Taken{User: user.jobs, Tenant: tenant.jobs, All: all.jobs})
	if err != nil {
		return err
	}
	return api.Bound{What: "bytes of jobs that wait or run", Most: b.MaxQueueBytes}.Admit(who, api.Taken{User: user.bytes, Tenant: tenant.bytes, All: all.bytes})
}
