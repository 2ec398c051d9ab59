// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package place

import (
	"github.com/fairway-gpu/fairway/sched"
)

// Seating is a plan in the making of a policy that shares GPUs and leaves every
// running job where it is.
type Seating struct {
	Snapshot *sched.Snapshot
	Seats    *SharedView
	Plan     sched.Plan

	free  *Free
	quota Quota
}

// NewSeating lets every running job go on, in the given views of the cluster in
// which every GPU is free. One that leaves stops, and may be started again; nil:
// nobody does.
func NewSeating(s *sched.Snapshot, seats *SharedView, free *Free, leaves *sched.Job) *Seating {
	g := &Seating{Snapshot: s, Seats: seats, Plan: sched.NewPlan(s), free: free, quota: NewQuota(s)}
	// By submission, so that sums do not depend on the order of jobs.
	for _, i := range OrderBy(s, func(*sched.Job) (a, b float64) { return 0, 0 }) {
		if j := s.Jobs[i]; j.Phase == sched.Running && j != leaves && free.Fits(j, j.Placement) {
			g.take(i, j.Placement)
		}
	}
	return g
}

func (g *Seating) take(i int, p sched.Placement) {
	j := g.Snapshot.Jobs[i]
	g.Plan.Want[i], g.Plan.Why[i] = p, sched.Reason{}
	g.free.Take(j, p)
	g.Seats.Take(j, p)
	g.quota.AddMilli(j, p.Milli())
}

// Waits reports whether a job is to be started, if there is room: not one that
// runs, that waits for the end of a back-off, or that will never fit. The latter
// two get their reason.
func (g *Seating) Waits(i int) bool {
	j := g.Snapshot.Jobs[i]
	if len(g.Plan.Want[i]) > 0 {
		return false
	}
	if j.Phase == sched.Pending && !j.Ready(g.Snapshot.Now) {
		g.Plan.Why[i] = sched.Reason{Code: sched.BackOff, Until: j.NotBefore}
		return false
	}
	if most := g.free.Ever(j, j.GPUs, sched.CrossRack); most < j.GPUs {
		g.Plan.Why[i] = g.free.Why(j, j.GPUs, sched.CrossRack)
		return false
	}
	return true
}

// Start gives a job that Waits what it asks for, at the least cost, or says why
// it cannot.
func (g *Seating) Start(i int, a Ask, judge Judge) bool {
	j := g.Snapshot.Jobs[i]
	a.Job, a.GPUs, a.Whole = j, j.GPUs, a.Whole || !Sharable(j)
	if !g.quota.FitsMilli(j, int(g.Seats.share(&a))*j.GPUs) {
		g.Plan.Why[i] = g.quota.Why(j, j.GPUs)
		return false
	}
	p, ok := g.Seats.Find(a, judge)
	if !ok {
		g.Behind(i)
		return false
	}
	g.take(i, p)
	return true
}

// Behind gives the reason of a job for which there is no room: too few idle GPUs,
// or too few near to each other, or others that go first.
func (g *Seating) Behind(i int) {
	j := g.Snapshot.Jobs[i]
	why := g.free.Why(j, j.GPUs, sched.CrossRack)
	if why.Code == sched.Fragmented && why.Have >= j.GPUs {
		why = sched.Reason{Code: sched.Behind, Need: j.GPUs, Have: g.free.Total()}
	}
	g.Plan.Why[i] = why
}

// OverQuota reports whether a job waits for its tenant's quota.
func (g *Seating) OverQuota(i int) bool { return g.Plan.Why[i].OverShare() }

// Idle returns the number of GPUs that nobody holds.
func (g *Seating) Idle() int { return g.free.Total() }
