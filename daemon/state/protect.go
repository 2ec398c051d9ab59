// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"time"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/sched"
)

// protect decides whether a new job keeps its GPUs until it has shown that it can
// save its work, and returns what jobs of its kind have proved already. What the
// request itself says about it does not count.
func (t *tx) protect(s *api.Submission) sched.Ability {
	asked := s.Preemptible != nil || s.NonPreemptible
	s.Protected = s.NonPreemptible || !asked && !t.mem.tenant(s.Tenant).Preemptible
	if x := t.mem.tested[kindOf(&s.Spec, &s.Task)]; x != nil && s.Protected {
		return x.Resumed
	}
	return sched.Unproven
}

// tenant returns a tenant; one that nobody declared has no settings.
func (m *memory) tenant(id sched.TenantID) sched.Tenant {
	for _, t := range m.state.Peek().Tenants {
		if t.ID == id {
			return t
		}
	}
	return sched.Tenant{ID: id}
}

// kind is what jobs have in common that can do the same when asked to make room.
type kind struct {
	tenant                          sched.TenantID
	user, model, script, dir, image string
}

func kindOf(s *sched.Spec, t *api.Task) kind {
	k := kind{tenant: s.Tenant, user: s.User, model: s.Model, dir: t.Dir, image: t.Image}
	if len(t.Command) > 0 {
		k.script = scriptOf(t.Command)
	}
	return k
}

// test keeps an ended job if it tells what its kind can do: because it resumed from
// a checkpoint, or because it ran for long enough without an agent. The last one
// counts, because scripts change.
func (m *memory) test(x *entry) {
	const enough = time.Minute
	if x.Resumed != sched.Unproven || x.Shown == sched.Unproven && x.Job.Ran.D() >= enough {
		m.tested[kindOf(&x.Job.Spec, &x.Task)] = x
	}
}

// untest forgets an ended job.
func (m *memory) untest(x *entry) {
	if k := kindOf(&x.Job.Spec, &x.Task); m.tested[k] == x {
		delete(m.tested, k)
	}
}
