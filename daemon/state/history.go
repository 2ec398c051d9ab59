// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/sched"
)

// The resolution of the plots over time.
const (
	sampleEvery = 5 * time.Second
	keepSamples = 1440
	maxApps     = 20 // of one sample: those with most GPUs
)

// history is the cluster over time, in memory only: a plot, not a record.
type history struct{ samples []api.Sample }

// Sample takes a sample every few seconds until the context ends.
func (b *Store) Sample(ctx context.Context) {
	tick := time.NewTicker(sampleEvery)
	defer tick.Stop()
	for {
		b.takeSample()
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (b *Store) takeSample() {
	util := 0.0
	var use []*api.GPUUse
	if b.Use != nil {
		use = b.Use()
		for _, u := range use {
			if u != nil {
				util += u.Util / float64(len(use))
			}
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if use != nil {
		b.takeUse(use)
	}
	fair := b.fair()
	s := api.Sample{At: fair.Now, GPUs: b.mem.state.Cluster().GPUs(), Util: util}
	tenants := map[sched.TenantID]*api.TenantSample{}
	apps := map[sched.AppID]*api.AppSample{}
	for _, x := range b.mem.inOrder() {
		j := x.Job
		t, a := tenants[j.Tenant], apps[j.App]
		if t == nil {
			t = &api.TenantSample{ID: j.Tenant}
			tenants[j.Tenant] = t
		}
		if a == nil {
			a = &api.AppSample{ID: j.App, Tenant: j.Tenant}
			apps[j.App] = a
		}
		n := j.Placement.GPUs()
		if j.Phase == sched.Running {
			s.Running++
			s.Held += n
		} else if x.PausedBy == "" {
			s.Waiting++
		}
		t.GPUs += n
		a.GPUs += n
		a.Rho = fair.rho(j.App)
		t.Rho = max(t.Rho, a.Rho)
	}
	for _, t := range tenants {
		s.Tenants = append(s.Tenants, *t)
	}
	for _, a := range apps {
		s.Apps = append(s.Apps, *a)
	}
	slices.SortFunc(s.Tenants, func(a, c api.TenantSample) int { return cmp.Compare(a.ID, c.ID) })
	slices.SortFunc(s.Apps, func(a, c api.AppSample) int { return cmp.Or(cmp.Compare(c.GPUs, a.GPUs), cmp.Compare(a.ID, c.ID)) })
	s.Apps = s.Apps[:min(len(s.Apps), maxApps)]
	if len(b.past.samples) >= keepSamples+keepSamples/4 {
		b.past.samples = slices.Clone(b.past.samples[keepSamples/4:])
	}
	b.past.samples = append(b.past.samples, s)
}

// History implements api.Feed.
func (b *Store) History(who api.Identity) ([]api.Sample, error) {
	b.mu.RLock()
	defer b.mu.RUnlock()
	out := slices.Clone(b.past.samples)
	if who.Role == api.Admin {
		return out, nil
	}
	for i := range out {
		out[i].Tenants = slices.DeleteFunc(slices.Clone(out[i].Tenants), func(t api.TenantSample) bool { return !who.Sees(t.ID) })
		out[i].Apps = slices.DeleteFunc(slices.Clone(out[i].Apps), func(a api.AppSample) bool { return !who.Sees(a.Tenant) })
	}
	return out, nil
}
