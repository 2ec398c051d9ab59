// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Package drf is dominant resource fairness (Ghodsi et al., NSDI'11) between
// tenants. The dominant share of a tenant is the largest of its shares of the
// cluster's GPUs, CPUs and memory. Jobs are admitted one by one, always from the
// tenant with the lowest dominant share for its weight whose next job still fits:
// progressive filling in steps of whole jobs. Within a tenant, jobs are served in
// order of submission.
//
// Where GPUs are the scarce resource, this gives every tenant an equal number of
// GPUs, wherever they are.
//
// # Deviations
//
//   - The unit is a job, not a task: a gang runs whole or not at all. A tenant
//     whose first job does not fit gives its turn to its next one, and a tenant
//     without any job that fits drops out.
//   - With preempt, a new decision fills the cluster anew and stops jobs that are
//     not reached; the paper's allocations only change when tasks end. A lease
//     keeps a job that was started from being stopped too soon; the jobs it
//     covers, and those that are not preemptible, are counted before all
//     others. See place.Lease for the one case in which leases are broken.
//   - What fits is judged by totals here, and by nodes afterwards: where a job
//     finds no place near enough to itself, the next ones use the GPUs, and
//     its tenant keeps no credit for it.
//   - Among parties of equal share the one whose next job was submitted first
//     is served first.
//   - A resource counts only if the nodes say how much of it they have, and
//     jobs that name no CPUs or memory are taken to need none.
package drf

import (
	"fmt"
	"time"

	"github.com/fairway-gpu/fairway/policy/filling"
	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/place"
)

// Config tunes the policy.
type Config struct {
	By        string         `json:"by" help:"whose dominant shares are compared: tenant (a job without one counts for its user, else its app), user (else app) or app"`
	Preempt   bool           `json:"preempt" help:"stop jobs of parties with a large share to make room for those with a smaller one"`
	Lease     sched.Duration `json:"lease" help:"with preempt: how long a started job keeps its GPUs at least; choose it well above the cost of a restart"`
	Placement place.Rule     `json:"placement"`
}

// Default returns the policy's default settings.
func Default() Config {
	return Config{By: filling.ByTenant, Preempt: true, Lease: sched.Duration(10 * time.Minute), Placement: place.AsNear}
}

func (c Config) validate() error {
	switch {
	case c.Lease.D() < time.Second:
		return fmt.Errorf("lease = %s; want 1s or more", c.Lease)
	}
	return filling.CheckBy(c.By)
}

// New returns the policy.
func New(c Config) (sched.Policy, error) {
	if err := c.validate(); err != nil {
		return nil, err
	}
	queue, err := place.Queue{Preempt: c.Preempt}.Placing(c.Placement)
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
	if !p.Preempt {
		order := p.order(s, func(*sched.Job) bool { return true })
		return p.queue.Plan(s, order, p.free)
	}
	lease := place.NewLease(s, p.Lease.D())
	order := p.order(s, lease.Holds)
	queue := p.queue
	queue.Keep = lease.Holds
	plan := queue.Plan(s, order, p.free)
	lease.Mark(s, order, &plan)
	p.wake(s, lease, &plan)
	return plan
}

// order fills the cluster and returns the jobs that were reached, then those that
// were not.
func (p *policy) order(s *sched.Snapshot, stays func(*sched.Job) bool) []int {
	f := filling.New(s, p.By, stays, size)
	f.Fill()
	return append(f.Chosen, f.Passed...)
}

// size returns the GPUs a job holds or asks for.
func size(j *sched.Job) int {
	if j.Phase == sched.Running {
		return j.Placement.GPUs()
	}
	return j.GPUs
}

// wake asks for a decision at the next end of a lease, if a job waits.
func (p *policy) wake(s *sched.Snapshot, lease place.Lease, plan *sched.Plan) {
	waits := false
	for i := range s.Jobs {
		waits = waits || place.Waits(*plan, i)
	}
	if !waits {
		return
	}
	for i, j := range s.Jobs {
		switch want := plan.Want[i]; {
		case len(want) == 0 || j.Pinned():
		case j.Phase == sched.Running && want.Equal(j.Placement):
			if end := lease.End(j); end.After(s.Now) {
				lease.Wake(plan, end)
			}
		default:
			lease.Wake(plan, s.Now.Add(p.Lease.D()))
		}
	}
}
