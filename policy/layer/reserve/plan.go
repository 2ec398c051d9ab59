// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package reserve

import (
	"cmp"
	"slices"

	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/place"
)

// plan asks the policy below about a view in which the gangs with a reservation do
// not wait and their free GPUs are taken, and adds what the layer itself starts.
// first is the policy's plan for the actual snapshot.
func (l *layer) plan(s *sched.Snapshot, first sched.Plan, held []reservation) sched.Plan {
	v := newView(s, held)
	plan := v.back(l.inner.Schedule(s.With(v.jobs)), first)
	if len(plan.Want) != len(s.Jobs) {
		return plan
	}
	for _, r := range held {
		plan.Why[r.job] = first.Why[r.job]
		if r.at.After(s.Now) {
			plan.Why[r.job].Until = r.at
		}
	}
	b := backfill{layer: l, s: s, plan: &plan, quota: place.NewQuota(s)}
	b.free = l.free.For(s.Cluster)
	for i, j := range s.Jobs {
		b.free.Take(j, plan.Want[i])
		b.quota.AddMilli(j, plan.Want[i].Milli())
	}
	b.start(held)
	b.fill()
	return plan
}

// view is what the policy below sees instead of the snapshot.
type view struct {
	s    *sched.Snapshot
	jobs []*sched.Job
	at   []int // by job of the snapshot: its index in jobs; -1: hidden
}

func newView(s *sched.Snapshot, held []reservation) view {
	v := view{s: s, jobs: make([]*sched.Job, 0, len(s.Jobs)), at: make([]int, len(s.Jobs))}
	for _, r := range held {
		v.at[r.job] = -1
	}
	for i, j := range s.Jobs {
		if v.at[i] < 0 {
			continue
		}
		v.at[i] = len(v.jobs)
		v.jobs = append(v.jobs, j)
	}
	for k, r := range held {
		if len(r.held) > 0 {
			v.jobs = append(v.jobs, keeper(s, r, k))
		}
	}
	return v
}

// keeper returns a placeholder job that holds the free GPUs of a reservation, on
// the quota of the gang's tenant, until the gang would end.
func keeper(s *sched.Snapshot, r reservation, k int) *sched.Job {
	j := *r.gang // with its tenant
	j.Spec = sched.Spec{
		ID: "@reserve/" + j.ID, App: "@reserve/" + sched.AppID(j.ID), Tenant: j.Tenant, User: j.User, Submitted: s.Now,
		GPUs: r.held.GPUs(), CPUs: j.CPUs, Memory: j.Memory, NonPreemptible: true,
		Estimate: sched.Duration(r.at.Sub(s.Now)) + j.Estimate,
	}
	if !r.supplied {
		j.CPUs, j.Memory = 0, 0
	}
	if r.gang.Estimate == 0 {
		j.Estimate = 0
	}
	j.Status = sched.Status{Seq: int64(-1 - k), Phase: sched.Running, Since: s.Now, FirstStart: s.Now, Starts: 1, Placement: r.held}
	return &j
}

// back turns a plan for the view into one for the snapshot. Hidden jobs get their
// notes from the first plan.
func (v view) back(p, first sched.Plan) sched.Plan {
	if len(p.Want) != len(v.jobs) || len(p.Why) != len(v.jobs) {
		return p // the policy has a bug, which Decide reports
	}
	out := sched.NewPlan(v.s)
	out.Suspend, out.Wake, out.Due, out.Ledger = p.Suspend, p.Wake, p.Due, p.Ledger
	out.WakeBy(v.s.Now, first.Wake)
	out.DueBy(v.s.Now, first.Due)
	if p.Notes != nil || first.Notes != nil {
		out.Notes = make([]sched.Note, len(v.s.Jobs))
	}
	if p.Screening != nil {
		out.Screening = make([]bool, len(v.s.Jobs))
	}
	for i, j := range v.s.Jobs {
		k := v.at[i]
		if out.Notes != nil {
			switch {
			case k < 0 && first.Notes != nil:
				out.Notes[i] = first.Notes[i]
			case k < 0 || p.Notes == nil:
				out.Notes[i] = j.Note
			default:
				out.Notes[i] = p.Notes[k]
			}
		}
		if k < 0 {
			continue
		}
		out.Want[i], out.Why[i] = p.Want[k], p.Why[k]
		if p.Screening != nil {
			out.Screening[i] = p.Screening[k]
		}
	}
	return out
}

// backfill starts what the layer itself may start. Its free view and quota are
// those after the plan.
type backfill struct {
	*layer
	s     *sched.Snapshot
	plan  *sched.Plan
	free  *place.Free
	quota place.Quota
	wait  []reservation // that cannot begin yet, with what is held for them
}

// start starts the gangs whose reserved GPUs are all free, and takes what is held
// for the others out of the view.
func (b *backfill) start(held []reservation) {
	for _, r := range held {
		switch {
		case b.quota.Left(r.gang) < r.gang.GPUs:
			b.plan.Why[r.job] = b.quota.Why(r.gang, r.gang.GPUs)
		case b.free.Fits(r.gang, r.place):
			b.free.Take(r.gang, r.place)
			b.quota.Add(r.gang, r.gang.GPUs)
			b.plan.Want[r.job], b.plan.Why[r.job] = r.place, sched.Reason{}
		default:
			if b.plan.Why[r.job].Code == sched.Ok { // the first plan could start it
				b.plan.Why[r.job] = b.free.Why(r.gang, r.gang.GPUs, sched.CrossRack)
			}
			b.wait = append(b.wait, r)
		}
	}
	for _, r := range b.wait {
		b.free.Take(r.gang, r.held)
	}
}

// mostFilled bounds the jobs that are tried on held GPUs in one decision.
const mostFilled = 256

// fill gives held GPUs to jobs that end before they are needed.
func (b *backfill) fill() {
	total := 0
	for _, r := range b.wait {
		total = max(total, r.held.GPUs())
	}
	if total == 0 {
		return
	}
	var short []int
	for i, j := range b.s.Jobs {
		// What fits outside the held GPUs was for the policy to place.
		if place.Waits(*b.plan, i) && j.Phase == sched.Pending && j.Ready(b.s.Now) && !j.OnProbation(b.s.Now) && b.ends(j, b.wait) {
			short = append(short, i)
		}
	}
	slices.SortFunc(short, func(x, y int) int {
		a, c := b.s.Jobs[x], b.s.Jobs[y]
		return cmp.Or(cmp.Compare(c.Priority, a.Priority), cmp.Compare(a.Seq, c.Seq))
	})
	for _, i := range short[:min(len(short), mostFilled)] {
		b.try(i)
	}
}

// ends reports whether the job would end, at tolerance times its estimate, before
// one of the reservations begins.
func (b *backfill) ends(j *sched.Job, held []reservation) bool {
	left, known := j.Remaining(b.s.Now)
	if !known || slices.ContainsFunc(b.wait, func(r reservation) bool { return r.gang == j }) {
		return false
	}
	end := b.s.Now.Add(place.Seconds(b.Tolerance * left.Seconds()))
	return slices.ContainsFunc(held, func(r reservation) bool {
		return len(r.held) > 0 && !end.After(r.at) && r.promise.After(b.s.Now)
	})
}

// try starts a job on GPUs some of which are held for a later reservation.
func (b *backfill) try(i int) {
	j := b.s.Jobs[i]
	if b.quota.Left(j) < j.GPUs {
		return
	}
	find := place.Skew(place.Consolidated)
	for k := range b.wait {
		r := &b.wait[k]
		if !b.ends(j, b.wait[k:k+1]) {
			continue
		}
		mark := b.free.Mark()
		b.free.Release(r.gang, r.held)
		p, ok := find(b.free, j, j.GPUs)
		b.free.Rollback(mark)
		if !ok || !overlap(p, r.held) {
			continue
		}
		b.free.Release(r.gang, r.held)
		r.held = without(r.held, p)
		b.free.Take(r.gang, r.held)
		b.free.Take(j, p)
		b.quota.Add(j, j.GPUs)
		b.plan.Want[i], b.plan.Why[i] = p, sched.Reason{}
		return
	}
}

func overlap(p, q sched.Placement) bool {
	return without(q, p).GPUs() < q.GPUs()
}

// without returns p less the GPUs of q.
func without(p, q sched.Placement) sched.Placement {
	var out sched.Placement
	for _, s := range p {
		for _, other := range q {
			if other.Node == s.Node {
				s.GPUs &^= other.GPUs
			}
		}
		if s.GPUs != 0 {
			out = append(out, s)
		}
	}
	return out
}
