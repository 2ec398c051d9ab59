// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Package tiresias is the discretised two-dimensional scheduler of Tiresias
// (Gu et al., NSDI'19). The age of a job is its attained service, GPUs times
// executed time. Jobs stand in a few queues by their age: a new job enters
// queue 0, and moves one queue down when its service reaches the threshold of
// the queue it is in. Queues are served in order, first come first served
// inside each (order = las) or by Gittins index (order = gittins), and every
// job that fits by number runs; the others are preempted. Within a queue jobs
// do not preempt each other for getting older, which is what keeps plain
// least-attained-service from switching all the time.
//
// With one threshold of 16 GPU-hours and placement = most-free this is the
// Tiresias of the Pollux (OSDI'21) simulator. Its authors' own simulator lists
// thresholds of 3250, 7200 and 18000 GPU-seconds; their testbed used about
// 3200.
//
// # The index
//
// The Gittins index of a job with service a is the supremum over d > 0 of
// P(S - a <= d | S > a) / E[min(S - a, d) | S > a], S being the total service
// of a job, known from a sample. This is the definition; the authors' code
// keeps d fixed and leaves "- a" out of the sum. It is evaluated at the points
// of the sample, and a job keeps its index until it reaches the next one: a
// sample says nothing about what lies between its points, and just before each
// of them the ratio would shoot up as if every job were about to end there.
//
// # Promotion
//
// With promote = p > 0, a job that has run before, and has since waited p
// times as long as it has run, returns to queue 0 and its service counts from
// there. 0 switches it off: then a long job can wait for as long as shorter
// ones keep coming.
//
// # Deviations
//
//   - "First come" in a queue is the time of entering that queue (submission
//     for queue 0, then the decision that moved the job), not the time of the
//     first start.
//   - The paper finds out by profiling which models must be consolidated; here
//     the job says so (Spec.Consolidate). Such a job waits for the fewest
//     nodes its size allows; while it waits, others use the GPUs. The models
//     known not to need it are in a table (place.Skew); any other job is
//     consolidated as far as there is room, where the paper would profile it.
//   - A running job that was not reached goes on when the job it should make
//     way for finds no place near enough to itself.
//   - A decision follows an event or a move between queues. That a running job
//     has come to a lower Gittins index asks for none.
//   - Service at a promotion is remembered in whole GPU-seconds.
//   - Quotas of tenants, GPU types and jobs that are not preemptible are
//     respected; the paper knows none of them.
package tiresias

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/place"
)

// Config tunes the policy.
type Config struct {
	Thresholds []sched.Duration `json:"thresholds" help:"GPU time at which a job moves to the next queue, ascending; there is one queue more than thresholds"`
	Order      string           `json:"order" help:"order within a queue: las (first come, first served) or gittins"`
	Services   []float64        `json:"services" help:"gittins: sample of the total service of jobs, in GPU-seconds"`
	Promote    float64          `json:"promote" help:"a job that has waited this many times its run time returns to the first queue; 0: never"`
	Placement  place.Rule       `json:"placement"`
}

// The values of Config.Order.
const (
	LAS     = "las"
	Gittins = "gittins"
)

// Default returns the policy's default settings.
func Default() Config {
	return Config{
		Thresholds: []sched.Duration{sched.Duration(16 * time.Hour)},
		Order:      LAS,
		Services:   philly(),
		Placement:  place.IfSkewed,
	}
}

func (c Config) validate() error {
	const most = 1000
	last := sched.Duration(0)
	for _, t := range c.Thresholds {
		if t <= last {
			return fmt.Errorf("thresholds = %v; want positive GPU times in ascending order", c.Thresholds)
		}
		last = t
	}
	if c.Order != LAS && c.Order != Gittins {
		return fmt.Errorf("order = %q; want %s or %s", c.Order, LAS, Gittins)
	}
	if c.Order == Gittins && (len(c.Services) == 0 || len(c.Services) > most) {
		return fmt.Errorf("services has %d values; want 1 to %d", len(c.Services), most)
	}
	for _, x := range c.Services {
		if !(x > 0) || math.IsInf(x, 1) {
			return fmt.Errorf("services has the value %g; want positive GPU-seconds", x)
		}
	}
	if !(c.Promote >= 0) || math.IsInf(c.Promote, 1) {
		return fmt.Errorf("promote = %g; want 0 (never) or a positive number", c.Promote)
	}
	return nil
}

// New returns the policy.
func New(c Config) (sched.Policy, error) {
	if err := c.validate(); err != nil {
		return nil, err
	}
	queue, err := place.Queue{Preempt: true}.Placing(c.Placement)
	if err != nil {
		return nil, err
	}
	return &policy{Config: c, queue: queue, gittins: newGittins(c.Services)}, nil
}

type policy struct {
	Config
	queue   place.Queue
	gittins gittins
	free    *place.Free // a cache
}

// Schedule implements sched.Policy.
func (p *policy) Schedule(s *sched.Snapshot) sched.Plan {
	p.free = p.free.For(s.Cluster)
	notes := make([]sched.Note, len(s.Jobs))
	changed := false
	for i, j := range s.Jobs {
		notes[i] = p.requeue(j, s.Now)
		changed = changed || notes[i] != j.Note
	}
	plan := p.queue.Plan(s, p.order(s, notes), p.free)
	if changed {
		plan.Notes = notes
	}
	for i, j := range s.Jobs {
		plan.WakeBy(s.Now, p.next(j, notes[i], plan.Want[i], s.Now))
	}
	return plan
}

// slack absorbs rounding errors in sums of GPU-seconds.
const slack = 1e-6

// served returns the service that counts for the queues: what the job has
// attained since it was last promoted. Note.Count holds the service at that
// time.
func served(j *sched.Job, note sched.Note, now time.Time) float64 {
	return j.AttainedBy(now) - float64(note.Count)
}

// requeue returns the note of a job after all due moves between queues: Level is
// its queue, Since the time it entered (zero: at submission).
func (p *policy) requeue(j *sched.Job, now time.Time) sched.Note {
	note := j.Note
	note.Level = min(max(0, note.Level), len(p.Thresholds))
	have := served(j, note, now)
	for note.Level < len(p.Thresholds) && have+slack >= p.Thresholds[note.Level].D().Seconds() {
		note.Level++
		note.Since = now
	}
	if j.Phase != sched.Pending {
		return note
	}
	if at := p.promotion(j, note, j.Since); !at.IsZero() && !at.After(now) {
		note = sched.Note{Since: now, Count: int(j.AttainedBy(now))}
	}
	return note
}

// promotion returns when a job that has waited since a time returns to queue 0;
// zero if it does not.
func (p *policy) promotion(j *sched.Job, note sched.Note, since time.Time) time.Time {
	if p.Promote == 0 || note.Level == 0 || j.Starts == 0 {
		return time.Time{}
	}
	ran := served(j, note, since) / float64(j.GPUs)
	return since.Add(place.Seconds(p.Promote * ran))
}

// next returns when the job will change its queue if the plan is carried out;
// zero if it will not.
func (p *policy) next(j *sched.Job, note sched.Note, want sched.Placement, now time.Time) time.Time {
	switch {
	case len(want) == 0 && j.Phase == sched.Running:
		return p.promotion(j, note, now)
	case len(want) == 0:
		return p.promotion(j, note, j.Since)
	case note.Level == len(p.Thresholds):
		return time.Time{}
	}
	left := p.Thresholds[note.Level].D().Seconds() - served(j, note, now)
	return now.Add(place.Seconds(left / float64(want.GPUs())))
}

// order returns the jobs as they are to be served.
func (p *policy) order(s *sched.Snapshot, notes []sched.Note) []int {
	type entry struct {
		queue int
		rank  float64 // inside the queue, ascending
		seq   int64
		job   int
	}
	entries := make([]entry, len(s.Jobs))
	for i, j := range s.Jobs {
		entries[i] = entry{notes[i].Level, p.rank(j, notes[i], s.Now), j.Seq, i}
	}
	slices.SortFunc(entries, func(a, b entry) int {
		switch {
		case a.queue != b.queue:
			return cmp.Compare(a.queue, b.queue)
		case a.rank != b.rank:
			return cmp.Compare(a.rank, b.rank)
		}
		return cmp.Compare(a.seq, b.seq)
	})
	order := make([]int, len(entries))
	for i, e := range entries {
		order[i] = e.job
	}
	return order
}

// rank returns the position of a job inside its queue.
func (p *policy) rank(j *sched.Job, note sched.Note, now time.Time) float64 {
	if p.Order == Gittins {
		have := served(j, note, now)
		if g := p.gittins.index(have); g > 0 {
			return -g
		}
		return have // it has outlived the sample: behind all others, least service first
	}
	entered := note.Since
	if entered.IsZero() {
		entered = j.Submitted
	}
	// Nanoseconds before now are exact in a float64 for 104 days.
	return -float64(now.Sub(entered))
}
