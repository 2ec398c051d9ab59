// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package antman

import (
	"fmt"
	"time"

	"github.com/fairway-gpu/fairway/policy/pairing"
	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/place"
)

// Config tunes the policy.
type Config struct {
	Guest    int            `json:"guest" help:"share of each GPU that an opportunistic job holds where it shares or may have to, in thousandths"`
	Busy     float64        `json:"busy" help:"a GPU whose job uses it this much or more accepts no opportunistic job"`
	MaxUtil  float64        `json:"max_util" help:"highest total GPU utilisation of the two jobs on a GPU"`
	Slowdown float64        `json:"slowdown" help:"highest predicted slowdown of either job on a GPU, such as 1.15; 0: no bound, max_util alone decides"`
	GPU      string         `json:"gpu" help:"GPU type whose interference model predicts slowdowns; auto: that of each node, or the published curve"`
	Mode     string         `json:"mode" help:"how jobs share a GPU: time-slice or mps"`
	Harm     float64        `json:"harm" help:"measured slowdown of a job with the guarantee above which the opportunistic job on its GPU leaves; 0: never"`
	Patience sched.Duration `json:"patience" help:"a job with a guarantee that has waited this long runs as an opportunistic job until it gets its GPUs"`
	// Coordinator is read by the simulator.
	Coordinator bool `json:"coordinator" help:"in simulations: a local coordinator on every GPU throttles the opportunistic job, so that the other is hardly slowed; no executor has one"`
}

// Default returns the policy's default settings.
func Default() Config {
	return Config{
		Guest: 200, Busy: 0.8, MaxUtil: 0.9, GPU: pairing.Auto, Mode: "time-slice", Harm: 1.1,
		Patience: sched.Duration(time.Minute), Coordinator: true,
	}
}

func (c Config) validate() error {
	switch {
	case c.Guest < 1 || c.Guest > sched.WholeGPU/2:
		return fmt.Errorf("guest = %d; want 1 to %d thousandths of a GPU", c.Guest, sched.WholeGPU/2)
	case !(c.Busy >= 0 && c.Busy <= 1.01):
		return fmt.Errorf("busy = %g; want 0 (no sharing) to 1", c.Busy)
	case !(c.MaxUtil >= 0 && c.MaxUtil <= 2):
		return fmt.Errorf("max_util = %g; want 0 to 2", c.MaxUtil)
	case c.Harm != 0 && !(c.Harm >= 1 && c.Harm <= 100):
		return fmt.Errorf("harm = %g; want 0 (no measured bound), or 1 to 100", c.Harm)
	case c.Patience < 0:
		return fmt.Errorf("patience = %s; want 0s or more", c.Patience)
	}
	return nil
}

// New returns the policy.
func New(c Config) (sched.Policy, error) {
	if err := c.validate(); err != nil {
		return nil, err
	}
	bound, err := pairing.New(pairing.Config{Limit: c.Slowdown, GPU: c.GPU, Mode: c.Mode})
	if err != nil {
		return nil, err
	}
	return &policy{Config: c, bound: bound}, nil
}

type policy struct {
	Config
	// Caches: what jobs with the guarantee leave, what all jobs leave, and the
	// latter with shares.
	hosts, idle, live *place.Free
	bound             *pairing.Bound   // also a cache
	harmed            pairing.Outcomes // pairs of a job with the guarantee and a guest that did not suit it
}

// Schedule implements sched.Policy.
func (p *policy) Schedule(s *sched.Snapshot) sched.Plan {
	p.hosts, p.idle, p.live = p.hosts.For(s.Cluster), p.idle.For(s.Cluster), p.live.For(s.Cluster)
	d := newDecision(p, s)
	d.classify()
	d.keep()
	d.guarantee()
	d.share()
	d.notes()
	return d.plan
}
