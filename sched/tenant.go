// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package sched

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"time"
)

// TenantID names a tenant.
type TenantID string

// AppID names an app.
type AppID string

// Tenant is a group of users with a share of the cluster (a virtual cluster). All that
// it has is for itself and the tenants below it: see tree.go.
type Tenant struct {
	ID     TenantID `json:"id"`
	Parent TenantID `json:"parent,omitempty"`   // the tenant out of whose share its own comes; empty: none
	Weight float64  `json:"weight,omitempty"`   // share against other tenants; 0 counts as 1
	Quota  int      `json:"quota,omitempty"`    // GPUs that are its own; 0: none are
	Borrow bool     `json:"borrow,omitempty"`   // may use more than Quota while others leave GPUs idle
	Max    int      `json:"max_gpus,omitempty"` // never more than this, borrowed ones included; 0: no bound
	// MaxByType is the same for some types of GPU. It is replaced, never changed in place.
	MaxByType map[GPUType]int `json:"max_by_type,omitempty"`
	// MaxCPUs and MaxMemory, in bytes, bound what its jobs ask for beside their GPUs; 0: no
	// bound. Jobs that ask for neither count as none.
	MaxCPUs   int   `json:"max_cpus,omitempty"`
	MaxMemory int64 `json:"max_memory,omitempty"`
	Terms
}

// Terms are what an administrator lets the jobs of a tenant ask for. No policy looks
// at them: they hold when a job is submitted.
type Terms struct {
	// Preemptible is the default of jobs that do not say: they may be stopped before
	// they have shown that they can save their work.
	Preemptible bool `json:"preemptible,omitempty"`
	// NonPreemptible allows jobs that are never stopped for others.
	NonPreemptible bool     `json:"non_preemptible,omitempty"`
	MaxPriority    int      `json:"max_priority,omitempty"`   // of its jobs
	TimeLimit      Duration `json:"time_limit,omitempty"`     // of jobs that name none; 0: none
	MaxTimeLimit   Duration `json:"max_time_limit,omitempty"` // 0: no bound
}

// NoLimit is the limit of a tenant that may hold any number of GPUs: more than any
// cluster has, and little enough to add to and to count in thousandths.
const NoLimit = math.MaxInt32

// Limit returns the most GPUs that the tenant may hold. The size of the cluster
// is not a limit: a job that merely does not fit is not over its quota.
func (t Tenant) Limit() int {
	limit := NoLimit
	if t.Quota > 0 && !t.Borrow {
		limit = t.Quota
	}
	if t.Max > 0 {
		limit = min(limit, t.Max)
	}
	return limit
}

// Bounded reports whether a tenant is bounded in what no policy counts: types of GPU, CPUs or
// memory.
func (t Tenant) Bounded() bool { return len(t.MaxByType) > 0 || t.MaxCPUs > 0 || t.MaxMemory > 0 }

// Share returns the tenant's weight with the default filled in.
func (t Tenant) Share() float64 {
	if t.Weight > 0 {
		return t.Weight
	}
	return 1
}

// Validate says what is wrong with the tenant, if anything.
func (t Tenant) Validate() error {
	switch {
	case t.ID == "":
		return fmt.Errorf("tenant: id is empty; every tenant needs one")
	case t.Parent == t.ID:
		return fmt.Errorf("tenant %s: parent = %q; want another tenant, or none", t.ID, t.Parent)
	case t.Weight < 0 || t.Weight != t.Weight:
		return fmt.Errorf("tenant %s: weight = %g; want a positive number", t.ID, t.Weight)
	case t.Quota < 0:
		return fmt.Errorf("tenant %s: quota = %d; want 0 or more GPUs", t.ID, t.Quota)
	case t.Max < 0:
		return fmt.Errorf("tenant %s: max_gpus = %d; want 0 (no bound) or more", t.ID, t.Max)
	case t.MaxCPUs < 0:
		return fmt.Errorf("tenant %s: max_cpus = %d; want 0 (no bound) or more", t.ID, t.MaxCPUs)
	case t.MaxMemory < 0:
		return fmt.Errorf("tenant %s: max_memory = %d; want 0 (no bound) or more bytes", t.ID, t.MaxMemory)
	case len(t.MaxByType) > 64:
		return fmt.Errorf("tenant %s: max_by_type has %d types; want 64 at most", t.ID, len(t.MaxByType))
	case t.MaxPriority < 0:
		return fmt.Errorf("tenant %s: max_priority = %d; want 0 or more", t.ID, t.MaxPriority)
	case t.TimeLimit < 0 || t.MaxTimeLimit < 0 || t.MaxTimeLimit > 0 && t.TimeLimit > t.MaxTimeLimit:
		return fmt.Errorf("tenant %s: time_limit = %s, max_time_limit = %s; want 0 (none) or more, and the first at most the second", t.ID, t.TimeLimit, t.MaxTimeLimit)
	}
	for _, gpu := range slices.Sorted(maps.Keys(t.MaxByType)) {
		if n := t.MaxByType[gpu]; gpu == "" || n < 0 || n > NoLimit {
			return fmt.Errorf("tenant %s: max_by_type.%s = %d; want the name of a type, and 0 or more GPUs", t.ID, gpu, n)
		}
	}
	return nil
}

// App is everything one user runs for one goal: one job, or the many jobs of
// a hyper-parameter search. Fairness is between apps.
type App struct {
	ID        AppID     `json:"id"`
	Tenant    TenantID  `json:"tenant,omitempty"`
	Weight    float64   `json:"weight,omitempty"` // 0 counts as 1
	Submitted time.Time `json:"submitted"`
	Active    int       `json:"active"` // jobs that are pending or running
	// ActiveApps is the integral of the number of active apps over time, in
	// app-seconds, at the moment the app arrived. With the same integral now
	// it gives the mean contention over the app's life.
	ActiveApps float64 `json:"active_apps"`
	// EndedJobs is the number of its jobs that have ended, and Attained the GPU-seconds
	// that these have had.
	EndedJobs int     `json:"ended_jobs,omitempty"`
	Attained  float64 `json:"attained,omitempty"`
	// Bid is what the app's own agent says GPUs are worth to it; nil: it has no
	// agent of its own, or that was silent, and a policy works it out by itself.
	// Nobody vouches for it: a policy must check it.
	Bid *Bid `json:"bid,omitempty"`
	// Stages is what is left of a search, the current stage first; none: the jobs of
	// the app are independent of each other. It is replaced, never changed in place.
	Stages []Stage `json:"stages,omitempty"`
}

// Stage is a part of what is left of a search: so many trials train so far before
// the next stage begins.
type Stage struct {
	Jobs int     `json:"jobs"`
	Part float64 `json:"part"` // of a whole trial, above 0
}

// Validate reports a number that is out of range.
func (s Stage) Validate() error {
	if s.Jobs < 1 || s.Jobs > 1<<20 || !(s.Part > 0) || math.IsInf(s.Part, 1) {
		return fmt.Errorf("stage = %+v; want 1 job or more and a part above 0", s)
	}
	return nil
}

// Bid is a table of what an app would gain from GPUs on top of those it holds.
// It is immutable: a new one replaces it.
type Bid struct {
	At   time.Time `json:"at"`
	Rho  float64   `json:"rho"` // finish-time fairness if it gets nothing
	Rows []BidRow  `json:"rows,omitempty"`
}

// BidRow is one choice: the GPUs taken from each node, and the finish-time
// fairness with them.
type BidRow struct {
	Take []BidShare `json:"take"`
	Rho  float64    `json:"rho"`
}

// BidShare is a number of GPUs of one node.
type BidShare struct {
	Node int32 `json:"node"` // index into Cluster.Nodes
	GPUs int   `json:"gpus"`
}
