// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package shockwave

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/place"
)

// Config tunes the policy.
type Config struct {
	Round     sched.Duration `json:"round" help:"length of a round; a started job runs at least this long"`
	Window    int            `json:"window" help:"rounds planned ahead"`
	Makespan  float64        `json:"makespan" help:"weight of a second of the longest remaining time against the progress of all jobs"`
	RhoMax    float64        `json:"rho_max" help:"finish-time fairness above which a job weighs more"`
	Lambda    float64        `json:"lambda" help:"exponent of that weight: finish-time fairness to this power"`
	Stick     float64        `json:"stick" help:"factor on the weight of a running job in the order of the next round"`
	Placement place.Rule     `json:"placement"`
}

// Default returns the policy's default settings.
func Default() Config {
	return Config{
		Round: sched.Duration(10 * time.Minute), Window: 20, Makespan: 1e-3, RhoMax: 1, Lambda: 5, Stick: 5, Placement: place.IfSkewed,
	}
}

func (c Config) validate() error {
	switch {
	case c.Round.D() < time.Second:
		return fmt.Errorf("round = %s; want 1s or more", c.Round)
	case c.Window < 1 || c.Window > 1000:
		return fmt.Errorf("window = %d; want 1 to 1000 rounds", c.Window)
	case !(c.Makespan >= 0 && c.Makespan <= 1e6):
		return fmt.Errorf("makespan = %g; want 0 to 1e6", c.Makespan)
	case !(c.RhoMax > 0 && c.RhoMax <= 1e6):
		return fmt.Errorf("rho_max = %g; want more than 0", c.RhoMax)
	case !(c.Lambda >= 0 && c.Lambda <= 100):
		return fmt.Errorf("lambda = %g; want 0 to 100", c.Lambda)
	case !(c.Stick >= 1 && c.Stick <= 1e6):
		return fmt.Errorf("stick = %g; want 1 or more", c.Stick)
	}
	return nil
}

// New returns the policy.
func New(c Config) (sched.Policy, error) {
	if err := c.validate(); err != nil {
		return nil, err
	}
	queue, err := place.Queue{Preempt: true}.Placing(c.Placement)
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
	order := p.order(s)
	lease := place.NewLease(s, p.Round.D())
	queue := p.queue
	queue.Keep = lease.Holds
	plan := queue.Plan(s, order, p.free)
	lease.Mark(s, order, &plan)
	p.wake(s, lease, &plan)
	return plan
}

// order plans the window and returns the jobs in the order of its first round: those
// that have every round of the window, then others with rounds by weight, then those
// without by the longest time left.
func (p *policy) order(s *sched.Snapshot) []int {
	jobs := p.forecast(s)
	window := problem{
		jobs: jobs, window: p.Window, capacity: p.Window * s.Cluster.GPUs(),
		makespan: p.Makespan * p.Round.D().Seconds() * float64(p.Window*len(jobs)),
	}
	window.prepare()
	rounds := window.solve().rounds
	class := func(k int) int { return min(1, rounds[k]) + min(1, rounds[k]/p.Window) }
	rank := func(x *job) float64 {
		if x.running {
			return x.weight * p.Stick
		}
		return x.weight
	}
	at := make([]int, len(jobs))
	for k := range at {
		at[k] = k
	}
	slices.SortStableFunc(at, func(a, b int) int {
		x, y := &jobs[a], &jobs[b]
		switch c := class(a); {
		case c != class(b):
			return cmp.Compare(class(b), c)
		case c == 0:
			return cmp.Compare(y.left, x.left)
		}
		return cmp.Or(cmp.Compare(rank(y), rank(x)), cmp.Compare(rounds[b], rounds[a]))
	})
	order := make([]int, len(at))
	for k, a := range at {
		order[k] = jobs[a].index
	}
	return order
}

// wake asks for a decision at the end of a round, if a job waits.
func (p *policy) wake(s *sched.Snapshot, lease place.Lease, plan *sched.Plan) {
	for i := range s.Jobs {
		if place.Waits(*plan, i) {
			lease.Wake(plan, s.Now.Add(p.Round.D()))
			return
		}
	}
}
