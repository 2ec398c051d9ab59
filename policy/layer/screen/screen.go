// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Package screen runs new gangs first for a few minutes on a few GPUs of a small
// pool: the layer "@screen". A job that crashes there never holds the GPUs of its
// whole gang. The rule comes from the Philly study (ATC'19, section 5: "fail early")
// and resembles the profiler of Lucid (ASPLOS'23).
//
// The driver decides which jobs are new: a job with Spec.Screen is screened for that
// long, one without is trusted (see diagnose.ScreenFor). A gang whose program cannot
// run on one task must be submitted without it. A job that may not be stopped is not
// screened, because it could not leave the pool.
//
// # The pool
//
// Unless the knob pool names a label, and so a set of nodes, the pool is a number of
// GPUs, which follows demand: those of jobs that are being screened or wait for it,
// and some spare ones, within bounds. It never takes a GPU from a job, but has the
// first choice of GPUs that come free, from the nodes with the fewest free GPUs, so
// that whole nodes stay free. A placeholder job hides the spare GPUs of the pool from
// the policy below. A job that is being screened is shown to the policy below as a
// job of that size that may not be stopped, so that quotas hold.
//
// When its time is up, a job leaves the pool and competes for its gang like any
// other; an elastic job that can run at the size of a screening continues until the
// policy below gives it more.
//
// # When screening would do harm
//
//   - While no job waits, a gang starts in full at once if enough GPUs stay free (the
//     knob idle), or if the pool is full.
//   - A job that has waited for the pool longer than patience is not screened.
//   - While a gang of the policy below has waited for twice that, no GPU is kept for
//     the pool; and while it could start if no job were screened, no further job is.
package screen

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/place"
)

// Config tunes the layer.
type Config struct {
	Above    int            `json:"above" help:"jobs that ask for more GPUs than this are screened"`
	GPUs     int            `json:"gpus" help:"GPUs of a screening, at least one task"`
	Most     float64        `json:"most" help:"largest share of the cluster's GPUs in the pool; one screening is always possible"`
	Least    int            `json:"least" help:"GPUs kept for the pool while no job is new"`
	Spare    float64        `json:"spare" help:"extra GPUs of the pool, as a share of those that new jobs use and wait for"`
	Idle     float64        `json:"idle" help:"while no job waits, a new job starts in full if this share of the GPUs stays free, or if the pool is full; 0: never"`
	Pool     string         `json:"pool" help:"label of the nodes for screening, all of which belong to the pool; empty: any nodes, within most; no node with the label: no screening"`
	Patience sched.Duration `json:"patience" help:"a new job that has waited this long skips screening; after twice that, the pool gives way to a job that would run without it"`
}

// Default returns the layer's default settings.
func Default() Config {
	return Config{Above: 1, GPUs: 1, Most: 0.05, Spare: 0.25, Idle: 0.5, Patience: sched.Duration(30 * time.Minute)}
}

func (c Config) validate() error {
	switch {
	case c.Above < 0:
		return fmt.Errorf("above = %d; want 0 or more", c.Above)
	case c.GPUs < 1:
		return fmt.Errorf("gpus = %d; want 1 or more", c.GPUs)
	case !(c.Most > 0 && c.Most <= 1):
		return fmt.Errorf("most = %g; want above 0, to 1", c.Most)
	case c.Least < 0:
		return fmt.Errorf("least = %d; want 0 or more", c.Least)
	case !(c.Spare >= 0 && c.Spare <= 10):
		return fmt.Errorf("spare = %g; want 0 to 10", c.Spare)
	case !(c.Idle >= 0 && c.Idle <= 1):
		return fmt.Errorf("idle = %g; want 0 to 1", c.Idle)
	case c.Pool != "" && sched.CheckLabel(c.Pool) != nil:
		return fmt.Errorf("pool: %w", sched.CheckLabel(c.Pool))
	case c.Patience <= 0:
		return fmt.Errorf("patience = %s; want more than 0", c.Patience)
	}
	return nil
}

// New returns the layer.
func New(c Config) (func(sched.Policy) sched.Policy, error) {
	if err := c.validate(); err != nil {
		return nil, err
	}
	return func(inner sched.Policy) sched.Policy { return &policy{Config: c, inner: inner} }, nil
}

type policy struct {
	Config
	inner sched.Policy
	free  *place.Free // a cache
}

// role says what the layer does with a job.
type role uint8

const (
	trusted  role = iota // the policy below sees it as it is
	waiting              // it is new and waits for the pool: hidden
	screened             // it is being screened: seen as a small job that stays
	leaving              // its screening is over: seen as one that waits for its gang
)

// Schedule implements sched.Policy.
func (p *policy) Schedule(s *sched.Snapshot) sched.Plan {
	d := p.sort(s)
	if d == nil {
		return p.inner.Schedule(s)
	}
	d.fill()
	seen, from := d.view()
	inner := p.inner.Schedule(s.With(seen))
	return d.plan(inner, from)
}

// sort gives every job its role. It returns nil if the layer has nothing to do.
func (p *policy) sort(s *sched.Snapshot) *decision {
	var d *decision
	largest := p.most(s.Cluster)
	begin := func() *decision {
		return &decision{policy: p, s: s, largest: largest, roles: make([]role, len(s.Jobs)), at: make([]sched.Placement, len(s.Jobs))}
	}
	for i, j := range s.Jobs {
		r := p.roleOf(s, j)
		if r == trusted || r == waiting && largest == 0 {
			continue
		}
		if d == nil {
			d = begin()
		}
		d.roles[i] = r
		switch r {
		case waiting:
			d.queue = append(d.queue, i)
		case screened:
			d.at[i] = j.Placement
			d.used += j.Placement.GPUs()
		}
	}
	if d == nil && p.Least > 0 {
		d = begin()
	}
	return d
}

func (p *policy) roleOf(s *sched.Snapshot, j *sched.Job) role {
	switch {
	case j.Phase == sched.Running && j.Screening && !j.OnProbation(s.Now):
		return leaving
	case j.Phase == sched.Running && p.inPool(j) && j.OnProbation(s.Now):
		return screened
	case j.Phase == sched.Running || !j.OnProbation(s.Now):
		if len(j.Suspended) > 0 && !j.Fits(j.Suspended.GPUs()) {
			return leaving // what it left in the pool is of no use to the gang
		}
		return trusted
	case j.Pinned() || j.GPUs <= p.Above || p.size(j) >= j.GPUs || s.Now.Sub(j.Since) >= p.Patience.D():
		return trusted
	}
	return waiting
}

// inPool reports whether a running job was started by the layer. An elastic one is
// recognised by its size.
func (p *policy) inPool(j *sched.Job) bool {
	n := j.Placement.GPUs()
	return j.Screening || (n <= p.size(j) && n < j.GPUs)
}

// size returns the GPUs for the screening of a job: whole tasks.
func (p *policy) size(j *sched.Job) int {
	task := j.Task()
	return (p.GPUs + task - 1) / task * task
}

// most returns the largest size of the pool.
func (p *policy) most(c *sched.Cluster) int {
	if p.Pool != "" {
		n := 0
		for i := range c.Nodes {
			if p.inPoolNode(&c.Nodes[i]) {
				n += c.Nodes[i].Usable().Len()
			}
		}
		return n
	}
	return max(1, p.Least, int(math.Floor(p.Most*float64(c.GPUs()))))
}

// inPoolNode reports whether jobs are screened on a node.
func (p *policy) inPoolNode(n *sched.Node) bool {
	return n.State == sched.Ready && slices.Contains(n.Labels, p.Pool)
}

// bySubmission orders indexes of jobs: larger priorities first, then first come,
// first served.
func bySubmission(s *sched.Snapshot, order []int) {
	slices.SortFunc(order, func(a, b int) int {
		x, y := s.Jobs[a], s.Jobs[b]
		if x.Priority != y.Priority {
			return y.Priority - x.Priority
		}
		return int(x.Seq - y.Seq)
	})
}
