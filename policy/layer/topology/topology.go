// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Package topology keeps what jobs ask of the topology (sched.Rule) under every policy.
//
// A policy decides who runs, and how large. Most take their GPUs from package place,
// which knows the rules; others choose GPUs by themselves. This layer stands over all
// of them. A placement that breaks a rule, or misses a preferred level, is replaced by
// one of the same size that does not, if there is room. If there is none, a running job
// stays where it is, an elastic one takes fewer GPUs, and others wait; the policy is
// then asked again without those that wait, so that their GPUs do not idle.
//
// # Making room
//
// Where the policy preempts, a gang that waits for a domain although enough GPUs are
// free for it may displace other jobs from one: those of lower priority, and those of
// its own priority that have no rules themselves and find GPUs elsewhere, if the gang
// has waited for more GPU-seconds than they lose. A job that saves its work loses a
// minute of its GPUs, the others also what they have not saved. The cheapest jobs are
// displaced.
//
// A plan for jobs without rules is the policy's own.
package topology

import (
	"cmp"
	"fmt"
	"slices"
	"sort"
	"time"

	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/place"
)

// rounds is how often the policy is asked: once for all jobs, then without those that
// found no place.
const rounds = 3

// restart is what a job loses that is moved, beside work that it has not saved.
const restart = time.Minute

// mostGangs is for how many gangs one decision looks for jobs to displace.
const mostGangs = 4

// Over returns the policy with the rules of all jobs kept. preempts says that the
// policy may take GPUs away from running jobs.
func Over(inner sched.Policy, preempts bool) sched.Policy {
	return &layer{inner: inner, preempts: preempts}
}

type layer struct {
	inner    sched.Policy
	preempts bool
	free     *place.Free // a cache
}

func (l *layer) String() string { return fmt.Sprint(l.inner) }

// Schedule implements sched.Policy.
func (l *layer) Schedule(s *sched.Snapshot) sched.Plan {
	if !slices.ContainsFunc(s.Jobs, func(j *sched.Job) bool { return len(j.Topology) > 0 }) {
		return l.inner.Schedule(s)
	}
	waits := map[int]sched.Reason{}
	for round := 1; ; round++ {
		plan := l.inner.Schedule(without(s, waits))
		if len(plan.Want) != len(s.Jobs) || len(plan.Why) != len(s.Jobs) {
			return plan // the policy has a bug, which Decide reports
		}
		plan.Want, plan.Why = slices.Clone(plan.Want), slices.Clone(plan.Why) // they may be the policy's own
		for i, why := range waits {
			plan.Want[i], plan.Why[i] = nil, why
		}
		l.free = l.free.For(s.Cluster)
		m := mending{s: s, plan: &plan, free: l.free, quota: place.NewQuota(s)}
		m.mend()
		if l.preempts {
			m.makeRoom()
		}
		more := false
		for _, i := range m.lost {
			if _, known := waits[i]; !known && len(plan.Want[i]) == 0 && s.Jobs[i].Phase == sched.Pending {
				waits[i], more = plan.Why[i], true
			}
		}
		if !more || round == rounds {
			return plan
		}
	}
}

// without returns the world in which some waiting jobs are paused.
func without(s *sched.Snapshot, waits map[int]sched.Reason) *sched.Snapshot {
	if len(waits) == 0 {
		return s
	}
	jobs := slices.Clone(s.Jobs)
	for i := range waits {
		paused := *jobs[i]
		paused.Paused = true
		jobs[i] = &paused
	}
	return s.With(jobs)
}

// mending is the work on one plan.
type mending struct {
	s     *sched.Snapshot
	plan  *sched.Plan
	free  *place.Free // what the plan leaves free
	quota place.Quota // what it leaves to tenants
	lost  []int       // jobs that the policy gave GPUs and that have none now
	gangs []gang      // that wait for a domain
}

// gang is a job that waits, and the GPUs it would start with.
type gang struct{ job, gpus int }

// mend replaces the placements that could keep more of the rules.
func (m *mending) mend() {
	var ruled []int
	for i, j := range m.s.Jobs {
		if want := m.plan.Want[i]; len(want) > 0 {
			m.free.Take(j, want)
			m.quota.AddMilli(j, want.Milli())
		}
		if len(j.Topology) > 0 {
			ruled = append(ruled, i)
		}
	}
	slices.SortFunc(ruled, func(a, b int) int {
		x, y := m.s.Jobs[a], m.s.Jobs[b]
		return cmp.Or(cmp.Compare(y.Priority, x.Priority), cmp.Compare(x.Seq, y.Seq))
	})
	for _, i := range ruled {
		j, want := m.s.Jobs[i], m.plan.Want[i]
		switch {
		case len(want) == 0:
			if j.Phase == sched.Pending && m.plan.Why[i].Code == sched.Fragmented && j.Ready(m.s.Now) {
				m.gangs = append(m.gangs, gang{i, j.StartSize()})
			}
		case !want.Equal(j.Placement) && !j.Tied():
			m.improve(i, want)
		}
	}
}

// improve gives a job that starts, moves or changes its size GPUs that keep more of its
// rules than those that the policy chose.
func (m *mending) improve(i int, want sched.Placement) {
	j, n := m.s.Jobs[i], want.GPUs()
	now, kept := m.step(j, want)
	if now == 0 {
		return
	}
	mark := m.free.Mark()
	m.free.Release(j, want)
	if p, ok := place.Consolidated(m.free, j, n); ok {
		if then, keeps := m.step(j, p); keeps && (!kept || then < now) && m.affords(i, p) {
			m.replace(i, p)
			return
		}
		m.free.Rollback(mark)
		m.free.Release(j, want)
	}
	if kept {
		m.free.Rollback(mark)
		return
	}
	if j.Phase == sched.Running && m.free.Fits(j, j.Placement) && m.affords(i, j.Placement) {
		m.free.Take(j, j.Placement)
		m.replace(i, j.Placement)
		return
	}
	for size := j.LargestSize(n - 1); size > 0 && j.Elastic(); size = j.LargestSize(size - 1) {
		mark := m.free.Mark()
		if p, ok := place.Consolidated(m.free, j, size); ok {
			if m.affords(i, p) {
				m.replace(i, p)
				return
			}
			m.free.Rollback(mark)
		}
	}
	m.replace(i, nil)
	m.plan.Why[i] = m.free.Why(j, n, sched.CrossRack)
	m.lost = append(m.lost, i)
	m.gangs = append(m.gangs, gang{i, n})
}

// affords reports whether a job may have other GPUs than the plan gives it: where it had a part
// of each, it would have them whole.
func (m *mending) affords(i int, p sched.Placement) bool {
	return m.quota.FitsMilli(m.s.Jobs[i], p.Milli()-m.plan.Want[i].Milli())
}

// replace sets the placement of a job, which is taken already.
func (m *mending) replace(i int, p sched.Placement) {
	m.quota.AddMilli(m.s.Jobs[i], p.Milli()-m.plan.Want[i].Milli())
	m.plan.Want[i] = p
	if len(p) > 0 {
		m.plan.Why[i] = sched.Reason{}
	}
}

// step returns how far the preferred levels of a job have to be widened for a placement
// to keep to them; kept is false if it breaks what the job requires.
func (m *mending) step(j *sched.Job, p sched.Placement) (step int, kept bool) {
	for ; ; step++ {
		bounds, last := m.s.Cluster.Bounds(j, step)
		if m.s.Cluster.Keeps(p, bounds) {
			return step, true
		}
		if last {
			return step + 1, false
		}
	}
}

// victim is a job that could be displaced.
type victim struct {
	job  int
	cost float64 // GPU-seconds that it loses; 0: it does not run yet
}

// makeRoom displaces jobs for gangs that wait for a domain.
func (m *mending) makeRoom() {
	for k, g := range m.gangs {
		if k == mostGangs {
			return
		}
		j := m.s.Jobs[g.job]
		if g.gpus < sched.NoSize && len(m.s.Cluster.RequiredBounds(j)) > 0 && m.plan.Why[g.job].Code == sched.Fragmented && m.quota.Left(j) >= g.gpus {
			m.displace(g)
		}
	}
}

// displace starts a gang on GPUs that other jobs have, if that is worth it.
func (m *mending) displace(g gang) {
	j, victims := m.s.Jobs[g.job], m.victims(g.job)
	fits := func(k int) bool {
		mark := m.free.Mark()
		m.release(victims[:k])
		_, ok := place.Consolidated(m.free, j, g.gpus)
		m.free.Rollback(mark)
		return ok
	}
	k := sort.Search(len(victims)+1, fits)
	if k > len(victims) {
		return
	}
	mark := m.free.Mark()
	m.release(victims[:k])
	at, _ := place.Consolidated(m.free, j, g.gpus)
	var leave []victim
	cost := 0.0
	for _, v := range victims[:k] {
		o, want := m.s.Jobs[v.job], m.plan.Want[v.job]
		if m.free.Fits(o, want) {
			m.free.Take(o, want)
			continue
		}
		leave = append(leave, v)
		if o.Priority == j.Priority {
			cost += v.cost
		}
	}
	gain := float64(g.gpus) * j.WaitedBy(m.s.Now).Seconds()
	entry := sched.LedgerEntry{Layer: "topology", For: j.ID, Cost: cost, Gain: gain, Taken: true}
	moved := make([]sched.Placement, len(leave))
	ok := cost <= gain
	if !ok {
		m.plan.WakeBy(m.s.Now, m.s.Now.Add(place.Seconds((cost-gain)/float64(g.gpus))))
	}
	for i := 0; ok && i < len(leave); i++ {
		o := m.s.Jobs[leave[i].job]
		entry.Moved = append(entry.Moved, o.ID)
		if ok = !m.plan.Want[leave[i].job].Shared(); ok { // else its tenant might not be able to afford whole GPUs
			moved[i], ok = place.Consolidated(m.free, o, m.plan.Want[leave[i].job].GPUs())
		}
		ok = ok || leave[i].cost == 0 || o.Priority < j.Priority
	}
	if !ok {
		m.free.Rollback(mark)
		return
	}
	entry.Text = fmt.Sprintf("%s (%d GPUs) starts on %s, since %v make room: they lose %.0f GPU-seconds, and it has waited for %.0f",
		j.ID, g.gpus, at.Text(m.s.Cluster), entry.Moved, cost, gain)
	m.plan.Ledger = append(m.plan.Ledger, entry)
	for i, v := range leave {
		m.replace(v.job, moved[i])
		if len(moved[i]) == 0 {
			o := m.s.Jobs[v.job]
			m.plan.Why[v.job] = sched.Reason{Code: sched.Behind, Need: o.StartSize(), Have: m.free.Total()}
		}
	}
	m.replace(g.job, at)
}

func (m *mending) release(victims []victim) {
	for _, v := range victims {
		m.free.Release(m.s.Jobs[v.job], m.plan.Want[v.job])
	}
}

// victims returns the jobs that a gang may displace, the cheapest first.
func (m *mending) victims(of int) []victim {
	j := m.s.Jobs[of]
	var out []victim
	for i, o := range m.s.Jobs {
		want := m.plan.Want[i]
		if i == of || len(want) == 0 || want.Shared() || o.Tied() || m.plan.Screening != nil && m.plan.Screening[i] {
			continue
		}
		if o.Priority > j.Priority || o.Priority == j.Priority && len(o.Topology) > 0 || o.Phase == sched.Running && o.Pinned() {
			continue
		}
		v := victim{job: i}
		if o.Phase == sched.Running && want.Equal(o.Placement) {
			v.cost = restart.Seconds() * float64(want.GPUs())
			if o.Can < sched.Saves || o.SaveFailed {
				v.cost += o.Unsaved(m.s.Now)
			}
		}
		out = append(out, v)
	}
	slices.SortFunc(out, func(a, b victim) int {
		x, y := m.s.Jobs[a.job], m.s.Jobs[b.job]
		return cmp.Or(cmp.Compare(x.Priority, y.Priority), cmp.Compare(a.cost, b.cost), cmp.Compare(y.Seq, x.Seq))
	})
	return out
}
