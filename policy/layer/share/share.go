// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Package share lets the jobs of any policy share GPUs: the layer "@share". The
// policy below decides as usual; jobs that it leaves waiting are placed beside
// running ones where the interference model expects that no job is slowed much.
//
// # Seats
//
// A job that starts, may share (Spec.Shareable) and whose utilisation and memory
// are known (Spec.GPUUtil, Spec.GPUMemory) gets a seat on each of its GPUs if another
// job could ever share them, else whole GPUs, as the policy below wants. The knob
// jobs is the number of seats of a GPU. A seat does not limit speed, except on
// Kubernetes with MPS where it is smaller than a replica. A job stays on its seat as
// long as the policy below keeps it on those GPUs.
//
// # Guests
//
// A job that the policy below leaves waiting for GPUs becomes a guest on GPUs of
// other jobs, if each of these GPUs has a seat and enough memory, with a margin, and
// every job there is expected to be slowed by less than the bound in most cases
// (interfere.Model.Safe; the knob sure). Of several such GPUs it takes those that it
// fills best: the cost of Horus (TPDS'22, equations 7 to 10). A gang takes one node,
// if one can hold it. The layer does not allocate idle GPUs: they are left to the
// policy below.
//
// The policy below sees a guest as a job that runs on a share of its GPUs. If it
// preempts, it may stop a guest like any other job.
//
// # Feedback
//
// When the measured slowdown of a job (Status.Slowdown) exceeds the bound times
// patience, the newest job on its GPU leaves: for other seats if there are any, else
// it waits. The layer remembers which models slowed each other too much; after a
// restart of the daemon it tries such a pair once more.
//
// # No starvation
//
// Guests that follow each other would keep GPUs from ever being empty. So, when a
// job has waited for hold without a seat, the GPUs that are expected to be empty
// soonest accept no more guests, for all such jobs together up to a share of the
// cluster (the knob reserve), the oldest job first. Once empty, they go to the job
// that the policy below chooses.
package share

import (
	"fmt"
	"time"

	"github.com/fairway-gpu/fairway/policy/pairing"
	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/place"
)

// Config tunes the layer.
type Config struct {
	Slowdown float64        `json:"slowdown" help:"highest slowdown of any job on a shared GPU"`
	Sure     bool           `json:"sure" help:"expect the bound to be exceeded in one case of twenty; false: in one of two"`
	Jobs     int            `json:"jobs" help:"most jobs on a GPU"`
	Margin   int64          `json:"margin" help:"GPU memory that stays free on a shared GPU, in MiB"`
	GPU      string         `json:"gpu" help:"GPU type whose interference model predicts slowdowns; auto: that of each node, or the published curve"`
	Mode     string         `json:"mode" help:"how jobs share a GPU: time-slice or mps"`
	Patience float64        `json:"patience" help:"when the measured slowdown of a job exceeds slowdown times this, the newest job leaves its GPU"`
	Hold     sched.Duration `json:"hold" help:"when a job has waited this long without a seat, the GPUs that will be empty soonest accept no new guests"`
	Reserve  float64        `json:"reserve" help:"largest share of the cluster's GPUs that accept no new guests"`
}

// Default returns the layer's default settings.
func Default() Config {
	return Config{
		Slowdown: 1.15, Sure: true, Jobs: 2, Margin: 500, GPU: pairing.Auto, Mode: "time-slice", Patience: 1.1,
		Hold: sched.Duration(time.Hour), Reserve: 0.25,
	}
}

func (c Config) validate() error {
	switch {
	case !(c.Slowdown > 1 && c.Slowdown <= 100):
		return fmt.Errorf("slowdown = %g; want above 1 to 100", c.Slowdown)
	case c.Jobs < 1 || c.Jobs > pairing.MostJobs:
		return fmt.Errorf("jobs = %d; want 1 (no sharing) to %d", c.Jobs, pairing.MostJobs)
	case c.Margin < 0 || c.Margin > 1<<30:
		return fmt.Errorf("margin = %d; want 0 or more MiB", c.Margin)
	case !(c.Patience >= 1 && c.Patience <= 100):
		return fmt.Errorf("patience = %g; want 1 to 100", c.Patience)
	case c.Hold <= 0:
		return fmt.Errorf("hold = %s; want a positive duration", c.Hold)
	case !(c.Reserve >= 0 && c.Reserve <= 1):
		return fmt.Errorf("reserve = %g; want 0 to 1", c.Reserve)
	}
	return nil
}

// New returns the layer.
func New(c Config) (func(sched.Policy) sched.Policy, error) {
	if err := c.validate(); err != nil {
		return nil, err
	}
	ask := pairing.Config{Limit: c.Slowdown, Sure: c.Sure, GPU: c.GPU, Mode: c.Mode}
	if _, err := pairing.New(ask); err != nil {
		return nil, err
	}
	return func(inner sched.Policy) sched.Policy {
		bound, _ := pairing.New(ask) // it was checked; a policy has a cache of its own
		return &policy{Config: c, inner: inner, bound: bound}
	}, nil
}

type policy struct {
	Config
	inner sched.Policy
	// Caches.
	bound *pairing.Bound
	seats *place.SharedView
	apart pairing.Outcomes // pairs that slowed each other too much
}

// Schedule implements sched.Policy.
func (p *policy) Schedule(s *sched.Snapshot) sched.Plan {
	plan := p.inner.Schedule(s)
	if p.Jobs == 1 {
		return plan
	}
	d := &decision{policy: p, s: s, plan: plan}
	if !d.seat() {
		return plan // no job may share
	}
	d.complain()
	d.invite()
	return d.plan
}
