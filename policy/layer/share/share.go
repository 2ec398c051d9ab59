// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Package share lets the jobs of any policy share GPUs: the layer "@share". The
// policy below decides as ever; what it leaves waiting is fitted beside the jobs
// that run, where the interference model expects that nobody is slowed much.
//
// # Seats
//
// A job that starts, may share (Spec.Shareable) and whose utilisation and memory
// are known (Spec.GPUUtil, Spec.GPUMemory) gets a seat on each of its GPUs, of
// which a GPU has as many as the knob jobs says, if anybody could ever sit beside
// it; else it gets them whole, as the policy below wants. A seat is no limit of
// speed. Who runs on a seat is left there as long as the policy below wants it on
// those GPUs.
//
// # Guests
//
// A job that the policy below makes wait for GPUs sits down beside others if on
// each of its GPUs there is a seat and enough memory, with a margin, and every job
// there is expected to be slowed by less than the bound even if things go worse
// than usual (interfere.Model.Safe; the knob sure). Of several such GPUs it takes those that it
// fills best: the cost of Horus (TPDS'22, equations 7 to 10). A gang sits on one
// node, if one could hold it. GPUs that nobody holds are not given away: who gets
// those is for the policy below to say.
//
// The policy below sees a guest as a job that runs on a part of its GPUs. One that
// stops jobs may stop it as any other.
//
// # Feedback
//
// When a job is measured to be slower (Status.Slowdown) than the bound times
// patience, the job that came last to its GPU goes: to other seats if there are
// any, else it waits. Which models do not suit each other is remembered; a
// restart forgets it, and the pair is tried once more.
//
// # Nobody starves
//
// Guests that follow each other would keep GPUs from ever being empty. So, when a
// job has waited for the time of the knob hold and finds no seat, the GPUs that
// are expected to be empty soonest take no more guests, for all such jobs together
// up to a part of the cluster (the knob reserve), the oldest first. They go to whom
// the policy below chooses when they are empty.
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
	Slowdown float64        `json:"slowdown" help:"most slowdown of any job on a shared GPU"`
	Sure     bool           `json:"sure" help:"reckon so that one case of twenty may be worse than slowdown; false: one of two"`
	Jobs     int            `json:"jobs" help:"most jobs on a GPU"`
	Margin   int64          `json:"margin" help:"GPU memory that stays free beside several jobs, in MiB"`
	GPU      string         `json:"gpu" help:"type of GPU whose interference model predicts slowdowns; auto: that of each node, or the published curve"`
	Mode     string         `json:"mode" help:"how jobs share a GPU: time-slice or mps"`
	Patience float64        `json:"patience" help:"the last to come leaves a GPU when a job there is slower than slowdown times this"`
	Hold     sched.Duration `json:"hold" help:"for a job that has waited this long and finds no seat, GPUs are kept free of new guests"`
	Reserve  float64        `json:"reserve" help:"most GPUs that are kept free of new guests, as a part of all"`
}

// Default returns the settings the layer has unless told otherwise.
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
		return fmt.Errorf("jobs = %d; want 1 (nobody shares) to %d", c.Jobs, pairing.MostJobs)
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
		return &policy{Config: c, inner: inner, bound: bound, apart: map[pair]bool{}}
	}, nil
}

type policy struct {
	Config
	inner sched.Policy
	// Caches.
	bound *pairing.Bound
	seats *place.SharedView
	apart map[pair]bool // who was slowed too much together
}

// Schedule implements sched.Policy.
func (p *policy) Schedule(s *sched.Snapshot) sched.Plan {
	plan := p.inner.Schedule(s)
	if p.Jobs == 1 {
		return plan
	}
	d := &decision{policy: p, s: s, plan: plan}
	if !d.seat() {
		return plan // nobody may share
	}
	d.complain()
	d.invite()
	return d.plan
}
