// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package fairway

import (
	"slices"

	"github.com/fairway-gpu/fairway/sched"
)

// divideTenants limits every tenant to its share: its own quota, or what it can use of
// it, and of the rest as much as others leave, by weight (max-min fairness). Where all
// tenants together want less than there is, nobody is limited.
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
	limits := make([]int, len(wanted))
	for t, tenant := range w.s.Tenants {
		wanted[t] = min(wanted[t], tenant.Limit())
		limits[t] = min(wanted[t], tenant.Quota)
		rest -= limits[t]
	}
	for rest > 0 {
		share, hungry := 0.0, []int{}
		for t, tenant := range w.s.Tenants {
			if limits[t] < wanted[t] {
				share += tenant.Share()
				hungry = append(hungry, t)
			}
		}
		if len(hungry) == 0 {
			return // everybody has what it wants
		}
		given := 0
		for _, t := range hungry {
			more := min(wanted[t]-limits[t], int(float64(rest)*w.s.Tenants[t].Share()/share))
			limits[t] += more
			given += more
		}
		if given == 0 { // less than one GPU for each: the most deserving first
			slices.SortFunc(hungry, func(a, b int) int { return b - a })
			limits[hungry[0]]++
			given = 1
		}
		rest -= given
	}
	w.limits = limits
}
