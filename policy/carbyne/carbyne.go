// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package carbyne

import (
	"fmt"
	"slices"
	"time"

	"github.com/fairway-gpu/fairway/policy/filling"
	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/place"
)

// Config tunes the policy.
type Config struct {
	By        string         `json:"by" help:"who gets a fair share: tenant (a job without one counts for its user, else its app), user (else app) or app"`
	Altruism  bool           `json:"altruism" help:"jobs give up GPUs that they do not need yet; without it, leftovers are only what fair shares cannot use"`
	Margin    float64        `json:"margin" help:"safety margin on a job's estimate when it works out what to give up, as a part of the estimate"`
	Lease     sched.Duration `json:"lease" help:"how long a started job keeps its GPUs at least; choose it well above the cost of a restart"`
	Placement place.Rule     `json:"placement"`
}

// Default returns the policy's default settings.
func Default() Config {
	return Config{By: filling.ByTenant, Altruism: true, Margin: 0.1, Lease: sched.Duration(10 * time.Minute), Placement: place.AsNear}
}

func (c Config) validate() error {
	switch {
	case !(c.Margin >= 0 && c.Margin <= 10):
		return fmt.Errorf("margin = %g; want 0 to 10", c.Margin)
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
	lease := place.NewLease(s, p.Lease.D())
	ends := promises(s, p.By)
	f := filling.New(s, p.By, lease.Holds, size)
	kept := len(f.Chosen)
	f.Fill()
	o := offer{policy: p, s: s, ends: ends, Filling: f, size: make(place.Sizes, len(s.Jobs)), patient: make([]bool, len(s.Jobs))}
	order := slices.Concat(f.Chosen[:kept], o.order(f.Chosen[kept:]))
	queue := p.queue
	queue.Keep = lease.Holds
	plan := o.size.Plan(s, queue, order, p.free)
	// Leases are broken for the first job that fairness has kept waiting, not for
	// jobs that wait for leftovers.
	lease.Mark(s, slices.DeleteFunc(slices.Concat(f.Chosen, f.Passed), func(i int) bool { return o.patient[i] }), &plan)
	ends.note(s, o.patient, &plan)
	p.wake(s, lease, ends, &plan)
	return plan
}

// wake asks for a decision when a lease, or a job's patience, ends while a job
// waits.
func (p *policy) wake(s *sched.Snapshot, lease place.Lease, ends ends, plan *sched.Plan) {
	waits := false
	for i, j := range s.Jobs {
		if !place.Waits(*plan, i) {
			continue
		}
		waits = true
		if at := p.latest(s, j, ends[i]); at.After(s.Now) {
			lease.Wake(plan, at)
		}
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
