// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package quincy

import (
	"fmt"
	"time"

	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/place"
)

// Config tunes the policy. Each cost is given as the waiting time that weighs the
// same.
type Config struct {
	Idle    sched.Duration `json:"idle" help:"cost of leaving a job waiting that has just arrived; the time it waits is added"`
	Preempt sched.Duration `json:"preempt" help:"extra cost of stopping a job that has just started; the time it has run is added, up to as much again"`
	Move    sched.Duration `json:"move" help:"cost of restarting a running job elsewhere"`
	Type    sched.Duration `json:"type" help:"cost for each GPU type that the job prefers to the one it gets"`
	Rack    sched.Duration `json:"rack" help:"cost of more nodes than needed, in one rack, for a job that slows down when it is spread"`
	Cross   sched.Duration `json:"cross" help:"cost of nodes in several racks for such a job"`
	Quota   sched.Duration `json:"quota" help:"extra cost of leaving a tenant waiting below its quota"`
	Window  int            `json:"window" help:"most waiting jobs in the flow; the others get what is left over"`
	Every   sched.Duration `json:"every" help:"decide again after this long while a job waits"`
}

// Default returns the policy's default settings.
func Default() Config {
	minutes := func(n int) sched.Duration { return sched.Duration(time.Duration(n) * time.Minute) }
	return Config{
		Idle: minutes(10), Preempt: minutes(20), Move: minutes(5), Type: minutes(2), Rack: minutes(15), Cross: minutes(30),
		Quota: minutes(60), Window: 2000, Every: minutes(1),
	}
}

func (c Config) validate() error {
	const most = 365 * 24 * time.Hour
	for _, k := range []struct {
		name  string
		value sched.Duration
	}{
		{"idle", c.Idle}, {"preempt", c.Preempt}, {"move", c.Move}, {"type", c.Type}, {"rack", c.Rack}, {"cross", c.Cross}, {"quota", c.Quota},
	} {
		if k.value < 0 || k.value.D() > most {
			return fmt.Errorf("%s = %s; want 0s to %s", k.name, k.value, sched.Duration(most))
		}
	}
	switch {
	case c.Preempt.D() < time.Second:
		return fmt.Errorf("preempt = %s; want 1s or more, else jobs take turns in every decision", c.Preempt)
	case c.Cross < c.Rack:
		return fmt.Errorf("cross = %s; want rack = %s or more", c.Cross, c.Rack)
	case c.Window < 1:
		return fmt.Errorf("window = %d; want 1 or more", c.Window)
	case c.Every.D() < time.Second:
		return fmt.Errorf("every = %s; want 1s or more", c.Every)
	}
	return nil
}

// New returns the policy.
func New(c Config) (sched.Policy, error) {
	return &policy{Config: c}, c.validate()
}

type policy struct {
	Config
	free *place.Free // a cache
}

// Schedule implements sched.Policy.
func (p *policy) Schedule(s *sched.Snapshot) sched.Plan {
	p.free = p.free.For(s.Cluster)
	d := newDecision(p, s)
	d.solve()
	plan := d.plan()
	if d.clear(plan) {
		plan = d.plan()
	}
	for i := range s.Jobs {
		if place.Waits(plan, i) { // delays grow, and with them what is worth its cost
			plan.WakeBy(s.Now, s.Now.Add(p.Every.D()))
			break
		}
	}
	return plan
}
