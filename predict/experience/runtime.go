// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package experience

import "time"

// JobKey is what is known of a job before it runs and identifies similar past jobs.
type JobKey struct {
	App, Tenant, User, Model string
	GPUs                     int
}

// RunTimes stores the run times of past jobs, to estimate that of a new one: the mean
// of the last two jobs of the narrowest group that has any. A very similar rule (the
// last two jobs of the same user) was more accurate than users' own estimates on four
// production logs (Tsafrir, Etsion and Feitelson, TPDS'07). The zero value is empty.
type RunTimes struct {
	last map[JobKey][2]time.Duration // newest first; the second is 0 if there is only one
}

// groups returns the groups of a job, the narrowest first: the trials of an app are
// most alike, then the repeated jobs of a user, then the jobs of the tenant. A group
// has at least one name, so that jobs about which nothing is known are not grouped.
func (k JobKey) groups() []JobKey {
	var out []JobKey
	add := func(name string, g JobKey) {
		if name != "" {
			out = append(out, g)
		}
	}
	add(k.App, JobKey{App: k.App, Tenant: k.Tenant, GPUs: k.GPUs})
	if k.Model != "" {
		add(k.User, JobKey{Tenant: k.Tenant, User: k.User, Model: k.Model, GPUs: k.GPUs})
		add(k.User, JobKey{Tenant: k.Tenant, User: k.User, Model: k.Model})
	}
	add(k.User, JobKey{Tenant: k.Tenant, User: k.User})
	if k.Model != "" {
		add(k.Tenant, JobKey{Tenant: k.Tenant, Model: k.Model, GPUs: k.GPUs})
	}
	add(k.Model, JobKey{Model: k.Model, GPUs: k.GPUs})
	add(k.Model, JobKey{Model: k.Model})
	return out
}

// Learn adds the run time of a job that has ended, at the size it asked for.
func (r *RunTimes) Learn(k JobKey, ran time.Duration) {
	if ran <= 0 {
		return
	}
	if r.last == nil {
		r.last = map[JobKey][2]time.Duration{}
	}
	for _, g := range k.groups() {
		r.last[g] = [2]time.Duration{ran, r.last[g][0]}
	}
}

// Estimate returns the expected run time of a job; 0: no similar job has ended.
func (r *RunTimes) Estimate(k JobKey) time.Duration {
	for _, g := range k.groups() {
		switch l := r.last[g]; {
		case l[1] > 0:
			return (l[0] + l[1]) / 2
		case l[0] > 0:
			return l[0]
		}
	}
	return 0
}
