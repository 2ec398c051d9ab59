// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Package srtf is shortest remaining time first: the job that is expected to
// need the least further run time goes first, and takes the GPUs of those
// behind it. With true estimates, jobs of one size and free preemption nothing
// has a lower mean completion time; Themis (NSDI'20) and many others use it as
// a baseline.
//
// The remaining time is the estimate at the requested size, less what the job
// has done of its work so far (or, for a job that reports none, less the time
// it has run).
//
// # Deviations
//
//   - Jobs without an estimate go behind all others, in order of submission.
//     They may starve, as long jobs may.
//   - Any job that fits overtakes those that do not.
//   - There is no margin against switching for small gains. None is needed
//     against switching back and forth: the remaining time of a running job
//     falls while that of a waiting one stands still, so a job that took the
//     GPUs of another keeps them against it.
package srtf

import (
	"math"

	"github.com/fairway-gpu/fairway/policy/knob"
	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/place"
)

// Config tunes the policy.
type Config struct {
	Preempt   bool   `json:"preempt" help:"a shorter job takes the GPUs of a longer one"`
	Placement string `json:"placement" help:"where a job goes: consolidated (as near as there is room), skew (the fewest nodes for jobs that need it, which wait for them), fewest-nodes (for all), rack-local, most-free, fragments, or ladder (the fewest nodes, then one rack, then anywhere, each after a wait in proportion to the run time)"`
}

// Default returns the settings the policy has unless told otherwise.
func Default() Config { return Config{Preempt: true, Placement: place.AsNear} }

// New returns the policy.
func New(c Config) (sched.Policy, error) {
	queue, err := place.Queue{Preempt: c.Preempt}.Placing(c.Placement)
	if err != nil {
		return nil, err
	}
	return &policy{Config: c, queue: queue}, nil
}

type policy struct {
	Config
	queue place.Queue
	free  *place.Free // a cache
}

func (p *policy) String() string { return knob.Text("srtf", p.Config, Default()) }

// Schedule implements sched.Policy.
func (p *policy) Schedule(s *sched.Snapshot) sched.Plan {
	p.free = p.free.For(s.Cluster)
	order := place.OrderBy(s, func(j *sched.Job) (a, b float64) {
		left, ok := j.Remaining(s.Now)
		if !ok {
			return math.Inf(1), 0
		}
		return left.Seconds(), 0
	})
	return p.queue.Plan(s, order, p.free)
}
