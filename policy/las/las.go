// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Package las is least attained service: the jobs with the fewest GPU-seconds so
// far go first. It needs no knowledge about jobs; short jobs finish early because
// they stay near the front, and among equal jobs it is processor sharing.
//
// The rule is the one that Themis (NSDI'20) uses as a baseline: GPUs are leased,
// and the GPUs of a lease that ends go to the job with the least GPU time. Tiresias
// (NSDI'19) builds on the same order.
//
// # Deviations
//
//   - A lease is the time since a job was last started, for each job on its
//     own; there are no rounds common to all. A job whose lease has ended goes
//     on until a job with less service can use its GPUs.
//   - A job runs at its requested size or not at all, and any job that fits
//     may overtake those that do not (the paper leaves both open).
//   - The first of the waiting jobs breaks all leases once it has stood there
//     for the length of one; see place.Lease. Otherwise a large gang could
//     starve.
//   - The moments at which leases end are rounded up to tenths of a lease, so
//     that a large cluster decides about many of them together.
package las

import (
	"fmt"
	"slices"
	"time"

	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/place"
)

// Config tunes the policy.
type Config struct {
	Lease     sched.Duration `json:"lease" help:"how long a started job keeps its GPUs at least; choose it well above the cost of a restart"`
	Placement place.Rule     `json:"placement"`
}

// Default returns the policy's default settings.
func Default() Config {
	return Config{Lease: sched.Duration(10 * time.Minute), Placement: place.AsNear}
}

func (c Config) validate() error {
	if c.Lease.D() < time.Second {
		return fmt.Errorf("lease = %s; want 1s or more", c.Lease)
	}
	return nil
}

// New returns the policy.
func New(c Config) (sched.Policy, error) {
	if err := c.validate(); err != nil {
		return nil, err
	}
	queue, err := place.Queue{Preempt: true}.Placing(c.Placement)
	return &policy{Config: c, queue: queue}, err
}

type policy struct {
	Config
	queue place.Queue
	free  *place.Free // a cache
}

// Schedule implements sched.Policy.
func (p *policy) Schedule(s *sched.Snapshot) sched.Plan {
	p.free = p.free.For(s.Cluster)
	order := place.OrderBy(s, func(j *sched.Job) (a, b float64) { return j.AttainedBy(s.Now), 0 })
	lease := place.NewLease(s, p.Lease.D())
	queue := p.queue
	queue.Keep = lease.Holds
	plan := queue.Plan(s, order, p.free)
	lease.Mark(s, order, &plan)
	p.wake(s, lease, &plan)
	return plan
}

// wake asks for a decision when a running job may first have to give way. If no job
// waits, there is no such time.
func (p *policy) wake(s *sched.Snapshot, lease place.Lease, plan *sched.Plan) {
	var waiting []float64 // their attained service, ascending
	for i, j := range s.Jobs {
		if place.Waits(*plan, i) {
			waiting = append(waiting, j.AttainedBy(s.Now))
		}
	}
	if len(waiting) == 0 {
		return
	}
	slices.Sort(waiting)
	for i, j := range s.Jobs {
		if want := plan.Want[i]; len(want) > 0 && !j.Pinned() {
			if at := p.overtaken(s.Now, j, want, waiting); !at.IsZero() {
				lease.Wake(plan, at)
			}
		}
	}
}

// overtaken returns when a running job will have had more service than one of the
// waiting jobs, with its lease ended; zero if that has already happened and did not
// matter, or never will.
func (p *policy) overtaken(now time.Time, j *sched.Job, want sched.Placement, waiting []float64) time.Time {
	n := float64(want.GPUs())
	have := j.AttainedBy(now)
	ends := now.Add(p.Lease.D())
	if j.Phase == sched.Running && want.Equal(j.Placement) {
		ends = j.Since.Add(p.Lease.D())
	}
	least := waiting[0]
	if ends.After(now) {
		have += n * ends.Sub(now).Seconds()
		if least < have {
			return ends
		}
	} else {
		ends = now
		i, _ := slices.BinarySearch(waiting, have)
		if i == len(waiting) {
			return time.Time{}
		}
		least = waiting[i]
	}
	return ends.Add(place.Seconds((least - have) / n))
}
