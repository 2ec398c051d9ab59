// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package gandiva

import (
	"fmt"
	"time"

	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/place"
)

// Config tunes the policy.
type Config struct {
	Slice         sched.Duration `json:"slice" help:"length of a time slice"`
	MaxHeight     int            `json:"max_height" help:"most jobs that may share a GPU by time slices; 1: none share"`
	Patience      sched.Duration `json:"patience" help:"a job that has found no server for this long holds back all later jobs"`
	Pack          bool           `json:"pack" help:"run two jobs at the same time on the same GPUs when the cluster is overloaded"`
	MaxPackedUtil float64        `json:"max_packed_util" help:"highest total GPU utilisation of two jobs for which packing is tried"`
	PackMargin    float64        `json:"pack_margin" help:"how much faster than time slices packing must be by measurement, as a share of one job's speed"`
	Profile       sched.Duration `json:"profile" help:"how long a job runs alone before it may be packed"`
	Trial         sched.Duration `json:"trial" help:"how long packed or migrated jobs run before their measured speed decides whether that is undone"`
	Moves         int            `json:"moves" help:"most jobs that one decision migrates; 0: none"`
	Settle        sched.Duration `json:"settle" help:"how long a job runs in one place before it may be migrated"`
	Grow          bool           `json:"grow" help:"let elastic jobs use idle GPUs of their server"`
	GrowAfter     sched.Duration `json:"grow_after" help:"how long GPUs are idle before an elastic job takes them"`
}

// Default returns the policy's default settings.
func Default() Config {
	return Config{
		Slice:         sched.Duration(time.Minute),
		MaxHeight:     2,
		Patience:      sched.Duration(10 * time.Minute),
		Pack:          true,
		MaxPackedUtil: 2,
		PackMargin:    0.1,
		Profile:       sched.Duration(time.Minute),
		Trial:         sched.Duration(2 * time.Minute),
		Moves:         2,
		Settle:        sched.Duration(10 * time.Minute),
		Grow:          true,
		GrowAfter:     sched.Duration(5 * time.Minute),
	}
}

// highest bounds max_height: a GPU's height is kept in a byte.
const highest = 100

func (c Config) validate() error {
	switch {
	case c.Slice.D() < time.Second:
		return fmt.Errorf("slice = %s; want 1s or more", c.Slice)
	case c.MaxHeight < 1 || c.MaxHeight > highest:
		return fmt.Errorf("max_height = %d; want 1 to %d", c.MaxHeight, highest)
	case c.Patience < 0:
		return fmt.Errorf("patience = %s; want 0s or more", c.Patience)
	case !(c.MaxPackedUtil >= 0 && c.MaxPackedUtil <= 2):
		return fmt.Errorf("max_packed_util = %g; want 0 to 2", c.MaxPackedUtil)
	case !(c.PackMargin >= 0 && c.PackMargin < 1):
		return fmt.Errorf("pack_margin = %g; want 0 to below 1", c.PackMargin)
	case c.Profile < 0:
		return fmt.Errorf("profile = %s; want 0s or more", c.Profile)
	case c.Trial < 0:
		return fmt.Errorf("trial = %s; want 0s or more", c.Trial)
	case c.Moves < 0:
		return fmt.Errorf("moves = %d; want 0 or more", c.Moves)
	case c.Settle < 0:
		return fmt.Errorf("settle = %s; want 0s or more", c.Settle)
	case c.GrowAfter < 0:
		return fmt.Errorf("grow_after = %s; want 0s or more", c.GrowAfter)
	}
	return nil
}

// New returns the policy.
func New(c Config) (sched.Policy, error) {
	return &policy{Config: c}, c.validate()
}

type policy struct {
	Config
	live, idle *place.Free       // caches
	could      place.Empty[bool] // a cache
	memory
}

// Schedule implements sched.Policy.
func (p *policy) Schedule(s *sched.Snapshot) sched.Plan {
	p.live, p.idle = p.live.For(s.Cluster), p.idle.For(s.Cluster)
	p.could.Reset(s.Cluster)
	d := newDecision(p, s)
	d.keep()
	d.introspect()
	d.arrive()
	d.pack()
	d.timeSlice()
	d.move()
	d.grow()
	return d.plan
}
