// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package sched

import (
	"maps"
	"math"
	"time"
)

// Policy decides who runs where. It depends on nothing but its argument; see
// the package comment for its duties.
type Policy interface {
	Schedule(*Snapshot) Plan
}

// Snapshot is the world at one moment. It is valid until the next call of
// State.Apply, and nobody may modify it.
type Snapshot struct {
	Now     time.Time
	Cluster *Cluster
	Tenants []Tenant // by ID
	Jobs    []*Job   // pending and running; in no order that means anything
	Outages Outages
	// Announcements is how far finished jobs were off what they had announced.
	Announcements Announcements

	tree *tree // of the tenants; nil: none has a parent
	apps map[AppID]*App
	// ActiveApps is the integral of the number of active apps until Now, in
	// app-seconds; Contention is made from it.
	ActiveApps float64
}

// Outages is how often a node goes out of use and comes back, as the driver has learned
// it. Its zero value: nobody knows.
type Outages struct {
	PerHour float64  // of one node
	Repair  Duration // mean time until the node is back
}

// Announcements is how far the work that jobs had announced was off what they had done when
// they finished. Its zero value: none has finished.
type Announcements struct {
	Jobs int     `json:"jobs"` // that the mean is of, recentAnnouncements at most
	Off  float64 `json:"off"`  // mean distance of the logarithms: 0.7 is a factor of two
}

// recentAnnouncements is after how many jobs older ones fade.
const recentAnnouncements = 20

// with returns the mean with one more job.
func (a Announcements) with(j *Job) Announcements {
	announced := j.Announced()
	if !(announced > 0 && j.Done > 0) {
		return a
	}
	a.Jobs = min(a.Jobs+1, recentAnnouncements)
	a.Off += (math.Abs(math.Log(j.Done/announced)) - a.Off) / float64(a.Jobs)
	return a
}

// With returns the same world with other jobs: a layer over a policy shows it
// fewer than there are, or holds GPUs back with one that nobody submitted. An app
// that nobody knows counts as new.
func (s *Snapshot) With(jobs []*Job) *Snapshot {
	out := *s
	out.Jobs = jobs
	copied := false
	for _, j := range jobs {
		if _, ok := out.apps[j.App]; ok {
			continue
		}
		if !copied {
			out.apps, copied = maps.Clone(s.apps), true
		}
		out.apps[j.App] = &App{ID: j.App, Tenant: j.Tenant, Submitted: s.Now, ActiveApps: s.ActiveApps, Active: 1}
	}
	return &out
}

// Tenant returns the index in Tenants of a job's tenant. A tenant nobody
// declared has no quota and weight 1; ok is false for it.
func (s *Snapshot) Tenant(j *Job) (i int, ok bool) { return j.tenant - 1, j.tenant > 0 }

// App returns the app of a job.
func (s *Snapshot) App(id AppID) (App, bool) {
	a, ok := s.apps[id]
	if !ok {
		return App{}, false
	}
	return *a, true
}

// AppOf is App without a copy; nil: nobody knows it.
func (s *Snapshot) AppOf(j *Job) *App { return s.apps[j.App] }

// Apps returns the number of apps that have pending or running jobs.
func (s *Snapshot) Apps() int { return len(s.apps) }

// Contention returns the mean number of active apps over an app's life.
func (s *Snapshot) Contention(a App) float64 {
	age := s.Now.Sub(a.Submitted).Seconds()
	if age <= 0 {
		return float64(len(s.apps))
	}
	return (s.ActiveApps - a.ActiveApps) / age
}

// Plan is what a policy wants. Want, Why, Notes and Screening run parallel to
// Snapshot.Jobs.
type Plan struct {
	Want []Placement // where the job should run; none: it should not
	Why  []Reason    // for every job that should not run
	// Notes, if not nil, replaces the note of every job.
	Notes []Note
	// Screening, if not nil, says which jobs are only screened: on any number of
	// GPUs up to what they ask for.
	Screening []bool
	// Suspend says that a job that loses its GPUs is suspended in place rather
	// than checkpointed: cheap to resume on the same GPUs, dear elsewhere.
	Suspend bool
	// Wake asks for another decision at that time even if nothing happens.
	Wake time.Time
	// Due is when the policy will act by the clock alone, as where a wait or a turn ends,
	// and Wake is no later. A forecast, which asks less often than Wake, does not pass it over.
	Due time.Time
	// Ledger holds what was weighed up about moving jobs, for people.
	Ledger []LedgerEntry
}

// LedgerEntry is one trade that was considered: some jobs lose so that another
// gains, in GPU-seconds.
type LedgerEntry struct {
	Layer string  `json:"layer"`           // who considered it
	For   JobID   `json:"for"`             // that gains
	Moved []JobID `json:"moved,omitempty"` // that pay
	Cost  float64 `json:"cost"`
	Gain  float64 `json:"gain"`
	Taken bool    `json:"taken"`
	Text  string  `json:"text"`
}

// NewPlan returns a plan for s in which nothing runs.
func NewPlan(s *Snapshot) Plan {
	return Plan{Want: make([]Placement, len(s.Jobs)), Why: make([]Reason, len(s.Jobs))}
}

// WakeBy asks to be woken at t, if that is earlier than what was asked before
// and after now.
func (p *Plan) WakeBy(now, t time.Time) { p.Wake = sooner(now, p.Wake, t) }

// DueBy asks the same, and that no forecast pass t over.
func (p *Plan) DueBy(now, t time.Time) {
	p.Due = sooner(now, p.Due, t)
	p.WakeBy(now, t)
}

// sooner returns t if it is after now and earlier than before.
func sooner(now, before, t time.Time) time.Time {
	if t.After(now) && (before.IsZero() || t.Before(before)) {
		return t
	}
	return before
}
