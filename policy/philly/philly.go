// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package philly

import (
	"fmt"
	"time"

	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/place"
)

// Config tunes the policy.
type Config struct {
	GangTimeout  sched.Duration `json:"gang_timeout" help:"how long a gang tries to get all its GPUs before it backs off"`
	BackOff      sched.Duration `json:"back_off" help:"how long a gang that timed out waits before it tries again"`
	Gather       bool           `json:"gather" help:"an incomplete gang keeps the free GPUs that it could use until its attempt ends, and they idle"`
	Retries      int            `json:"retries_per_rung" help:"failed attempts after which a job accepts the next wider locality level"`
	Relax        string         `json:"relax" help:"locality: on (relaxed step by step), proportional (the same, after waits in proportion to the run time), off (always strict) or at-once (never waited for)"`
	Patience     float64        `json:"patience" help:"relax=proportional: part of its expected run time that a job waits before it accepts the next wider locality level"`
	PreemptAbove float64        `json:"preempt_above" help:"share of the cluster's GPUs that must be in use before borrowed GPUs are taken back; more than 1: never"`
	Tick         sched.Duration `json:"tick" help:"attempts start at multiples of this"`
}

// The values of Config.Relax.
const (
	On           = "on"
	Proportional = "proportional"
	Off          = "off"
	AtOnce       = "at-once"
)

// Default returns the policy's default settings.
func Default() Config {
	return Config{
		GangTimeout:  sched.Duration(150 * time.Second),
		BackOff:      sched.Duration(2 * time.Minute),
		Retries:      5,
		Relax:        On,
		Patience:     place.StandardPatience().Part,
		PreemptAbove: 0.9,
		Tick:         sched.Duration(30 * time.Second),
	}
}

// longest bounds the knobs that are durations, so that sums of them are safe.
const longest = 365 * 24 * time.Hour

func (c Config) validate() error {
	switch {
	case c.GangTimeout < 0 || c.GangTimeout.D() > longest:
		return fmt.Errorf("gang_timeout = %s; want 0s to 365d", c.GangTimeout)
	case c.BackOff < 0 || c.BackOff.D() > longest:
		return fmt.Errorf("back_off = %s; want 0s to 365d", c.BackOff)
	case c.Tick.D() < time.Millisecond || c.Tick.D() > longest:
		return fmt.Errorf("tick = %s; want 1ms to 365d", c.Tick)
	case c.Retries < 1:
		return fmt.Errorf("retries_per_rung = %d; want 1 or more", c.Retries)
	case c.Relax != On && c.Relax != Proportional && c.Relax != Off && c.Relax != AtOnce:
		return fmt.Errorf("relax = %q; want %s, %s, %s or %s", c.Relax, On, Proportional, Off, AtOnce)
	case !(c.Patience >= 0 && c.Patience <= 100):
		return fmt.Errorf("patience = %g; want 0 to 100 times the run time", c.Patience)
	case !(c.PreemptAbove >= 0):
		return fmt.Errorf("preempt_above = %g; want 0 to 1, or more for never", c.PreemptAbove)
	}
	return nil
}

// New returns the policy.
func New(c Config) (sched.Policy, error) {
	return &policy{Config: c}, c.validate()
}

type policy struct {
	Config
	free  *place.Free           // a cache
	ideal place.Empty[locality] // a cache
}

// rung is how close together a job still insists on its GPUs.
type rung int

const (
	fewest   rung = iota // the fewest servers, in one domain
	domain               // any servers of one domain
	anywhere             // any servers
)

// attempt is one try of a gang to get its GPUs. It is kept in Job.Note: the rung in
// Level, the failed attempts on that rung (this one included) in Count, and the
// start of the next attempt in Since.
type attempt struct {
	rung  rung
	tries int
	next  time.Time
	open  bool // it is in progress; otherwise the job backs off
}

func (a attempt) note() sched.Note {
	return sched.Note{Level: int(a.rung), Count: a.tries, Since: a.next}
}

// attempt returns a waiting job's current attempt, a new one if it is due.
func (p *policy) attempt(j *sched.Job, now time.Time) attempt {
	note := j.Note
	a := attempt{rung: p.rung(note.Level), tries: note.Count, next: note.Since}
	next := p.after(now)
	// A time beyond the next attempt comes from another policy or other knobs.
	if now.Before(a.next) && !a.next.After(next) {
		a.open = now.Before(a.next.Add(-p.BackOff.D()))
		return a
	}
	if a.tries >= p.retries(j) && (p.Relax == On || p.Relax == Proportional) && a.rung < anywhere {
		a.rung++
		a.tries = 0
	}
	a.tries = max(0, a.tries) + 1
	a.next, a.open = next, true
	return a
}

// retries returns how many attempts a job makes on each rung.
func (p *policy) retries(j *sched.Job) int {
	if p.Relax != Proportional {
		return p.Retries
	}
	patience := place.StandardPatience()
	patience.Part = p.Patience
	each := max(p.GangTimeout.D()+p.BackOff.D(), 1)
	return int(max(1, (patience.Budget(j)+each-1)/each))
}

// after returns the start of the attempt after one that begins now.
func (p *policy) after(now time.Time) time.Time {
	next := now.Add(max(p.GangTimeout.D()+p.BackOff.D(), 1))
	if whole := next.Truncate(p.Tick.D()); !whole.Equal(next) {
		return whole.Add(p.Tick.D())
	}
	return next
}

func (p *policy) rung(level int) rung {
	switch p.Relax {
	case Off:
		return fewest
	case AtOnce:
		return anywhere
	}
	return min(max(rung(level), fewest), anywhere)
}
