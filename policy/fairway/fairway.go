// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package fairway

import (
	"fmt"
	"time"

	"github.com/fairway-gpu/fairway/policy/division"
	"github.com/fairway-gpu/fairway/policy/layer/share"
	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/place"
)

// Config tunes the policy.
type Config struct {
	Rank      float64        `json:"rank" help:"exponent of a job's rank by work left, as its weight: 0 makes all jobs equal"`
	Power     float64        `json:"power" help:"exponent of a job's speed in its value: 1 favours the fastest, less spreads GPUs"`
	Restart   sched.Duration `json:"restart" help:"assumed cost of changing the GPUs of a job that has not measured it"`
	Settle    sched.Duration `json:"settle" help:"how long a change of GPUs is expected to last, for a job that has just started"`
	Wait      sched.Duration `json:"wait" help:"a job that has waited this long goes before all others; 0s: never"`
	Turn      sched.Duration `json:"turn" help:"how long such a job keeps its GPUs at least"`
	Bound     float64        `json:"bound" help:"finish-time fairness beyond which a job is given its share first; 0: no bound"`
	Tenants   bool           `json:"tenants" help:"a tenant below its share goes before those above theirs"`
	Share     bool           `json:"share" help:"let jobs that allow it share GPUs where the slowdown is expected to be small"`
	Apart     bool           `json:"apart" help:"avoid interference: a node hosts at most one job that spans several nodes, unless one would wait beside idle GPUs"`
	Whole     int            `json:"whole" help:"up to this many jobs, every decision divides the whole cluster again; beyond, the part around what has changed"`
	Interval  sched.Duration `json:"interval" help:"time between decisions when nothing happens"`
	Seed      uint64         `json:"seed" help:"seed of the search"`
	Placement place.Rule     `json:"placement"`
}

// Default returns the policy's default settings.
func Default() Config {
	return Config{
		Rank: 1.25, Power: 0.5, Restart: sched.Duration(30 * time.Second), Settle: sched.Duration(10 * time.Minute),
		Wait: sched.Duration(4 * time.Hour), Turn: sched.Duration(30 * time.Minute), Bound: 1.3,
		Tenants: true, Share: true, Apart: true, Whole: 1000, Interval: sched.Duration(time.Minute), Seed: 1, Placement: place.IfSkewed,
	}
}

func (c Config) validate() error {
	const longest = 365 * 24 * time.Hour
	switch {
	case !(c.Rank >= 0 && c.Rank <= 10):
		return fmt.Errorf("rank = %g; want 0 to 10", c.Rank)
	case !(c.Power > 0 && c.Power <= 1):
		return fmt.Errorf("power = %g; want above 0 to 1", c.Power)
	case c.Restart < 0 || c.Restart.D() > 24*time.Hour:
		return fmt.Errorf("restart = %s; want 0s to 24h", c.Restart)
	case c.Settle <= 0 || c.Settle.D() > longest:
		return fmt.Errorf("settle = %s; want more than 0s, and at most 365d", c.Settle)
	case c.Wait < 0 || c.Wait.D() > longest:
		return fmt.Errorf("wait = %s; want 0s (never) to 365d", c.Wait)
	case c.Turn.D() < time.Second || c.Turn.D() > longest:
		return fmt.Errorf("turn = %s; want 1s to 365d", c.Turn)
	case c.Bound != 0 && !(c.Bound >= 1 && c.Bound <= 1000):
		return fmt.Errorf("bound = %g; want 0 (none), or 1 to 1000", c.Bound)
	case c.Whole < 0:
		return fmt.Errorf("whole = %d; want 0 or more", c.Whole)
	case c.Interval.D() < time.Second:
		return fmt.Errorf("interval = %s; want 1s or more", c.Interval)
	}
	return nil
}

// seats is the most jobs on a GPU: the bound on the slowdown, not their number, is what
// limits light jobs.
const seats = 4

// New returns the policy.
func New(c Config) (sched.Policy, error) {
	if err := c.validate(); err != nil {
		return nil, err
	}
	queue, err := place.Queue{Preempt: true}.Placing(c.Placement)
	if err != nil {
		return nil, err
	}
	core := &policy{Config: c, queue: queue}
	core.value.policy = core
	core.divider = division.Divider{Objective: &core.value, Search: division.Fast(c.Seed)}
	if !c.Share {
		return core, nil
	}
	sharing := share.Default()
	sharing.Jobs = seats
	// The bound is a promise, so a pair that is measured to exceed it is parted at once. And
	// of those that wait, only the oldest has GPUs kept free of guests: all have a longest wait.
	sharing.Patience, sharing.Reserve = 1, 0
	layer, err := share.New(sharing)
	if err != nil {
		return nil, err
	}
	return layer(core), nil
}

type policy struct {
	Config
	queue   place.Queue
	divider division.Divider
	value   value

	// Caches.
	free    *place.Free
	crowded *place.Free // of others
	powers  []float64   // by rank, from 0: the weight of a job without priority
}

// Schedule implements sched.Policy.
func (p *policy) Schedule(s *sched.Snapshot) sched.Plan {
	p.divider.Begin()
	w := p.weigh(s)
	var plan sched.Plan
	if w.divides() {
		plan = p.divide(w)
	} else {
		plan = p.line(w)
	}
	w.remember(&plan)
	w.promise(&plan)
	p.wake(w, &plan)
	return plan
}

// divide plans a world in which some jobs may have another size.
func (p *policy) divide(w *world) sched.Plan {
	p.value.world = w
	rules := division.Rules{Apart: p.Apart, Fixed: w.fix(), Limits: w.limit()}
	rules.Leave = w.leave(rules.Fixed)
	plan := p.divider.Divide(w.s, rules)
	p.fill(w, &plan)
	return plan
}

// fill lets jobs run on GPUs that the division left idle: a tenant's share limits nobody
// while others do not use theirs, and a job that is worth little now is worth more than an
// idle GPU. Those that ran on them stay.
func (p *policy) fill(w *world, plan *sched.Plan) {
	if w.idle(plan.Want).sum() == 0 {
		return
	}
	r := rest{world: w, quota: place.NewQuota(w.s), spanned: make([]bool, len(w.s.Cluster.Nodes))}
	p.free = p.free.For(w.s.Cluster)
	for i, j := range w.s.Jobs {
		r.take(j, plan.Want[i])
	}
	order, withheld := w.order(), place.Withheld(w.s)
	for _, find := range []func(*sched.Job) sched.Placement{r.same, r.somewhere} {
		for _, i := range order {
			j := w.s.Jobs[i]
			if len(plan.Want[i]) > 0 || !j.Ready(w.s.Now) || withheld != nil && withheld[i] {
				continue
			}
			if at := find(j); at != nil {
				plan.Want[i], plan.Why[i] = at, sched.Reason{}
			}
		}
	}
}

// rest is what a division left idle, in policy.free.
type rest struct {
	*world
	quota   place.Quota
	spanned []bool // by node: a job that spans several nodes is there
}

func (r *rest) take(j *sched.Job, at sched.Placement) {
	r.free.Take(j, at)
	r.book(j, at)
}

func (r *rest) book(j *sched.Job, at sched.Placement) {
	r.quota.AddMilli(j, at.Milli())
	for _, s := range at {
		r.spanned[s.Node] = r.spanned[s.Node] || len(at) > 1
	}
}

// same returns the GPUs of a running job if they are idle.
func (r *rest) same(j *sched.Job) sched.Placement {
	at := j.Placement
	if j.Phase != sched.Running || !r.free.Fits(j, at) || !r.quota.Fits(j, at) {
		return nil
	}
	r.take(j, at)
	return at
}

// somewhere returns idle GPUs for a job. To disturb others that span several nodes is
// better than to wait, unless it would be for good.
func (r *rest) somewhere(j *sched.Job) sched.Placement {
	n := j.StartSize()
	if j.Elastic() {
		n = j.NextSize(0)
	}
	if n < 1 || n > r.free.Total() || r.quota.Left(j) < n {
		return nil
	}
	at, ok := r.free.Within(j, n, sched.SameMachine)
	if !ok && r.Apart {
		at, ok = r.free.Outside(r.spanned, j, n, sched.CrossRack)
	}
	if !ok && !(r.Apart && j.Pinned()) {
		at, ok = r.free.Within(j, n, sched.CrossRack)
	}
	if !ok {
		return nil
	}
	r.book(j, at)
	return at
}

// line plans a world of jobs that all have one size: the most urgent first.
func (p *policy) line(w *world) sched.Plan {
	p.free = p.free.For(w.s.Cluster)
	queue := p.queue
	queue.Keep = w.keeps
	return queue.Plan(w.s, w.order(), p.free)
}

// wake asks for the next decision: when a job becomes due, when a turn ends, and from
// time to time while a job may be resized or waits.
func (p *policy) wake(w *world, plan *sched.Plan) {
	again := false
	for i, j := range w.s.Jobs {
		runs := len(plan.Want[i]) > 0
		waits := place.Waits(*plan, i)
		again = again || waits || runs && j.Elastic() && !j.Pinned()
		if waits && p.Wait > 0 && j.Phase == sched.Pending {
			plan.DueBy(w.s.Now, p.dueAt(j))
		}
		if runs && w.jobs[i].inTurn {
			plan.DueBy(w.s.Now, j.Note.Since.Add(p.Turn.D()))
		}
	}
	if again {
		plan.WakeBy(w.s.Now, w.s.Now.Add(p.Interval.D()))
	}
}
