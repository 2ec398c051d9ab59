// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package pollux

import (
	"fmt"
	"time"

	"github.com/fairway-gpu/fairway/policy/division"
	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/place"
)

// Config tunes the policy.
type Config struct {
	P           float64        `json:"p" help:"exponent of the power mean of speedups: 1 is the arithmetic mean, -1 the harmonic; lower is fairer"`
	Restart     sched.Duration `json:"restart" help:"assumed cost of changing a job's GPUs"`
	Interval    sched.Duration `json:"interval" help:"time between decisions when nothing happens"`
	Apart       bool           `json:"apart" help:"avoid interference: a node hosts at most one job that spans several nodes"`
	Search      string         `json:"search" help:"fast, or genetic as in the paper"`
	Population  int            `json:"population" help:"genetic: number of allocations in a generation"`
	Generations int            `json:"generations" help:"genetic: number of generations"`
	Seed        uint64         `json:"seed" help:"seed of the search"`
}

// The values of Config.Search.
const (
	Fast    = "fast"
	Genetic = "genetic"
)

// Default returns the policy's default settings.
func Default() Config {
	return Config{
		P:           -1,
		Restart:     sched.Duration(30 * time.Second),
		Interval:    sched.Duration(time.Minute),
		Apart:       true,
		Search:      Fast,
		Population:  100,
		Generations: 100,
		Seed:        1,
	}
}

func (c Config) validate() error {
	const most = 10_000
	switch {
	case !(c.P >= -50 && c.P <= 1):
		return fmt.Errorf("p = %g; want -50 to 1", c.P)
	case c.Restart < 0 || c.Restart.D() > 24*time.Hour:
		return fmt.Errorf("restart = %s; want 0s to 24h", c.Restart)
	case c.Interval.D() < time.Second:
		return fmt.Errorf("interval = %s; want 1s or more", c.Interval)
	case c.Search != Fast && c.Search != Genetic:
		return fmt.Errorf("search = %q; want %s or %s", c.Search, Fast, Genetic)
	case c.Population < 4 || c.Population > most:
		return fmt.Errorf("population = %d; want 4 to %d", c.Population, most)
	case c.Generations < 0 || c.Generations > most:
		return fmt.Errorf("generations = %d; want 0 to %d", c.Generations, most)
	}
	return nil
}

// New returns the policy.
func New(c Config) (sched.Policy, error) {
	if err := c.validate(); err != nil {
		return nil, err
	}
	search := division.Fast(c.Seed)
	if c.Search == Genetic {
		search = division.Genetic(c.Seed, c.Population, c.Generations)
	}
	speedups := &division.Speedups{P: c.P, Restart: c.Restart.D().Seconds()}
	return &policy{c, division.Divider{Objective: speedups, Search: search}}, nil
}

type policy struct {
	Config
	divider division.Divider
}

// Schedule implements sched.Policy.
func (p *policy) Schedule(s *sched.Snapshot) sched.Plan {
	p.divider.Begin()
	plan := p.divider.Divide(s, division.Rules{Apart: p.Apart})
	p.wake(s, &plan)
	return plan
}

// wake asks for the next decision while some job may be resized or waits: speeds
// are learnt and ages grow without any event.
func (p *policy) wake(s *sched.Snapshot, plan *sched.Plan) {
	for i, j := range s.Jobs {
		resizable := j.Elastic() && len(plan.Want[i]) > 0 && !j.Pinned()
		if resizable || place.Waits(*plan, i) {
			plan.WakeBy(s.Now, s.Now.Add(p.Interval.D()))
			return
		}
	}
}
