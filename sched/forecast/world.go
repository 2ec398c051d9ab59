// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package forecast

import (
	"math"
	"math/rand/v2"
	"time"

	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/goodput"
)

// world is one future.
type world struct {
	Config
	st      *sched.State
	from    time.Time // the present
	now     time.Time
	time    Left
	grow    *rand.Rand
	left    map[sched.JobID]*rest
	started map[sched.JobID]time.Time
	arrive  Arrivals    // nil: nobody submits anything
	next    *sched.Spec // what is submitted next
	arrived int
}

func newWorld(c Config, s *sched.Snapshot, sample int) *world {
	w := &world{Config: c, st: s.State(), from: s.Now, now: s.Now, time: c.Future(c.rand(sample)), grow: rand.New(rand.NewPCG(c.Seed+1, uint64(sample))), started: map[sched.JobID]time.Time{}}
	if c.Arrive != nil {
		w.arrive = c.Arrive(c.rand(-1 - sample)) // run times stay the same with other arrivals
		w.expect()
	}
	return w
}

// rest is what a job has left to do.
type rest struct {
	seconds float64 // at speed 1
	gpus    int     // where its speed is 1
	speed   float64
	noise   noise
}

// A policy that asks to decide again waits for at least a tick, and for a part of the time
// that was looked ahead, unless it will act by the clock before: more decisions would make a
// forecast dear, not better.
const (
	tick     = time.Second
	tickPart = 20
)

// run goes on until the jobs have started, nothing happens any more, or decisions have
// looked at so many jobs. It is false if the forecast was stopped.
func (w *world) run(jobs []sched.JobID, most int) (bool, error) {
	w.draw()
	for ; most > 0; most -= w.st.Jobs() {
		if w.Stop != nil && w.Stop() {
			return false, nil
		}
		plan, err := w.decide()
		if err != nil {
			return false, err
		}
		waiting := false
		for _, id := range jobs {
			waiting = waiting || w.started[id].IsZero()
		}
		if !waiting {
			return true, nil
		}
		to, ok := w.upcoming(plan)
		if !ok {
			return true, nil
		}
		if err := w.advance(to); err != nil {
			return false, err
		}
	}
	return true, nil
}

// draw draws the rest of every job. One about which nothing is known never ends.
func (w *world) draw() {
	s := w.st.Peek()
	w.left = make(map[sched.JobID]*rest, len(s.Jobs))
	for _, j := range s.Jobs {
		w.left[j.ID] = w.restOf(j)
	}
}

func (w *world) restOf(j *sched.Job) *rest {
	r := &rest{seconds: math.Inf(1), gpus: j.StartSize(), speed: 1}
	if left, ok := w.time(j); ok {
		r.seconds = left.Seconds()
	}
	if j.TimeLimit > 0 {
		r.seconds = min(r.seconds, max(0, j.TimeLimit.D()-j.RanBy(w.now)).Seconds())
	}
	if j.Phase == sched.Running {
		r.gpus = j.Placement.GPUs()
	}
	r.noise = w.noiseOf(j, r.seconds)
	return r
}

// decide makes a decision and carries it out.
func (w *world) decide() (sched.Plan, error) {
	if err := w.report(); err != nil {
		return sched.Plan{}, err
	}
	s := w.st.Snapshot(w.now)
	actions, plan, err := sched.Decide(w.Policy, s)
	if err != nil {
		return sched.Plan{}, err
	}
	var events []sched.Event
	for i, j := range s.Jobs {
		if plan.Notes != nil && plan.Notes[i] != j.Note {
			events = append(events, sched.Event{Kind: sched.JobNoted, Job: j.ID, Note: plan.Notes[i]})
		}
	}
	for _, a := range actions {
		e := sched.Event{Kind: sched.JobStopped, Job: a.Job.ID, Moving: a.Moving, Suspend: a.Suspend}
		if a.Verb == sched.Start {
			e = sched.Event{Kind: sched.JobStarted, Job: a.Job.ID, Placement: a.To, Screening: a.Screening}
		}
		events = append(events, e)
	}
	for _, e := range events {
		e.At = w.now
		if err := w.st.Apply(e); err != nil {
			return sched.Plan{}, err
		}
		if e.Kind == sched.JobStarted {
			if err := w.begin(e.Job); err != nil {
				return sched.Plan{}, err
			}
		}
	}
	return plan, nil
}

// begin lets a job that was started report its speed.
func (w *world) begin(id sched.JobID) error {
	if w.started[id].IsZero() {
		w.started[id] = w.now
	}
	j, _ := w.st.Job(id)
	r := w.left[id]
	r.speed = speed(w.st.Cluster(), j, r.gpus)
	if j.Starts > 1 {
		r.seconds += w.Restart.Seconds() * r.speed
	}
	if j.Work <= j.Done || r.seconds <= 0 { // it announces no work, or takes longer than announced
		return nil
	}
	return w.st.Apply(sched.Event{At: w.now, Kind: sched.JobReported, Job: id, Done: j.Done, Rate: (j.Work - j.Done) / r.seconds * r.speed})
}

// speed returns how fast a job trains where it is, compared with a number of GPUs near
// to each other.
func speed(c *sched.Cluster, j *sched.Job, gpus int) float64 {
	n := j.Placement.GPUs()
	if n == gpus {
		return 1
	}
	if j.Perf != nil {
		node := &c.Nodes[j.Placement[0].Node]
		here := goodput.Shape{Nodes: len(j.Placement), GPUs: n}
		there := goodput.Shape{Nodes: (gpus + node.GPUs - 1) / node.GPUs, GPUs: gpus}
		_, now, ok := j.Perf.Goodput(string(node.Type), here)
		_, then, both := j.Perf.Goodput(string(node.Type), there)
		if ok && both && now > 0 && then > 0 {
			return now / then
		}
	}
	return float64(n) / float64(gpus)
}

// upcoming returns when something happens next, after a decision.
func (w *world) upcoming(plan sched.Plan) (to time.Time, ok bool) {
	by := func(t time.Time) {
		if !ok || t.Before(to) {
			to, ok = t, true
		}
	}
	for _, j := range w.st.Peek().Jobs {
		switch {
		case j.Phase == sched.Running:
			r := w.left[j.ID]
			if math.IsInf(r.seconds, 1) {
				continue
			}
			by(w.now.Add(time.Duration(r.seconds / r.speed * float64(time.Second))))
		case j.NotBefore.After(w.now):
			by(j.NotBefore)
		}
	}
	if !ok {
		return to, false // all that waits is too large, paused or over its quota
	}
	if plan.Wake.After(w.now) {
		by(later(plan.Wake, w.now.Add(max(tick, w.now.Sub(w.from)/tickPart))))
	}
	if plan.Due.After(w.now) {
		by(plan.Due)
	}
	if w.next != nil {
		by(later(w.next.Submitted, w.now))
	}
	return to, true
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// advance moves time on and ends the jobs that are done by then.
func (w *world) advance(to time.Time) error {
	past := to.Sub(w.now).Seconds()
	w.now = to
	var ended []sched.JobID
	for _, j := range w.st.Peek().Jobs {
		if j.Phase != sched.Running {
			continue
		}
		r := w.left[j.ID]
		if r.seconds -= past * r.speed; r.seconds <= 1e-6 {
			ended = append(ended, j.ID)
		}
	}
	for _, id := range ended {
		if err := w.st.Apply(sched.Event{At: to, Kind: sched.JobEnded, Job: id, Phase: sched.Finished}); err != nil {
			return err
		}
	}
	for w.next != nil && !w.next.Submitted.After(to) {
		spec := *w.next
		spec.Submitted = to
		if err := w.st.Apply(sched.Event{At: to, Kind: sched.JobSubmitted, Spec: &spec}); err != nil {
			return err
		}
		j, _ := w.st.Job(spec.ID)
		w.left[spec.ID] = w.restOf(j)
		w.expect()
	}
	return nil
}
