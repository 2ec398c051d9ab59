// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package slaq

import (
	"fmt"
	"time"

	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/place"
)

// Config tunes the policy.
type Config struct {
	Epoch     sched.Duration `json:"epoch" help:"how far ahead losses are predicted; a started or resized job stays unchanged for this long"`
	Restart   sched.Duration `json:"restart" help:"time of its epoch that a job is assumed to lose to a resize"`
	Patience  sched.Duration `json:"patience" help:"a job that has waited this long goes before all others"`
	Decay     float64        `json:"decay" help:"weight of a loss relative to the next one in a fit"`
	Placement place.Rule     `json:"placement"`
}

// Default returns the policy's default settings.
func Default() Config {
	return Config{
		Epoch: sched.Duration(10 * time.Minute), Restart: sched.Duration(30 * time.Second),
		Patience: sched.Duration(30 * time.Minute), Decay: 0.9, Placement: place.AsNear,
	}
}

func (c Config) validate() error {
	switch {
	case c.Epoch.D() < time.Second:
		return fmt.Errorf("epoch = %s; want 1s or more", c.Epoch)
	case c.Restart < 0 || c.Restart >= c.Epoch:
		return fmt.Errorf("restart = %s; want 0s to below epoch = %s", c.Restart, c.Epoch)
	case c.Patience < 0:
		return fmt.Errorf("patience = %s; want 0s or more", c.Patience)
	case !(c.Decay > 0 && c.Decay <= 1):
		return fmt.Errorf("decay = %g; want more than 0, up to 1", c.Decay)
	}
	return nil
}

// New returns the policy.
func New(c Config) (sched.Policy, error) {
	if err := c.validate(); err != nil {
		return nil, err
	}
	queue, err := place.Queue{Preempt: true}.Placing(c.Placement)
	if err != nil {
		return nil, err
	}
	return &policy{Config: c, queue: queue, fits: fits{}}, nil
}

type policy struct {
	Config
	queue place.Queue
	free  *place.Free // a cache
	fits  fits        // a cache
}

// Schedule implements sched.Policy.
func (p *policy) Schedule(s *sched.Snapshot) sched.Plan {
	p.free = p.free.For(s.Cluster)
	lease := place.NewLease(s, p.Epoch.D())
	d := newDivision(p, s, lease)
	order := d.divide()
	queue := p.queue
	queue.Keep = lease.Holds
	plan := place.Sizes(d.size).Plan(s, queue, order, p.free)
	lease.Mark(s, order, &plan)
	p.wake(s, lease, d, &plan)
	return plan
}

// wake asks for a decision at the end of the first epoch of a job that could then
// be resized, or give way to a waiting job.
func (p *policy) wake(s *sched.Snapshot, lease place.Lease, d *division, plan *sched.Plan) {
	waits := false
	for i := range s.Jobs {
		waits = waits || place.Waits(*plan, i)
	}
	for k := range d.claims {
		c := &d.claims[k]
		want := plan.Want[c.index]
		if len(want) == 0 || c.job.Pinned() || (!waits && c.most <= c.least) {
			continue
		}
		at := s.Now.Add(p.Epoch.D())
		if end := lease.End(c.job); want.Equal(c.job.Placement) && end.After(s.Now) {
			at = end
		}
		lease.Wake(plan, at)
	}
}
