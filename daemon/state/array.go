// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/sched"
)

// array is the jobs of an array that are kept.
type array struct {
	id      string
	members []*entry // by index
	open    int      // have not ended
	active  int      // of these, the scheduler knows so many
}

// arrayOf returns the array of a job; nil: it is of none.
func (m *memory) arrayOf(x *entry) *array {
	if x.Task.Member == nil {
		return nil
	}
	return m.arrays[x.Task.Member.Array]
}

// enlist adds a job to its array, if it is of one.
func (m *memory) enlist(x *entry) {
	if x.Task.Member == nil {
		return
	}
	id := x.Task.Member.Array
	a := m.arrays[id]
	if a == nil {
		a = &array{id: id}
		m.arrays[id] = a
	}
	i, _ := slices.BinarySearchFunc(a.members, x.Task.Member.Index, func(o *entry, index int) int { return cmp.Compare(o.Task.Member.Index, index) })
	a.members = slices.Insert(a.members, i, x)
	if x.Job.Phase.Ended() {
		return
	}
	a.open++
	if !x.Hold {
		a.active++
	}
}

// atLimit reports whether as many jobs of an array as may be are with the scheduler.
func (m *memory) atLimit(x *api.Member) bool {
	if x == nil || x.Most == 0 {
		return false
	}
	a := m.arrays[x.Array]
	return a != nil && a.active >= x.Most
}

// arrayIDs names the jobs of a request: those of an array by the array and their index.
type arrayIDs struct {
	*tx
	id   string // of the array that is being named; empty: none
	left int    // jobs of it to come
}

// next goes on to a job.
func (g *arrayIDs) next(s *api.Submission) {
	if g.left == 0 {
		g.id = ""
		if s.Member != nil {
			g.left = s.Member.Of
		}
	}
	g.left = max(0, g.left-1)
}

// found is told of a job that was submitted before.
func (g *arrayIDs) found(s *api.Submission, x *entry) {
	if g.next(s); x != nil && x.Task.Member != nil {
		g.id = x.Task.Member.Array
	}
}

// name gives a new job its id.
func (g *arrayIDs) name(s *api.Submission) {
	g.next(s)
	if s.Member == nil {
		s.ID = g.newID(s.Name)
		return
	}
	if g.id == "" {
		g.id = string(g.newID(s.Name))
	}
	member := *s.Member
	member.Array = g.id
	s.Member, s.ID = &member, sched.JobID(fmt.Sprintf("%s_%d", g.id, member.Index))
	if s.App == "" {
		s.App = sched.AppID(g.id)
	}
}

// commandArray tells all jobs of an array that have not ended something. What it does
// not make sense for, it leaves alone.
func (t *tx) commandArray(who api.Identity, a *array, c api.Command) error {
	if a.open == 0 && !(c == api.Cancel && a.members[0].Job.Phase == sched.Cancelled) {
		return api.Errorf(api.Conflict, "array %s has already ended", a.id)
	}
	for _, x := range slices.Clone(a.members) {
		if x.Job.Phase.Ended() || x.Hold && c != api.Cancel {
			continue
		}
		if err := t.commandJob(who, x, c); err != nil {
			return err
		}
	}
	return nil
}

// delist removes a job that is no longer kept from its array.
func (m *memory) delist(x *entry) {
	a := m.arrayOf(x)
	if a == nil {
		return
	}
	if a.members = without(a.members, x); len(a.members) == 0 {
		delete(m.arrays, a.id)
	}
}

// foldOrder is the order of states in which one job stands for its array: the first
// that some job of it has.
var foldOrder = []string{api.Running, api.Starting, api.Stopping, api.Waiting, api.Paused, api.Failed, api.Cancelled, api.Finished}

// speaker returns the job that stands for its array, and how many are in which state.
// Of those that wait, one that queues for GPUs tells more than one that is held.
func (b *Store) speaker(a *array) (*entry, map[string]int) {
	counts := map[string]int{}
	var first *entry
	rank := func(x *entry) int {
		n := 2 * slices.Index(foldOrder, b.stateOf(x))
		if x.Hold {
			n++
		}
		return n
	}
	for _, x := range a.members {
		counts[b.stateOf(x)]++
		if first == nil || rank(x) < rank(first) {
			first = x
		}
	}
	return first, counts
}

// fold returns an array as one job.
func (b *Store) fold(a *array, fair *share) api.Job {
	x, counts := b.speaker(a)
	v := b.view(x, fair)
	v.ID, v.Members, v.Held = sched.JobID(a.id), counts, nil
	for _, o := range a.members {
		v.Held = append(v.Held, b.held(o)...)
	}
	return v
}

// onePerArray keeps the first job of each array, and all others.
func (m *memory) onePerArray(list []*entry) []*entry {
	seen := map[*array]bool{}
	return slices.DeleteFunc(list, func(x *entry) bool {
		a := m.arrayOf(x)
		again := a != nil && seen[a]
		seen[a] = true
		return again
	})
}

// place is where a job is in a listing: by the number of its id and, in an array, by its
// index. Jobs that are held have no place in the scheduler's queue.
func (x *entry) place() (number, index int) {
	if x.Task.Member != nil {
		index = x.Task.Member.Index
	}
	return JobNumber(x.Job.ID), index
}

func comparePlaces(a, c *entry) int {
	an, ai := a.place()
	cn, ci := c.place()
	return cmp.Or(cmp.Compare(an, cn), cmp.Compare(ai, ci))
}
