// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package themis

import (
	"fmt"
	"math"
	"time"

	"github.com/fairway-gpu/fairway/policy/auction"
	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/place"
)

// Config tunes the policy.
type Config struct {
	F        float64        `json:"f" help:"fairness knob, 0 to 1: only the worst-off fraction 1-f of the apps bids"`
	Lease    sched.Duration `json:"lease" help:"how long an app keeps GPUs before they are offered again"`
	Rounding string         `json:"rounding" help:"how the fraction of a win that an app keeps becomes whole gangs: mixed (keeps the expected number of GPUs), chance (all or nothing) or floor"`
	Ideal    string         `json:"ideal" help:"GPUs of an app alone: share (an equal part of the cluster) or paper (all of them, and the time times the number of apps)"`
	Offer    string         `json:"offer" help:"which expired leases are offered: surplus (as many as bidders need, from better-off apps) or all"`
	Forecast string         `json:"forecast" help:"GPUs by which the worst-off apps are found: share (those it has for one lease, then its share) or paper (those it has to its end; without any it is worst off)"`
	Patience int            `json:"patience" help:"leases that the worst-off app waits with nothing before those of better-off apps are open to it; 0: for ever"`
	Slowdown float64        `json:"slowdown" help:"a job waits rather than be slowed by more than this factor by being spread, 1 or more"`
	Rows     int            `json:"rows" help:"most rows in a bid"`
	Audit    bool           `json:"audit" help:"count no app as worse off than the progress of its jobs shows, whatever it claims"`
	Seed     uint64         `json:"seed" help:"seed for rounding and leftovers"`
	Error    float64        `json:"error" help:"for experiments: largest relative error of rho estimates, 0 to below 1"`
	Liar     string         `json:"liar" help:"for experiments: the app that reports claim times its rho"`
	Claim    float64        `json:"claim" help:"for experiments: the factor of the liar, above 0"`
}

// The values of Config.Rounding, Ideal, Offer and Forecast.
const (
	Mixed   = "mixed"
	Chance  = "chance"
	Floor   = "floor"
	Share   = "share"
	Paper   = "paper"
	Surplus = "surplus"
	All     = "all"
)

// Default returns the policy's default settings.
func Default() Config {
	return Config{
		F: 0.8, Lease: sched.Duration(10 * time.Minute), Rounding: Mixed, Ideal: Share, Offer: Surplus,
		Forecast: Share, Patience: 2, Slowdown: 1.05, Rows: 256, Seed: 1, Claim: 1, Audit: true,
	}
}

// AsPublished makes a config that of the paper: its finish times, every expired lease
// on offer, gangs that are spread rather than kept waiting, and trust in what apps
// report.
func AsPublished(c *Config) {
	c.Ideal, c.Forecast, c.Offer, c.Slowdown, c.Patience, c.Audit = Paper, Paper, All, maxSlowdown, 0, false
}

var roundings = map[string]auction.Rounding{Mixed: auction.Mixed, Chance: auction.Chance, Floor: auction.Floor}

func (c Config) validate() error {
	_, rounds := roundings[c.Rounding]
	switch {
	case !(c.F >= 0 && c.F <= 1):
		return fmt.Errorf("f = %g; want 0 to 1", c.F)
	case c.Lease.D() < time.Second:
		return fmt.Errorf("lease = %s; want 1s or more", c.Lease)
	case !rounds:
		return fmt.Errorf("rounding = %q; want %s, %s or %s", c.Rounding, Mixed, Chance, Floor)
	case c.Ideal != Share && c.Ideal != Paper:
		return fmt.Errorf("ideal = %q; want %s or %s", c.Ideal, Share, Paper)
	case c.Offer != Surplus && c.Offer != All:
		return fmt.Errorf("offer = %q; want %s or %s", c.Offer, Surplus, All)
	case c.Forecast != Share && c.Forecast != Paper:
		return fmt.Errorf("forecast = %q; want %s or %s", c.Forecast, Share, Paper)
	case c.Patience < 0:
		return fmt.Errorf("patience = %d; want 0 or more", c.Patience)
	case !(c.Slowdown >= 1) || math.IsInf(c.Slowdown, 1):
		return fmt.Errorf("slowdown = %g; want 1 or more", c.Slowdown)
	case !(c.Error >= 0 && c.Error < 1):
		return fmt.Errorf("error = %g; want 0 to below 1", c.Error)
	case !(c.Claim > 0) || math.IsInf(c.Claim, 1):
		return fmt.Errorf("claim = %g; want more than 0", c.Claim)
	case c.Rows < placements+1 || c.Rows > auction.DefaultMaxRows:
		return fmt.Errorf("rows = %d; want %d to %d", c.Rows, placements+1, auction.DefaultMaxRows)
	}
	return nil
}

// New returns the policy.
func New(c Config) (sched.Policy, error) {
	return &policy{Config: c}, c.validate()
}

type policy struct {
	Config
	free   *place.Free // a cache
	memory memory
}

// memory is what the last decision has left to write into, so that a decision about many
// jobs gives the garbage collector less to do.
type memory struct {
	apps []app
	jobs []job
}

// Schedule implements sched.Policy.
func (p *policy) Schedule(s *sched.Snapshot) sched.Plan {
	p.free = p.free.For(s.Cluster)
	r := newRound(p.Config, s, p.free, &p.memory)
	if r.hungry() {
		r.auction()
	}
	r.renewAll()
	r.fill()
	r.grow()
	r.fill() // a job that moved to grow may have left what another can use
	return r.finish()
}
