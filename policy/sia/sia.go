// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package sia

import (
	"fmt"
	"math"
	"time"

	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/place"
)

// Config tunes the policy.
type Config struct {
	P        float64        `json:"p" help:"exponent of goodput in the sum that is minimised, below 0; lower is fairer"`
	Lambda   float64        `json:"lambda" help:"what a job without GPUs adds to the sum; a job in its worst configuration adds 1"`
	Restart  sched.Duration `json:"restart" help:"assumed cost of changing a job's GPUs"`
	Interval sched.Duration `json:"interval" help:"time between decisions when nothing happens"`
}

// Default returns the policy's default settings.
func Default() Config {
	return Config{P: -0.5, Lambda: 1.1, Restart: sched.Duration(time.Minute), Interval: sched.Duration(time.Minute)}
}

func (c Config) validate() error {
	switch {
	case !(c.P >= -50 && c.P < 0):
		return fmt.Errorf("p = %g; want -50 to below 0", c.P)
	case !(c.Lambda > 1) || math.IsInf(c.Lambda, 1):
		return fmt.Errorf("lambda = %g; want more than 1: else no job would get anything", c.Lambda)
	case c.Restart < 0 || c.Restart.D() > 24*time.Hour:
		return fmt.Errorf("restart = %s; want 0s to 24h", c.Restart)
	case c.Interval.D() < time.Second:
		return fmt.Errorf("interval = %s; want 1s or more", c.Interval)
	}
	return nil
}

// New returns the policy.
func New(c Config) (sched.Policy, error) {
	return &policy{Config: c}, c.validate()
}

type policy struct {
	Config
	free  *place.Free // a cache
	known values      // a cache
}

// Schedule implements sched.Policy.
func (p *policy) Schedule(s *sched.Snapshot) sched.Plan {
	p.free = p.free.For(s.Cluster)
	p.known.turn()
	jobs := p.jobs(s)
	in := instance{gpus: make([]int, len(s.Cluster.Types))}
	for t := range in.gpus {
		in.gpus[t] = p.free.OfType(t)
	}
	l := newLayout(s, p.free, jobs)
	for k := range jobs {
		j := &jobs[k]
		if j.pinned() || j.loading(s.Now) {
			in.gpus[j.on] = max(0, in.gpus[j.on]-j.has)
			in.menus = append(in.menus, nil)
			continue
		}
		in.menus = append(in.menus, j.options)
	}
	choice := in.assign()
	for k := range jobs {
		if !jobs[k].pinned() && jobs[k].loading(s.Now) {
			choice[k] = 0 // it keeps what it has
		}
	}
	l.build(choice)
	p.wake(s, &l.plan)
	return l.plan
}

// wake asks for the next decision while some job waits, may be resized, or may move
// to a better type.
func (p *policy) wake(s *sched.Snapshot, plan *sched.Plan) {
	for i, j := range s.Jobs {
		resizable := (j.Elastic() || len(s.Cluster.Types) > 1) && len(plan.Want[i]) > 0 && !j.Pinned()
		if resizable || place.Waits(*plan, i) {
			plan.WakeBy(s.Now, s.Now.Add(p.Interval.D()))
			return
		}
	}
}
