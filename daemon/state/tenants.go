// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/place"
)

// Tenants implements api.Cluster: declared tenants and those with jobs.
func (b *Store) Tenants(who api.Identity) ([]api.TenantView, error) {
	return durably(b, func() ([]api.TenantView, error) { return b.tenants(who), nil })
}

func (b *Store) tenants(who api.Identity) []api.TenantView {
	views := map[sched.TenantID]*api.TenantView{}
	at := func(id sched.TenantID) *api.TenantView {
		if views[id] == nil {
			views[id] = &api.TenantView{Tenant: sched.Tenant{ID: id}, GPUTime: b.mem.GPUTime[id]}
		}
		return views[id]
	}
	s := b.mem.state.Peek()
	weight := map[sched.TenantID]float64{}
	for i, share := range s.Shares() {
		id := s.Tenants[i].ID
		at(id).Tenant, weight[id] = s.Tenants[i], share
		if s.Parent(i) >= 0 {
			at(id).Path, at(id).Standing = pathOf(s, i), standing(s, i)
		}
	}
	for id := range b.mem.GPUTime {
		at(id)
	}
	fair := b.fair()
	for _, j := range s.Jobs {
		v := at(j.Tenant)
		v.GPUTime += j.AttainedBy(fair.Now)
		if j.Phase == sched.Running {
			v.Running++
			v.GPUs += j.Placement.GPUs()
			if t, ok := s.Tenant(j); ok {
				for t = s.Parent(t); t >= 0; t = s.Parent(t) {
					at(s.Tenants[t].ID).Below += j.Placement.GPUs()
				}
			}
		} else {
			v.Waiting++
		}
		v.Rho = max(v.Rho, fair.rho(j.App))
	}
	for i, t := range s.Tenants {
		if own := s.Owned(i); own > 0 {
			at(t.ID).Borrowed = max(0, at(t.ID).GPUs+at(t.ID).Below-own)
		}
	}
	weights := 0.0
	for _, v := range views {
		if v.Running+v.Waiting > 0 {
			weights += cmp.Or(weight[v.ID], v.Tenant.Share())
		}
	}
	out := make([]api.TenantView, 0, len(views))
	for _, v := range views {
		if v.Running+v.Waiting > 0 {
			v.Share = float64(s.Cluster.GPUs()) * cmp.Or(weight[v.ID], v.Tenant.Share()) / weights
		}
		if who.Sees(v.ID) {
			out = append(out, *v)
		}
	}
	slices.SortFunc(out, func(a, c api.TenantView) int { return cmp.Compare(a.ID, c.ID) })
	return out
}

// pathOf returns the names of a tenant and those above it, the highest first.
func pathOf(s *sched.Snapshot, t int) string {
	path := string(s.Tenants[t].ID)
	for t = s.Parent(t); t >= 0; t = s.Parent(t) {
		path = string(s.Tenants[t].ID) + "/" + path
	}
	return path
}

// standing says what a tenant has of its parent's.
func standing(s *sched.Snapshot, t int) string {
	p := s.Parent(t)
	own, parent := s.Owned(t), s.Tenants[p].ID
	text := fmt.Sprintf("%s shares what %s has", pathOf(s, t), parent)
	switch of := s.Owned(p); {
	case own > 0:
		text = fmt.Sprintf("%s may have %d of %s's %d", pathOf(s, t), own, parent, of)
	case of > 0:
		text = fmt.Sprintf("%s shares what is left of %s's %d", pathOf(s, t), parent, of)
	}
	if most := s.Limit(t); most < sched.NoLimit && most != own {
		text += fmt.Sprintf(", and %d at most", most)
	}
	return text
}

// quotas returns what is left of the tenants' limits beside what their jobs hold.
func quotas(s *sched.Snapshot) place.Quota {
	quota := place.NewQuota(s)
	for _, j := range s.Jobs {
		quota.AddMilli(j, j.Placement.Milli())
	}
	return quota
}

// family says which tenant above its own keeps a job from running, if one does: its limit
// leaves less than that of the job's tenant.
func (m *memory) family(j *sched.Job) string {
	s := m.state.Peek()
	t, ok := s.Tenant(j)
	if !ok {
		return ""
	}
	if text := boundsHeld(s, t, j); text != "" {
		return text
	}
	if s.Parent(t) < 0 {
		return ""
	}
	quota := quotas(s)
	least, at := s.Tenants[t].Limit()-quota.Used(t), t
	for t = s.Parent(t); t >= 0; t = s.Parent(t) {
		if left := s.Tenants[t].Limit() - quota.Used(t); left < least {
			least, at = left, t
		}
	}
	if s.Tenants[at].ID == j.Tenant {
		return ""
	}
	return fmt.Sprintf("; %s, with all tenants below it, holds %d of the %d GPUs it may", s.Tenants[at].ID, quota.Used(at), s.Tenants[at].Limit())
}

// boundsHeld says which bounds that no policy counts a waiting job meets: by type of GPU, of CPUs
// or of memory.
func boundsHeld(s *sched.Snapshot, t int, j *sched.Job) (text string) {
	for ; t >= 0; t = s.Parent(t) {
		types, besides := map[sched.GPUType]int{}, map[sched.Beside]int64{}
		for _, o := range s.Jobs {
			for at, ok := s.Tenant(o); ok && at >= 0; at = s.Parent(at) {
				for _, slice := range o.Placement {
					if at != t {
						continue
					}
					types[s.Cluster.Nodes[slice.Node].Type] += slice.GPUs.Len()
					for _, x := range sched.Besides {
						besides[x] += int64(slice.GPUs.Len()) * x.Of(o)
					}
				}
			}
		}
		of := s.Tenants[t]
		for _, gpu := range slices.Sorted(maps.Keys(of.MaxByType)) {
			if j.Accepts(gpu) {
				text += fmt.Sprintf("; %s holds %d of the %d GPUs of type %s it may", of.ID, types[gpu], of.MaxByType[gpu], gpu)
			}
		}
		for _, x := range sched.Besides {
			if need := int64(j.NextSize(0)) * x.Of(j); x.Most(of) > 0 && besides[x]+need > x.Most(of) {
				text += fmt.Sprintf("; %s holds %s of the %s %s it may, and this job needs %s", of.ID, x.Amount(besides[x]), x.Amount(x.Most(of)), x, x.Amount(need))
			}
		}
	}
	return text
}

// compete reports whether two jobs count against the same limit.
func (m *memory) compete(a, b *sched.Job) bool {
	if a.Tenant == b.Tenant {
		return true
	}
	s := m.state.Peek()
	t, ok := s.Tenant(a)
	o, also := s.Tenant(b)
	if !ok || !also {
		return false
	}
	for ; o >= 0; o = s.Parent(o) {
		for at := t; at >= 0; at = s.Parent(at) {
			if at == o && (s.Tenants[at].Limit() < sched.NoLimit || s.Tenants[at].Bounded()) {
				return true
			}
		}
	}
	return false
}

// SetTenant implements api.Cluster.
func (b *Store) SetTenant(ctx context.Context, who api.Identity, tenant sched.Tenant) (api.TenantView, error) {
	if err := b.SetTenants(ctx, who, []sched.Tenant{tenant}); err != nil {
		return api.TenantView{}, err
	}
	b.mu.RLock()
	defer b.mu.RUnlock()
	for _, v := range b.tenants(who) {
		if v.ID == tenant.ID {
			return v, nil
		}
	}
	return api.TenantView{}, api.Errorf(api.Internal, "tenant %s is gone", tenant.ID)
}

// SetTenants declares or changes several tenants at once: a parent and its children can
// change together in a way that none of them could alone.
func (b *Store) SetTenants(ctx context.Context, who api.Identity, tenants []sched.Tenant) error {
	if err := who.Require(api.Admin); err != nil {
		return err
	}
	for _, t := range tenants {
		if err := t.Validate(); err != nil {
			return &api.Error{Code: api.Invalid, Message: err.Error(), Err: err}
		}
		if strings.ContainsAny(string(t.ID), "/\x00\n") || len(t.ID) > 100 {
			return api.Errorf(api.Invalid, "%.40q contains a slash, a line break or a zero byte, or is longer than 100 bytes", t.ID).On("id")
		}
	}
	return b.commit(ctx, func(t *tx) error {
		t.actor, t.decides = who.User, true
		all := slices.Clone(t.mem.state.Peek().Tenants)
		for _, tenant := range tenants {
			all = slices.DeleteFunc(all, func(old sched.Tenant) bool { return old.ID == tenant.ID })
			all = append(all, tenant)
		}
		if err := sched.CheckTenants(all); err != nil {
			return &api.Error{Code: api.Invalid, Message: err.Error(), Err: err}
		}
		for _, tenant := range tenants {
			if err := t.event(sched.Event{Kind: sched.TenantSet, Tenant: &tenant}); err != nil {
				return err
			}
		}
		return nil
	})
}
