// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/sched"
)

// A job that waits for other jobs is accepted and not submitted: the scheduler's state
// does not have it, so that no policy, forecast or measure of fairness counts it. When
// the last condition is met, it is submitted like a job that comes at that moment. One
// whose condition can no longer be met is submitted and cancelled at once, so that its
// end is recorded like any other.

// condition is what a job that is held waits for: the end of a job or of an array.
type condition struct {
	Job string `json:"job"`
	Any bool   `json:"any,omitempty"` // however it ends
}

// heldSeq is the place in the queue of a job that has none yet: behind all others. It is
// the largest number that every reader of JSON keeps.
const heldSeq = 1<<53 - 1

// accepted keeps a job that waits for others.
func (m *memory) accepted(r *api.Record) error {
	if r.Task == nil {
		return fmt.Errorf("job %s: the record has no task", r.Accepted.ID)
	}
	if m.jobs[r.Accepted.ID] != nil {
		return fmt.Errorf("job %s: a job of that id is known; ids must differ", r.Accepted.ID)
	}
	if err := r.Accepted.Validate(); err != nil {
		return err
	}
	x := &entry{
		Job:  &sched.Job{Spec: *r.Accepted, Status: sched.Status{Seq: heldSeq, Since: r.At}},
		Task: *r.Task, Owner: api.Owner{UID: -1, GID: -1}, Key: r.Key, Epoch: m.epoch(), Hold: true, Accepted: r.At,
	}
	if r.Owner != nil {
		x.Owner = *r.Owner
	}
	for _, d := range dependencies(r.Task) {
		ended, broken := m.conditionOf(d)
		if !ended {
			x.After = append(x.After, condition{Job: d.Job, Any: d.Any})
		}
		if broken != "" && x.Broken == "" {
			x.Broken = broken
		}
	}
	m.hold(x)
	m.due = append(m.due, x)
	m.Count = max(m.Count+1, JobNumber(x.Job.ID))
	return nil
}

// hold adds a job that waits for others.
func (m *memory) hold(x *entry) {
	m.put(x)
	m.queued.add(x, 1)
	m.waiting[x.Job.ID] = x
	for _, c := range x.After {
		m.dependents[c.Job] = append(m.dependents[c.Job], x)
	}
	m.enlist(x)
}

// unhold is called when the scheduler's state has the job.
func (m *memory) unhold(x *entry, j *sched.Job) {
	for _, c := range x.After {
		m.dependents[c.Job] = without(m.dependents[c.Job], x)
	}
	delete(m.waiting, x.Job.ID)
	x.Job, x.Hold, x.After = j, false, nil
	m.trialSubmitted(x)
	if a := m.arrayOf(x); a != nil {
		a.active++
	}
}

func without(list []*entry, x *entry) []*entry {
	return slices.DeleteFunc(list, func(o *entry) bool { return o == x })
}

// dependencies reads what a task depends on; it was checked when it was submitted.
func dependencies(t *api.Task) (out []api.Dependency) {
	for _, text := range t.DependsOn {
		if d, err := api.ParseDependency(text); err == nil {
			out = append(out, d)
		}
	}
	return out
}

// conditionOf reports whether a job or array that another depends on has ended, and
// what is wrong if that can no longer be as it should. One that is no longer kept has
// ended.
func (m *memory) conditionOf(d api.Dependency) (ended bool, broken string) {
	members := []*entry{m.jobs[sched.JobID(d.Job)]}
	if a := m.arrays[d.Job]; a != nil {
		members = a.members
	}
	ended = true
	for _, x := range members {
		switch {
		case x == nil:
		case !x.Job.Phase.Ended():
			ended = false
		case !d.Any && broken == "":
			broken = unmet(x)
		}
	}
	return ended, broken
}

// unmet says how a job has ended that others wanted to finish; empty: it has finished.
func unmet(x *entry) string {
	switch x.Job.Phase {
	case sched.Finished:
		return ""
	case sched.Failed:
		return fmt.Sprintf("%s failed", x.Job.ID)
	}
	return fmt.Sprintf("%s was cancelled", x.Job.ID)
}

// noteEnd tells the jobs that wait for one that has ended.
func (m *memory) noteEnd(x *entry) {
	m.met(string(x.Job.ID), x, true)
	a := m.arrayOf(x)
	if a == nil {
		return
	}
	a.open--
	a.active--
	m.met(x.Task.Member.Array, x, a.open == 0)
	for _, o := range a.members {
		if o.Hold {
			m.due = append(m.due, o) // there may be room for it now
		}
	}
}

// met tells the jobs that wait for a job or array that x of it has ended, and whether
// that was all of it.
func (m *memory) met(name string, x *entry, all bool) {
	for _, o := range m.dependents[name] {
		left := make([]condition, 0, len(o.After))
		for _, c := range o.After {
			if c.Job != name || !all {
				left = append(left, c)
			}
			if why := unmet(x); c.Job == name && why != "" && !c.Any && o.Broken == "" {
				o.Broken = why
			}
		}
		o.After = left
		m.due = append(m.due, o)
	}
	if all {
		delete(m.dependents, name)
	}
}

// ready reports whether nothing keeps a held job from being submitted.
func (m *memory) ready(x *entry) bool {
	a := m.arrayOf(x)
	return len(x.After) == 0 && (a == nil || x.Task.Member.Most == 0 || a.active < x.Task.Member.Most)
}

// release submits the held jobs that nothing holds any more, and ends those that wait
// for what cannot come. It runs after every change, in the same write.
func (t *tx) release() error {
	for len(t.mem.due) > 0 {
		x := t.mem.due[0]
		t.mem.due = t.mem.due[1:]
		if !x.Hold || x.Broken == "" && !t.mem.ready(x) {
			continue
		}
		if err := t.submitHeld(x); err != nil {
			return err
		}
		if x.Broken == "" {
			continue
		}
		why := "it was to run after another job finished, and " + x.Broken
		err := t.add(api.Record{Actor: "scheduler", Text: why, Event: &sched.Event{Kind: sched.JobEnded, Job: x.Job.ID, Phase: sched.Cancelled, Text: why}})
		if err != nil {
			return err
		}
	}
	return nil
}

// submitHeld submits a held job as if it came now.
func (t *tx) submitHeld(x *entry) error {
	s := api.Submission{Spec: x.Job.Spec, Task: x.Task}
	s.Submitted = t.now
	can := t.protect(&s)
	t.decides = true
	owner, task := x.Owner, x.Task
	return t.add(api.Record{Actor: "scheduler", Event: &sched.Event{Kind: sched.JobSubmitted, Spec: &s.Spec, Can: can, Perf: t.mem.planned(&task, &s.Spec)}, Task: &task, Owner: &owner, Key: x.Key})
}

// depend replaces the names in what a new job depends on by ids, and reports whether
// it has to wait. Names of jobs before it in the same request stay until these have ids.
func (t *tx) depend(who api.Identity, s *api.Submission, before map[string]string) (wait bool, err error) {
	if len(s.DependsOn) == 0 {
		return false, nil
	}
	var list []string
	for _, d := range dependencies(&s.Task) {
		if _, same := before[d.Job]; same {
			wait = true
		} else {
			found, err := t.mem.refer(who, sched.JobID(d.Job))
			if err != nil {
				return false, err.On("depends_on")
			}
			d.Job = found.id()
			ended, broken := t.mem.conditionOf(d)
			if broken != "" {
				return false, api.Errorf(api.Conflict, "%s cannot finish any more: %s", d.Job, broken).On("depends_on").Try(fmt.Sprintf("use %s:any if any end of it will do", d.Job))
			}
			wait = wait || !ended
		}
		if !slices.Contains(list, d.String()) {
			list = append(list, d.String())
		}
	}
	s.DependsOn = list
	return wait, nil
}

// withIDs replaces the names of jobs in what a job depends on by their ids, if they
// are known.
func withIDs(depends []string, ids map[string]string) (out []string) {
	for _, d := range dependencies(&api.Task{DependsOn: depends}) {
		d.Job = cmp.Or(ids[d.Job], d.Job)
		out = append(out, d.String())
	}
	return out
}

// holds says why a job does not queue for GPUs.
func (m *memory) holds(x *entry) *api.Reason {
	if len(x.After) == 0 {
		most := x.Task.Member.Most
		return &api.Reason{
			Code: api.WaitsForArray, Text: fmt.Sprintf("of its array only %d job%s may run at once", most, plural(most)),
			Unknown: "it queues for GPUs when one of them has ended",
		}
	}
	const most = 3
	var parts []string
	for _, c := range x.After[:min(most, len(x.After))] {
		verb := "finish"
		if c.Any {
			verb = "end"
		}
		parts = append(parts, fmt.Sprintf("%s has to %s", c.Job, verb))
	}
	if n := len(x.After) - most; n > 0 {
		parts = append(parts, fmt.Sprintf("%d more", n))
	}
	return &api.Reason{Code: api.WaitsForJobs, Text: strings.Join(parts, ", ") + " first", Unknown: "it queues for GPUs after that"}
}

// heldInOrder returns the jobs that wait for others, oldest first.
func (m *memory) heldInOrder() []*entry {
	return slices.SortedFunc(maps.Values(m.waiting), comparePlaces)
}
