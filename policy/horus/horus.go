// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package horus

import (
	"fmt"
	"time"

	"github.com/fairway-gpu/fairway/policy/pairing"
	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/place"
)

// Config tunes the policy.
type Config struct {
	W1        float64        `json:"w1" help:"weight of GPU memory in the cost of a placement"`
	W2        float64        `json:"w2" help:"weight of GPU utilisation in the cost of a placement"`
	Over      float64        `json:"over" help:"cost of utilisation above 1, relative to that of unused utilisation"`
	Crowd     float64        `json:"crowd" help:"cost of each job that is already on a GPU"`
	Jobs      int            `json:"jobs" help:"most jobs on a GPU"`
	Margin    int64          `json:"margin" help:"GPU memory that stays free on a shared GPU, in MiB"`
	Slowdown  float64        `json:"slowdown" help:"highest predicted slowdown of any job on a GPU, such as 1.3; 0: no bound, as in the paper"`
	GPU       string         `json:"gpu" help:"GPU type whose interference model predicts slowdowns; auto: that of each node, or the published curve"`
	Mode      string         `json:"mode" help:"how jobs share a GPU: time-slice or mps"`
	Lookahead int            `json:"lookahead" help:"horus: jobs that may fail to fit before a decision stops looking"`
	K         int            `json:"k" help:"horus+: number of job classes"`
	Beta      int            `json:"beta" help:"horus+: jobs in a round; class weights are updated after each round"`
	Patience  sched.Duration `json:"patience" help:"a job that has waited this long goes first, and GPUs are reserved for it"`
	Reserve   float64        `json:"reserve" help:"largest share of the cluster's GPUs reserved for such jobs"`
	Migrate   bool           `json:"migrate" help:"when a GPU is idle and another has more than two jobs, stop the busiest job there and queue it again"`
}

// Default returns the policies' default settings.
func Default() Config {
	return Config{
		W1: 1.3, W2: 1, Over: 1.6, Crowd: 1, Jobs: 3, Margin: 500, Slowdown: 1.3, GPU: pairing.Auto, Mode: "time-slice",
		Lookahead: 5, K: 3, Beta: 5, Patience: sched.Duration(6 * time.Hour), Reserve: 0.25,
	}
}

func (c Config) validate() error {
	for _, w := range []struct {
		name  string
		value float64
	}{{"w1", c.W1}, {"w2", c.W2}, {"over", c.Over}, {"crowd", c.Crowd}} {
		if !(w.value >= 0 && w.value <= 1e6) {
			return fmt.Errorf("%s = %g; want 0 to 1e6", w.name, w.value)
		}
	}
	switch {
	case c.Jobs < 1 || c.Jobs > pairing.MostJobs:
		return fmt.Errorf("jobs = %d; want 1 (no sharing) to %d", c.Jobs, pairing.MostJobs)
	case c.Margin < 0 || c.Margin > 1<<30:
		return fmt.Errorf("margin = %d; want 0 or more MiB", c.Margin)
	case c.Lookahead < 1 || c.K < 1 || c.K > 64 || c.Beta < 1:
		return fmt.Errorf("lookahead = %d, k = %d, beta = %d; want 1 or more, and k at most 64", c.Lookahead, c.K, c.Beta)
	case c.Patience <= 0:
		return fmt.Errorf("patience = %s; want a positive duration", c.Patience)
	case !(c.Reserve >= 0 && c.Reserve <= 1):
		return fmt.Errorf("reserve = %g; want 0 to 1", c.Reserve)
	}
	return nil
}

// New returns the policy horus.
func New(c Config) (sched.Policy, error) { return build(c, false) }

// NewPlus returns the policy horus+.
func NewPlus(c Config) (sched.Policy, error) { return build(c, true) }

func build(c Config, plus bool) (sched.Policy, error) {
	if err := c.validate(); err != nil {
		return nil, err
	}
	bound, err := pairing.New(pairing.Config{Limit: c.Slowdown, GPU: c.GPU, Mode: c.Mode})
	if err != nil {
		return nil, err
	}
	return &policy{Config: c, plus: plus, bound: bound}, nil
}

type policy struct {
	Config
	plus bool
	// Caches.
	bound *pairing.Bound
	seats *place.SharedView
	free  *place.Free
}
