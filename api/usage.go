// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/fairway-gpu/fairway/sched"
)

// UsageQuery asks what was used. Days are those of UTC.
type UsageQuery struct {
	By    string    // "user", "tenant", "job" or "day"
	Since time.Time // the first day is the one that holds it; zero: all that is kept
	Until time.Time // the last day is the one that holds it; zero: today
	// RollUp adds what a tenant uses to all tenants above it too; only by tenant.
	RollUp bool
}

// Usage is what was used, by whom.
type Usage struct {
	By    string     `json:"by"`
	From  time.Time  `json:"from"` // the beginning of the first day that something is known of
	To    time.Time  `json:"to"`   // now, or the end of the last day
	Rows  []UsageRow `json:"rows"` // most GPU time first; by day, oldest first
	Total UsageRow   `json:"total"`
	Price Price      `json:"price,omitzero"`
}

// Price is what an hour of a GPU costs.
type Price struct {
	GPUHour  float64 `json:"gpu_hour"`
	Currency string  `json:"currency,omitempty"`
}

// Validate says what is wrong with a price, if anything.
func (p Price) Validate() error {
	if !(p.GPUHour >= 0 && p.GPUHour < 1e9) {
		return fmt.Errorf("price.gpu_hour = %v; want a price that is not negative", p.GPUHour)
	}
	return nil
}

// UsageRow is what one user, tenant, job or day used. Times are in seconds.
type UsageRow struct {
	Day    string         `json:"day,omitempty"` // such as 2026-03-01
	Tenant sched.TenantID `json:"tenant,omitempty"`
	User   string         `json:"user,omitempty"`
	Job    sched.JobID    `json:"job,omitempty"`
	Name   string         `json:"name,omitempty"`

	Ended  int     `json:"ended"`  // jobs that ended then
	Failed int     `json:"failed"` // of those, the ones that failed
	GPUs   float64 `json:"gpu_s"`  // GPU-seconds held; half a GPU counts half
	// Lost is the part of them whose work was lost: it was not saved when the job was
	// stopped or failed.
	Lost float64 `json:"lost_s"`
	// Measured is the part of them in which the use of the GPUs was measured, and Idle
	// the part of that in which they did nothing.
	Measured float64 `json:"measured_s"`
	Idle     float64 `json:"idle_s"`
	Waited   float64 `json:"waited_s"` // seconds that jobs waited, pauses aside
}

// Add adds what another row used.
func (r *UsageRow) Add(o UsageRow) {
	r.Ended += o.Ended
	r.Failed += o.Failed
	r.GPUs += o.GPUs
	r.Lost += o.Lost
	r.Measured += o.Measured
	r.Idle += o.Idle
	r.Waited += o.Waited
}

// SumUsage sums rows for one day and job, or user of a tenant, by what is asked for.
func SumUsage(rows []UsageRow, by string) (sums []UsageRow, total UsageRow) {
	type key struct {
		day    string
		tenant sched.TenantID
		user   string
		job    sched.JobID
	}
	at := map[key]int{}
	for _, r := range rows {
		k, head := key{tenant: r.Tenant}, UsageRow{Tenant: r.Tenant}
		switch by {
		case "job":
			k.job = r.Job
			head.User, head.Job, head.Name = r.User, r.Job, r.Name
		case "user":
			k.user, head.User = r.User, r.User
		case "day":
			k, head = key{day: r.Day}, UsageRow{Day: r.Day}
		}
		i, known := at[k]
		if !known {
			i = len(sums)
			at[k] = i
			sums = append(sums, head)
		}
		sums[i].Add(r)
		total.Add(r)
	}
	slices.SortFunc(sums, func(a, b UsageRow) int {
		return cmp.Or(cmp.Compare(a.Day, b.Day), cmp.Compare(b.GPUs, a.GPUs), cmp.Compare(a.Tenant, b.Tenant), cmp.Compare(a.User, b.User), cmp.Compare(a.Job, b.Job))
	})
	return sums, total
}

// UsageKinds are the values of UsageQuery.By.
func UsageKinds() []string { return []string{"user", "tenant", "job", "day"} }
