// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package fairway

import (
	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/place"
)

// divideTenants limits every tenant to what it is entitled to. Where all tenants together
// want less than there is, nobody is limited.
func (w *world) divideTenants() {
	if len(w.s.Tenants) < 2 {
		return
	}
	wanted := make([]int, len(w.s.Tenants))
	rest := w.s.Cluster.GPUs() // that no tenant wants
	for i, j := range w.s.Jobs {
		n := j.GPUs
		if j.Elastic() {
			n = max(n, min(j.MaxGPUs, w.jobs[i].most))
		}
		if t, ok := w.s.Tenant(j); ok {
			wanted[t] += min(n, sched.NoLimit-wanted[t])
		} else {
			rest -= min(rest, j.GPUs) // jobs of no tenant are not limited
		}
	}
	if e := w.s.Entitle(rest, wanted, nil); !e.Full {
		w.limits, w.family = e.Own, e.All
	}
}

// shares divides jobs, in the order given, into those within their tenants' shares, those
// that use what a sibling of their tenant leaves idle, then a sibling of its parent, and so
// on: the GPUs that a tenant takes back come from its furthest relatives. The last are
// beyond all shares.
func (w *world) shares(order []int) (tiers [][]int) {
	own, all := make([]int, len(w.limits)), make([]int, len(w.limits)) // GPUs held
	hold := func(t, n int) {
		own[t] += n
		for ; t >= 0; t = w.s.Parent(t) {
			all[t] += n
		}
	}
	stays := func(j *sched.Job) bool { return j.Phase == sched.Running && j.Pinned() || w.inTurn(w.s, j) }
	for _, j := range w.s.Jobs {
		if t, ok := w.s.Tenant(j); ok && stays(j) {
			hold(t, j.GPUs)
		}
	}
	levels := 0 // above the tenant's own share
	if w.s.Nested() {
		levels = sched.MaxDepth
	}
	for up := 0; up <= levels && len(order) > 0; up++ {
		var within, beyond []int
		for _, i := range order {
			j := w.s.Jobs[i]
			if t, ok := w.s.Tenant(j); ok && !stays(j) {
				if !w.within(t, up, j.GPUs, own, all) {
					beyond = append(beyond, i)
					continue
				}
				hold(t, j.GPUs)
			}
			within = append(within, i)
		}
		tiers, order = append(tiers, within), beyond
	}
	return append(tiers, order)
}

// within reports whether n more GPUs are within the share of a tenant's own jobs or, some
// levels up, that of a tenant above them with all below it.
func (w *world) within(t, up, n int, own, all []int) bool {
	if up == 0 {
		return own[t]+n <= w.limits[t]
	}
	for ; up > 1 && t >= 0; up-- {
		t = w.s.Parent(t)
	}
	return t >= 0 && all[t]+n <= w.family[t]
}

// beyondShare is what a job beyond its tenant's share counts, of what it would count within.
const beyondShare = 1e-4

// limit returns the GPUs that tenants may hold in a division. A tenant whose jobs all have
// one size is not limited there: those beyond its share count for little instead, so that
// they stay where they are while nobody else has a use for their GPUs.
func (w *world) limit() []int {
	if w.limits == nil {
		return nil
	}
	limits := make([]int, len(w.limits))
	for t := range limits {
		limits[t] = sched.NoLimit
	}
	for _, j := range w.s.Jobs {
		if t, ok := w.s.Tenant(j); ok && j.Elastic() {
			limits[t] = w.limits[t]
		}
	}
	worth := 1.0
	for _, tier := range w.shares(place.Order(w.s, func(i int) (a, b float64) { return -w.jobs[i].weight, 0 })) {
		for _, i := range tier {
			if t, ok := w.s.Tenant(w.s.Jobs[i]); ok && worth < 1 && limits[t] == sched.NoLimit {
				w.jobs[i].weight *= worth
				w.jobs[i].share, w.jobs[i].ofApp = 0, false
			}
		}
		worth *= beyondShare
	}
	return limits
}
