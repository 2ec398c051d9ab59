// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Package policytest tests policies: a language for scenarios in text files
// (Run), a small world to try a policy in (World), and a generator of random
// worlds for properties (Random).
package policytest

import (
	"fmt"
	"time"

	"github.com/fairway-gpu/fairway/sched"
)

// Start is the time zero of every world.
var Start = time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)

// World is a cluster in virtual time, just real enough to try a policy: jobs start
// and stop at once, run at full speed everywhere, and end after their Length.
type World struct {
	State *sched.State
	Now   time.Time
	// Length is the true run time of a job. A job without one runs until it is
	// ended.
	Length map[sched.JobID]time.Duration
	// Arrivals are the jobs still to come, by Submitted.
	Arrivals []sched.Spec
	// Wake is when the policy asked to be called again; zero: it did not.
	Wake time.Time
	// ruled says that nodes are in domains and jobs ask for some.
	ruled bool
}

// NewWorld returns a world without jobs at time Start.
func NewWorld(nodes []sched.Node) (*World, error) {
	c, err := sched.NewCluster(nodes)
	if err != nil {
		return nil, err
	}
	return &World{State: sched.NewState(c), Now: Start, Length: map[sched.JobID]time.Duration{}}, nil
}

// Apply lets something happen now.
func (w *World) Apply(e sched.Event) error {
	e.At = w.Now
	return w.State.Apply(e)
}

// Submit submits a job now.
func (w *World) Submit(spec sched.Spec, length time.Duration) error {
	spec.Submitted = w.Now
	if length > 0 {
		w.Length[spec.ID] = length
	}
	return w.Apply(sched.Event{Kind: sched.JobSubmitted, Spec: &spec})
}

// Down takes a node away: the jobs on it fail first.
func (w *World) Down(node int) error {
	for _, j := range w.State.Snapshot(w.Now).Jobs {
		for _, s := range j.Placement {
			if int(s.Node) == node {
				if err := w.Apply(sched.Event{Kind: sched.JobFailed, Job: j.ID, Until: w.Now}); err != nil {
					return err
				}
				break
			}
		}
	}
	return w.SetNode(node, sched.Down)
}

// SetNode changes the state of a node.
func (w *World) SetNode(node int, state sched.NodeState) error {
	n := w.State.Cluster().Nodes[node]
	n.State = state
	return w.Apply(sched.Event{Kind: sched.NodeJoined, Node: &n})
}

// Decide asks the policy and carries out what it says.
func (w *World) Decide(p sched.Policy) ([]sched.Action, sched.Plan, error) {
	s := w.State.Snapshot(w.Now)
	actions, plan, err := sched.Decide(p, s)
	if err != nil {
		return nil, plan, err
	}
	return actions, plan, w.carryOut(s, actions, plan)
}

func (w *World) carryOut(s *sched.Snapshot, actions []sched.Action, plan sched.Plan) error {
	for i, note := range plan.Notes {
		if err := w.Apply(sched.Event{Kind: sched.JobNoted, Job: s.Jobs[i].ID, Note: note}); err != nil {
			return err
		}
	}
	for _, a := range actions {
		e := sched.Event{Kind: sched.JobStarted, Job: a.Job.ID, Placement: a.To, Screening: a.Screening}
		if a.Verb == sched.Stop {
			e = sched.Event{Kind: sched.JobStopped, Job: a.Job.ID, Moving: a.Moving, Suspend: a.Suspend}
		}
		if err := w.Apply(e); err != nil {
			return err
		}
	}
	w.Wake = plan.Wake
	return nil
}

// Seen is what Play reports: a decision with its actions, or the end of a job.
type Seen struct {
	At      time.Time
	Ended   sched.JobID
	Actions []sched.Action
	Plan    sched.Plan
}

// Play lets time pass until a time: jobs arrive and end, and the policy decides at
// once, after every event, and when it asked to be called. see, if not nil, is
// called for each.
func (w *World) Play(p sched.Policy, until time.Time, see func(Seen)) error {
	const most = 1_000_000 // decisions; more mean that the policy wakes for nothing
	for range most {
		actions, plan, err := w.Decide(p)
		if err != nil {
			return fmt.Errorf("at %s: %w", w.Now.Sub(Start), err)
		}
		if see != nil {
			see(Seen{At: w.Now, Actions: actions, Plan: plan})
		}
		if !w.next(until) {
			return nil
		}
		if err := w.happen(see); err != nil {
			return err
		}
	}
	return fmt.Errorf("the policy decided %d times until %s", most, w.Now.Sub(Start))
}

// next moves the clock to the next event, or to until.
func (w *World) next(until time.Time) bool {
	at := until
	earlier := func(t time.Time) {
		if t.After(w.Now) && t.Before(at) {
			at = t
		}
	}
	earlier(w.Wake)
	if len(w.Arrivals) > 0 {
		earlier(w.Arrivals[0].Submitted)
	}
	for _, j := range w.State.Snapshot(w.Now).Jobs {
		earlier(j.NotBefore)
		if end, ok := w.end(j); ok {
			earlier(end)
		}
	}
	w.Now = at
	return at.Before(until)
}

// end returns when a running job will end.
func (w *World) end(j *sched.Job) (time.Time, bool) {
	length, ok := w.Length[j.ID]
	if !ok || j.Phase != sched.Running {
		return time.Time{}, false
	}
	return j.Since.Add(length - j.Ran.D()), true
}

func (w *World) happen(see func(Seen)) error {
	for len(w.Arrivals) > 0 && !w.Arrivals[0].Submitted.After(w.Now) {
		spec := w.Arrivals[0]
		w.Arrivals = w.Arrivals[1:]
		if err := w.Apply(sched.Event{Kind: sched.JobSubmitted, Spec: &spec}); err != nil {
			return err
		}
	}
	var ended []sched.JobID
	for _, j := range w.State.Snapshot(w.Now).Jobs {
		if end, ok := w.end(j); ok && !end.After(w.Now) {
			ended = append(ended, j.ID)
		}
	}
	for _, id := range ended {
		if err := w.Apply(sched.Event{Kind: sched.JobEnded, Job: id, Phase: sched.Finished}); err != nil {
			return err
		}
		if see != nil {
			see(Seen{At: w.Now, Ended: id})
		}
	}
	return nil
}
