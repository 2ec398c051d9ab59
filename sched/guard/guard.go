// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Package guard stands between a policy and the jobs that run: it looks at the
// preemptions of a plan and takes back those that cost more than they should.
//
//   - bound: a job that was preempted Config.Bound times is not preempted again;
//   - cycle: a job is not preempted for one that it was, directly or through
//     others, given the GPUs of a moment ago;
//   - cheaper-victim: where the policy stops one of two jobs of the same tenant,
//     priority and shape, the one that loses less since its last checkpoint goes;
//   - settle: a job with an agent is not moved or resized before it has trained since
//     its last start, or Config.Settle has passed: the start would be for nothing.
//
// A job that was to get the GPUs of one that is kept stays where it is, or waits.
// A plan that was changed is checked again: where a job cannot be kept without
// breaking a rule of the house, the policy's own plan stands.
package guard

import (
	"fmt"
	"slices"
	"time"

	"github.com/fairway-gpu/fairway/sched"
)

// Config tunes the guard. A zero field switches its rule off.
type Config struct {
	Bound  int            `json:"bound"`  // most preemptions of one job
	Window sched.Duration `json:"window"` // two jobs that take each other's GPUs within this time are a cycle
	// Margin is how many times more GPU time the policy's victim must lose than
	// another for the guard to exchange them. Differences below a minute of one
	// GPU are left alone.
	Margin float64 `json:"margin"`
	// Settle is how long a job that was started may take to its first step before
	// it may be moved all the same.
	Settle sched.Duration `json:"settle"`
}

// Default returns the settings of a guard unless told otherwise.
func Default() Config {
	return Config{Bound: 30, Window: sched.Duration(time.Minute), Margin: 2, Settle: sched.Duration(10 * time.Minute)}
}

// Validate says what is wrong with the settings, if anything.
func (c Config) Validate() error {
	switch {
	case c.Bound < 0:
		return fmt.Errorf("bound = %d; want 0 (no bound) or more", c.Bound)
	case c.Window < 0:
		return fmt.Errorf("window = %s; want 0s (off) or more", c.Window)
	case c.Settle < 0:
		return fmt.Errorf("settle = %s; want 0s (off) or more", c.Settle)
	case !(c.Margin == 0 || c.Margin >= 1):
		return fmt.Errorf("margin = %g; want 0 (off), or 1 and more", c.Margin)
	}
	return nil
}

// Veto is a preemption that the policy wanted and the guard did not allow.
type Veto struct {
	Job  sched.JobID `json:"job"` // that keeps its GPUs
	Rule string      `json:"rule"`
	Text string      `json:"text"`
}

// taking says that a job lost GPUs and who got them.
type taking struct {
	at     time.Time
	victim sched.JobID
	by     []sched.JobID
}

// Guard reviews the plans of one policy after the other. It remembers who took
// GPUs from whom within the window; forgetting that only forgets cycles.
type Guard struct {
	Config
	taken  []taking
	vetoes []Veto
}

// New returns a guard.
func New(c Config) (*Guard, error) {
	if err := c.Validate(); err != nil {
		return nil, fmt.Errorf("guard: %w", err)
	}
	return &Guard{Config: c}, nil
}

// Over returns a policy that plans like p and is reviewed by the guard.
func (g *Guard) Over(p sched.Policy) sched.Policy { return guarded{g, p} }

// Vetoes returns what the last review changed.
func (g *Guard) Vetoes() []Veto { return g.vetoes }

type guarded struct {
	*Guard
	policy sched.Policy
}

func (g guarded) String() string {
	if n, ok := g.policy.(fmt.Stringer); ok {
		return n.String()
	}
	return fmt.Sprintf("%T", g.policy)
}

// Schedule implements sched.Policy.
func (g guarded) Schedule(s *sched.Snapshot) sched.Plan {
	plan := sched.Ask(g.policy, s)
	g.vetoes = nil
	if len(plan.Want) != len(s.Jobs) || len(plan.Why) != len(s.Jobs) || !g.concerned(s, plan) {
		return plan
	}
	if len(sched.Check(s, plan)) > 0 {
		return plan // the policy has a bug, and Decide will say which
	}
	r := review{s: s, plan: clone(plan), guard: g.Guard}
	if r.exchange(); len(r.vetoes) > 0 && len(sched.Check(s, r.plan)) > 0 {
		r = review{s: s, plan: clone(plan), guard: g.Guard}
	}
	r.veto()
	if len(r.vetoes) == 0 {
		return plan
	}
	g.vetoes = r.vetoes
	return r.plan
}

// Carried tells the guard that a plan it reviewed is carried out.
func (g *Guard) Carried(s *sched.Snapshot, plan sched.Plan) {
	g.taken = slices.DeleteFunc(g.taken, func(t taking) bool { return s.Now.Sub(t.at) > g.Window.D() })
	if g.Window == 0 {
		return
	}
	for i, j := range s.Jobs {
		if stopped(j, plan, i) {
			if by := takers(s, plan, i); len(by) > 0 {
				g.taken = append(g.taken, taking{at: s.Now, victim: j.ID, by: by})
			}
		}
	}
}

// concerned reports whether the plan does something that a rule may forbid.
func (g *Guard) concerned(s *sched.Snapshot, plan sched.Plan) bool {
	for i, j := range s.Jobs {
		if stopped(j, plan, i) || g.hasty(s, plan, i) {
			return true
		}
	}
	return false
}

// hasty reports whether the plan moves or resizes job i before its agent has reported
// that it trains where it is.
func (g *Guard) hasty(s *sched.Snapshot, plan sched.Plan, i int) bool {
	j := s.Jobs[i]
	return j.Phase == sched.Running && !j.Screening && j.Can > sched.Unproven && j.Rate == 0 && s.Now.Sub(j.Since) < g.Settle.D() &&
		len(plan.Want[i]) > 0 && !plan.Want[i].Equal(j.Placement)
}

// stopped reports whether job i loses its GPUs against its interest. One that is
// only screened is meant to.
func stopped(j *sched.Job, plan sched.Plan, i int) bool {
	return j.Phase == sched.Running && !j.Screening && len(plan.Want[i]) == 0
}

func clone(p sched.Plan) sched.Plan {
	p.Want, p.Why = slices.Clone(p.Want), slices.Clone(p.Why)
	return p
}

// takers returns the jobs that get GPUs which job i holds now.
func takers(s *sched.Snapshot, plan sched.Plan, i int) []sched.JobID {
	var by []sched.JobID
	for k, want := range plan.Want {
		if k != i && !want.Equal(s.Jobs[k].Placement) && overlap(want, s.Jobs[i].Placement) {
			by = append(by, s.Jobs[k].ID)
		}
	}
	return by
}

func overlap(p, q sched.Placement) bool {
	for _, a := range p {
		for _, b := range q {
			if a.Node == b.Node && a.GPUs&b.GPUs != 0 {
				return true
			}
		}
	}
	return false
}
