// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package sched

import (
	"cmp"
	"fmt"
	"slices"
)

// Verb says what an action does.
type Verb uint8

// The verbs, in the order in which a decision carries them out.
const (
	Stop  Verb = iota // take the job's GPUs away
	Start             // give the job the GPUs of To
)

func (v Verb) String() string {
	if v == Stop {
		return "stop"
	}
	return "start"
}

// Action is one thing a driver has to do. A job that moves or changes its
// size is stopped and started in the same decision.
type Action struct {
	Verb Verb
	Job  *Job
	From Placement // Stop: what it loses
	To   Placement // Start: what it gets
	// Moving is set on both actions of a job that goes on elsewhere or at
	// another size.
	Moving bool
	// Suspend is set on the stop of a job that keeps its state in place.
	Suspend   bool
	Screening bool   // Start: only to see whether it works
	Why       Reason // Stop without Moving: why it has to wait
}

// Text prints the action for a log.
func (a Action) Text(c *Cluster) string {
	switch {
	case a.Verb == Stop && a.Moving:
		return fmt.Sprintf("stop %s to move it off %s", a.Job.ID, a.From.Text(c))
	case a.Verb == Stop:
		return fmt.Sprintf("stop %s on %s: %s", a.Job.ID, a.From.Text(c), a.Why.Text(c))
	}
	if a.Screening {
		return fmt.Sprintf("screen %s on %s", a.Job.ID, a.To.Text(c))
	}
	return fmt.Sprintf("start %s on %s", a.Job.ID, a.To.Text(c))
}

func (p *Plan) screens(i int) bool { return p.Screening != nil && p.Screening[i] }

// Decide asks the policy, checks the plan and turns it into actions: stops
// first, then starts, each in order of submission. The error, if any, is a
// *PlanError: the policy has a bug, and nothing may be carried out.
func Decide(p Policy, s *Snapshot) ([]Action, Plan, error) {
	plan := Ask(p, s)
	if v := Check(s, plan); len(v) > 0 {
		return nil, plan, &PlanError{Policy: name(p), Violations: v}
	}
	return diff(s, plan), plan, nil
}

func diff(s *Snapshot, plan Plan) []Action {
	type change struct {
		seq int64
		job int
	}
	var changes []change
	stops, starts := 0, 0
	for i, j := range s.Jobs {
		if want := plan.Want[i]; !want.Equal(j.Placement) {
			changes = append(changes, change{j.Seq, i})
			if j.Phase == Running {
				stops++
			}
			if len(want) > 0 {
				starts++
			}
		}
	}
	if stops+starts == 0 {
		return nil
	}
	slices.SortFunc(changes, func(a, b change) int { return cmp.Compare(a.seq, b.seq) })
	actions := make([]Action, stops+starts)
	stop, start := actions[:0:stops], actions[stops:stops]
	for _, c := range changes {
		j, want := s.Jobs[c.job], plan.Want[c.job]
		moving := j.Phase == Running && len(want) > 0
		if j.Phase == Running {
			stop = append(stop, Action{
				Verb: Stop, Job: j, From: j.Placement,
				Moving: moving, Suspend: (plan.Suspend || j.Suspends) && !moving, Why: plan.Why[c.job],
			})
		}
		if len(want) > 0 {
			start = append(start, Action{Verb: Start, Job: j, To: want, Moving: moving, Screening: plan.screens(c.job)})
		}
	}
	return actions
}

// name returns the policy's own name if it has one, for error messages.
func name(p Policy) string {
	if n, ok := p.(fmt.Stringer); ok {
		return n.String()
	}
	return fmt.Sprintf("%T", p)
}
