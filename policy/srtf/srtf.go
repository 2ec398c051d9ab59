// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Package srtf has two policies that differ in one factor. Under shortest remaining
// time first (srtf) the job that is expected to need the least further run time goes
// first and takes the GPUs of those behind it; under shortest remaining service first
// (srsf) the one that needs the least further GPU time, run time times GPUs.
//
// With true estimates, jobs of one size and free preemption nothing has a lower mean
// completion time than srtf; Themis (NSDI'20) and many others use it as a baseline.
// Tiresias (NSDI'19) names srsf as its two-dimensional form.
//
// The remaining time is the estimate at the requested size, less what the job has
// done of its work so far (or, for a job that reports none, less the time it has run).
//
// # Deviations
//
//   - Jobs without an estimate go behind all others, in order of submission. They may
//     starve, as long jobs may.
//   - Any job that fits overtakes those that do not.
//   - There is no margin against switching for small gains. None is needed against
//     switching back and forth: what remains of a running job falls while that of a
//     waiting one stands still, so a job that took the GPUs of another keeps them
//     against it.
package srtf

import (
	"math"

	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/place"
)

// Config tunes the policies.
type Config struct {
	Preempt   bool       `json:"preempt" help:"a job with less left to do preempts one with more"`
	Placement place.Rule `json:"placement"`
}

// Default returns the policies' default settings.
func Default() Config { return Config{Preempt: true, Placement: place.AsNear} }

// New returns the policy srtf.
func New(c Config) (sched.Policy, error) { return build(c, false) }

// NewService returns the policy srsf.
func NewService(c Config) (sched.Policy, error) { return build(c, true) }

func build(c Config, service bool) (sched.Policy, error) {
	queue, err := place.Queue{Preempt: c.Preempt}.Placing(c.Placement)
	if err != nil {
		return nil, err
	}
	return &policy{queue: queue, service: service}, nil
}

type policy struct {
	queue   place.Queue
	service bool        // weigh the remaining time by GPUs
	free    *place.Free // a cache
}

// Schedule implements sched.Policy.
func (p *policy) Schedule(s *sched.Snapshot) sched.Plan {
	p.free = p.free.For(s.Cluster)
	order := place.OrderBy(s, func(j *sched.Job) (a, b float64) {
		left, ok := j.Remaining(s.Now)
		switch {
		case !ok:
			return math.Inf(1), 0
		case p.service:
			return left.Seconds() * float64(j.GPUs), 0
		}
		return left.Seconds(), 0
	})
	return p.queue.Plan(s, order, p.free)
}
