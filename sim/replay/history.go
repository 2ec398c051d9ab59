// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"fmt"
	"reflect"
	"time"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/goodput"
	"github.com/fairway-gpu/fairway/sim"
)

// jobHistory is what the journal says about one job.
type jobHistory struct {
	spec  sched.Spec
	phase sched.Phase
	ended time.Time

	on     sched.Placement // while it runs
	since  time.Time       // start of the current run
	booked time.Time       // end of the part of the current run that is in pieces
	// pieces are the run time whose work was not lost. The last checkpoint covers the
	// first kept of them; the next failure loses the others.
	pieces   []piece
	kept     int
	failures []sim.Failure

	can         sched.Ability
	perf        *goodput.Report
	done, whole float64 // work, as reported by its agent

	runs     []span
	starts   int
	preempts int
	moves    int
	paused   bool
	lost     bool // a stop lost work

	stopped time.Time // last stop by the scheduler whose attempt has not exited yet
	gained  float64   // work at the last start
	fresh   bool      // no report with a rate since the last start
}

// piece is an interval of run time on the same GPUs.
type piece struct {
	wall    time.Duration
	gpuType sched.GPUType
	shape   goodput.Shape
}

// span is an interval in which a job held the same GPUs.
type span struct {
	from, to    time.Time
	gpus, nodes int
	milli       int
}

// history is the content of the journal.
type history struct {
	nodes    []sched.Node // in their last state, by arrival
	tenants  []sched.Tenant
	jobs     []*jobHistory // by submission
	byID     map[sched.JobID]*jobHistory
	notes    notes
	policies int
	decided  uint64
	end      time.Time

	windDown, startUp []float64 // seconds of restarts, by part
}

// read sums up the records.
func read(records []api.Record) (*history, error) {
	c := &history{byID: map[sched.JobID]*jobHistory{}}
	for _, rec := range records {
		r := &rec
		if r.At.Before(c.end) {
			r.At = c.end // the time in a journal never decreases
		}
		c.end = r.At
		if r.Policy != "" {
			c.policies++
		}
		c.decided = max(c.decided, r.Decision)
		if r.Exit != nil {
			c.exit(r)
		}
		if r.Event != nil {
			if err := c.event(r, r.Event); err != nil {
				return nil, fmt.Errorf("record %d: %w", r.Seq, err)
			}
		}
	}
	for _, s := range c.jobs {
		if len(s.on) > 0 {
			c.leave(s, c.end)
		}
	}
	return c, nil
}

func (c *history) event(r *api.Record, e *sched.Event) error {
	switch e.Kind {
	case sched.NodeJoined:
		return c.node(e.Node)
	case sched.TenantSet:
		return c.tenant(e.Tenant)
	case sched.JobSubmitted:
		return c.submit(r, e.Spec)
	}
	s := c.byID[e.Job]
	if s == nil {
		c.notes.add("job submitted before the journal begins: left out", e.Job)
		return nil
	}
	return c.jobEvent(s, r, e)
}

func (c *history) jobEvent(s *jobHistory, r *api.Record, e *sched.Event) error {
	switch e.Kind {
	case sched.JobStarted:
		if len(e.Placement) == 0 || len(s.on) > 0 {
			return fmt.Errorf("job %s starts on %d nodes while it runs on %d", e.Job, len(e.Placement), len(s.on))
		}
		s.on, s.since, s.booked = e.Placement, r.At, r.At
		s.starts++
		s.gained, s.fresh = s.done, true
	case sched.JobStopped:
		c.leave(s, r.At)
		s.stopped = r.At
		if e.Moving {
			s.moves++
		} else {
			s.preempts++
		}
	case sched.JobHeld:
		c.leave(s, r.At)
		s.paused = true
	case sched.JobFailed:
		c.leave(s, r.At)
		s.fail(e.Text, s.pieces[s.kept:])
		s.pieces = s.pieces[:s.kept]
	case sched.JobEnded:
		c.leave(s, r.At)
		s.phase, s.ended = e.Phase, r.At
		if e.Phase == sched.Failed {
			s.fail(e.Text, s.pieces)
		}
	case sched.JobReported:
		s.can = max(s.can, e.Can)
		c.reported(s, r, e)
	case sched.JobCheckpoint:
		c.book(s, r.At)
		s.kept = len(s.pieces)
	}
	return nil
}

// fail adds a failed attempt and the run time that it lost.
func (s *jobHistory) fail(why string, lost []piece) {
	const shortest = time.Millisecond
	s.failures = append(s.failures, sim.Failure{Reason: why, After: sched.Duration(max(shortest, wall(lost)))})
}

func wall(pieces []piece) time.Duration {
	var sum time.Duration
	for _, p := range pieces {
		sum += p.wall
	}
	return sum
}

// book adds the current run until now to the pieces.
func (c *history) book(s *jobHistory, now time.Time) {
	if len(s.on) == 0 || !now.After(s.booked) {
		return
	}
	s.pieces = append(s.pieces, piece{wall: now.Sub(s.booked), gpuType: c.typeOf(s.on), shape: c.shapeOf(s.on)})
	s.booked = now
}

// leave ends the current run, if there is one.
func (c *history) leave(s *jobHistory, now time.Time) {
	if len(s.on) == 0 {
		return
	}
	c.book(s, now)
	s.runs = append(s.runs, span{from: s.since, to: now, gpus: s.on.GPUs(), nodes: len(s.on), milli: s.on.Milli()})
	s.on = nil
}

func (c *history) reported(s *jobHistory, r *api.Record, e *sched.Event) {
	if e.Perf != nil {
		s.perf = e.Perf
	}
	if r.Point != nil && r.Point.Work > 0 {
		s.whole = r.Point.Work
	}
	if r.Actor == "machine" {
		// A stopped attempt has exited: the job resumes from its last checkpoint.
		if s.kept < len(s.pieces) {
			s.pieces, s.lost = s.pieces[:s.kept], true
		}
	} else if s.fresh && e.Rate > 0 && len(s.on) > 0 {
		s.fresh = false
		if spent := r.At.Sub(s.since).Seconds() - (e.Done-s.gained)/e.Rate; spent > 0 && e.Done >= s.gained {
			c.startUp = append(c.startUp, spent)
		}
	}
	s.done = e.Done
}

// exit records how long a stopped attempt took to exit.
func (c *history) exit(r *api.Record) {
	s := c.byID[r.Exit.Job]
	if s == nil || s.stopped.IsZero() {
		return
	}
	at := r.Exit.At
	if at.IsZero() {
		at = r.At
	}
	if took := at.Sub(s.stopped); took >= 0 {
		c.windDown = append(c.windDown, took.Seconds())
	}
	s.stopped = time.Time{}
}

func (c *history) submit(r *api.Record, spec *sched.Spec) error {
	if spec == nil {
		return fmt.Errorf("job submitted without a spec")
	}
	if err := spec.Validate(); err != nil {
		return err
	}
	if c.byID[spec.ID] != nil {
		return fmt.Errorf("job %s is submitted twice", spec.ID)
	}
	s := &jobHistory{spec: *spec}
	// The order of the records is the order of submission, whatever a spec says.
	s.spec.Submitted = r.At
	c.byID[spec.ID] = s
	c.jobs = append(c.jobs, s)
	return nil
}

func (c *history) node(n *sched.Node) error {
	if n == nil {
		return fmt.Errorf("node joined without a description")
	}
	for i := range c.nodes {
		if c.nodes[i].Name == n.Name {
			if old := c.nodes[i]; old.GPUs != n.GPUs || old.Type != n.Type {
				c.notes.add("node changed its GPUs: the replay uses the last ones throughout", sched.JobID(n.Name))
			}
			c.nodes[i] = *n
			return nil
		}
	}
	c.nodes = append(c.nodes, *n)
	return nil
}

func (c *history) tenant(t *sched.Tenant) error {
	if t == nil {
		return fmt.Errorf("tenant set without a description")
	}
	for i := range c.tenants {
		if c.tenants[i].ID == t.ID {
			if !reflect.DeepEqual(c.tenants[i], *t) {
				c.notes.add("tenant changed: the replay uses the last settings throughout", sched.JobID(t.ID))
			}
			c.tenants[i] = *t
			return nil
		}
	}
	c.tenants = append(c.tenants, *t)
	return nil
}

func (c *history) typeOf(p sched.Placement) sched.GPUType {
	if i := int(p[0].Node); i >= 0 && i < len(c.nodes) {
		return c.nodes[i].Type
	}
	return ""
}

func (c *history) shapeOf(p sched.Placement) goodput.Shape {
	s := goodput.Shape{Nodes: len(p), GPUs: p.GPUs()}
	rack := ""
	for k, slice := range p {
		i := int(slice.Node)
		if i < 0 || i >= len(c.nodes) {
			continue
		}
		if k > 0 && c.nodes[i].Rack != rack {
			s.CrossRack = true
		}
		rack = c.nodes[i].Rack
	}
	return s
}
