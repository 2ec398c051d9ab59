// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package optimus

import (
	"fmt"
	"time"

	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/place"
)

// Config tunes the policy.
type Config struct {
	Form  string         `json:"form" help:"oracle (true step times and remaining steps) or original (both fitted to what agents measure, as in the paper)"`
	Every sched.Duration `json:"every" help:"decide again after this long even if nothing happens, because gains change as jobs progress; 0s: never"`
	Damp  float64        `json:"damp" help:"original: factor on the gain of a young job"`
	Young sched.Duration `json:"young" help:"original: a job is young until it has run this long"`
}

// The values of Config.Form.
const (
	Oracle   = "oracle"
	Original = "original"
)

// Default returns the policy's default settings.
func Default() Config {
	return Config{Form: Oracle, Every: sched.Duration(time.Minute), Damp: 0.95, Young: sched.Duration(10 * time.Minute)}
}

// UseOriginal makes it the form of the paper, with its time between decisions.
func (c *Config) UseOriginal() { c.Form, c.Every = Original, sched.Duration(10*time.Minute) }

func (c Config) validate() error {
	switch {
	case c.Form != Oracle && c.Form != Original:
		return fmt.Errorf("form = %q; want %s or %s", c.Form, Oracle, Original)
	case c.Every < 0 || (c.Every > 0 && c.Every.D() < time.Second):
		return fmt.Errorf("every = %s; want 0s (never) or 1s and more", c.Every)
	case !(c.Damp > 0 && c.Damp <= 1):
		return fmt.Errorf("damp = %g; want more than 0, up to 1", c.Damp)
	case c.Young < 0:
		return fmt.Errorf("young = %s; want 0s or more", c.Young)
	}
	return nil
}

// New returns the policy.
func New(c Config) (sched.Policy, error) {
	return &policy{Config: c, fits: fits{}}, c.validate()
}

type policy struct {
	Config
	free *place.Free // a cache
	fits fits        // a cache
}

// tries is how often the shares are computed, each time knowing which placements do
// not exist.
const tries = 2

// Schedule implements sched.Policy.
func (p *policy) Schedule(s *sched.Snapshot) sched.Plan {
	p.free = p.free.For(s.Cluster)
	d := decision{s: s, free: p.free, plan: sched.NewPlan(s), quota: place.NewQuota(s)}
	d.claims = p.claims(s)
	for try := 1; ; try++ {
		d.begin()
		d.share()
		d.grow()
		if d.place() || try == tries {
			break
		}
	}
	d.fill()
	if p.Every > 0 && d.changeable() {
		d.plan.WakeBy(s.Now, s.Now.Add(p.Every.D()))
	}
	return d.plan
}
