// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package fairway

import (
	"github.com/fairway-gpu/fairway/sched"
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

// shares puts jobs beyond their tenants' shares last, in the order given: first those that
// use what a sibling of their tenant leaves idle, then a sibling of its parent, and so on.
// So the GPUs that a tenant takes back come from its furthest relatives.
func (w *world) shares(order []int) []int {
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
	out := make([]int, 0, len(order))
	for up := 0; up <= levels && len(order) > 0; up++ {
		var beyond []int
		for _, i := range order {
			j := w.s.Jobs[i]
			if t, ok := w.s.Tenant(j); ok && !stays(j) {
				if !w.within(t, up, j.GPUs, own, all) {
					beyond = append(beyond, i)
					continue
				}
				hold(t, j.GPUs)
			}
			out = append(out, i)
		}
		order = beyond
	}
	return append(out, order...)
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
