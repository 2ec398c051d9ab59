// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Package fifo serves jobs in the order of submission, larger priorities first, and
// never stops one: the default of batch schedulers, and the baseline that every
// paper beats.
//
// The knob backfill says which jobs may overtake one that does not fit:
//
//   - off: none. The first job that does not fit holds back all behind it.
//   - easy: EASY backfilling (Lifka, JSSPP'95). From the estimates of the
//     running jobs follows when and where the first job that does not fit
//     will start: its reservation. Another job may overtake it if by its own
//     estimate it ends before that time, or if it uses only GPUs outside the
//     reservation.
//   - greedy: any job that fits. Large jobs may starve.
//
// # Deviations
//
//   - EASY counts processors; here a reservation is a set of GPUs, because a
//     gang needs them near to each other.
//   - No job without an estimate overtakes, not even on GPUs outside the
//     reservation, and no job overtakes at all when no reservation can be made
//     because running jobs have no estimate.
//   - A job that waits for its tenant's quota, for the end of a back-off, or
//     for a kind of GPU that does not exist holds back no other job.
package fifo

import (
	"fmt"

	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/place"
)

// Config tunes the policy.
type Config struct {
	Backfill  string     `json:"backfill" help:"which jobs may overtake one that does not fit: off (none), easy (those that do not delay it) or greedy (any)"`
	Placement place.Rule `json:"placement"`
}

// The values of Config.Backfill.
const (
	Off    = "off"
	Easy   = "easy"
	Greedy = "greedy"
)

// Default returns the policy's default settings.
func Default() Config { return Config{Backfill: Off, Placement: place.AsNear} }

func (c Config) validate() error {
	switch c.Backfill {
	case Off, Easy, Greedy:
		return nil
	}
	return fmt.Errorf("backfill = %q; want %s, %s or %s", c.Backfill, Off, Easy, Greedy)
}

// New returns the policy.
func New(c Config) (sched.Policy, error) {
	if err := c.validate(); err != nil {
		return nil, err
	}
	queue, err := place.Queue{Strict: c.Backfill != Greedy}.Placing(c.Placement)
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
	order := place.OrderBy(s, func(j *sched.Job) (a, b float64) { return -float64(j.Priority), 0 })
	plan := p.queue.Plan(s, order, p.free)
	if p.Backfill == Easy {
		backfill{s, p.free, p.queue.At(s.Now).Place}.overtake(order, &plan)
	}
	return plan
}
