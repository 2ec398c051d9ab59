// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package fairway

import (
	"cmp"
	"slices"
	"time"

	"github.com/fairway-gpu/fairway/policy/division"
	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/place"
)

// isDue reports whether a job has waited for as long as any may, or lost its GPUs in its
// turn, by a failure.
func (p *policy) isDue(s *sched.Snapshot, j *sched.Job) bool {
	return p.Wait > 0 && j.Phase == sched.Pending && j.Ready(s.Now) && (!p.dueAt(j).After(s.Now) || p.hasTurn(s, j))
}

// dueAt returns when a waiting job becomes due.
func (p *policy) dueAt(j *sched.Job) time.Time { return j.Since.Add(p.Wait.D()) }

// turn, as Note.Level, marks a job that was due when it started, at Note.Since.
const turn = 1

// inTurn reports whether a running job was due and has not had its turn yet. That of a
// pinned job lasts until it ends.
func (p *policy) inTurn(s *sched.Snapshot, j *sched.Job) bool {
	return j.Phase == sched.Running && (p.hasTurn(s, j) || j.Note.Level == turn && j.Pinned())
}

// hasTurn reports whether a job was due and its turn is not over. One that fails goes on
// with the rest of it: to wait from the beginning again after each of its attempts would
// cost it days.
func (p *policy) hasTurn(s *sched.Snapshot, j *sched.Job) bool {
	return j.Note.Level == turn && s.Now.Before(j.Note.Since.Add(p.Turn.D()))
}

// favoured is the part of the cluster that jobs that are due may hold, and again those
// that are behind: the rest is divided by what it is worth, whatever they claim.
const favoured = 0.25

// admit drops all due jobs but the first ones, so that those that have their turn hold
// no more than a part of the cluster at any time; a larger job has its turn alone.
func (w *world) admit() {
	held, most := 0, int(favoured*float64(w.s.Cluster.GPUs()))
	for i, j := range w.s.Jobs {
		if w.jobs[i].inTurn {
			held += j.Placement.GPUs()
		}
	}
	due := w.due
	w.due = nil
	var host host
	for _, i := range due {
		n := w.sizeOfTurn(i)
		if !host.could(w, i, n) {
			continue
		}
		if held > 0 && held+n > most {
			return
		}
		held += n
		w.due = append(w.due, i)
	}
}

// sizeOfTurn returns the GPUs that a job gets for its turn: those it asked for or, if it has
// plans, as many up to that as it uses best. Whole turns are spent at that size, and what
// is left beside it has to do for another gang.
func (w *world) sizeOfTurn(i int) int {
	j, one := w.s.Jobs[i], w.jobs[i].one
	best := j.StartSize()
	if !planned(j) || one == nil {
		return best
	}
	most := 0.0
	for n := j.NextSize(0); n > 0 && n <= j.StartSize(); n = j.NextSize(n) {
		if g := one.Goodput(division.Near, n) / float64(n); g > most {
			best, most = n, g
		}
	}
	return best
}

// host is the cluster as it would be if all jobs left that can be stopped.
type host struct {
	free     *place.Free
	withheld []bool
}

// could reports whether a job could start there. One that could not keeps nobody else
// from its turn.
func (h *host) could(w *world, i, n int) bool {
	j := w.s.Jobs[i]
	if t, ok := w.s.Tenant(j); ok && w.s.Limit(t) < n || n > w.s.Cluster.GPUs() {
		return false
	}
	if h.free == nil {
		w.free = w.free.For(w.s.Cluster)
		h.free, h.withheld = w.free, place.Withheld(w.s)
		for _, other := range w.s.Jobs {
			if other.Phase == sched.Running && other.Pinned() {
				h.free.Take(other, other.Placement)
			}
		}
	}
	if h.withheld != nil && h.withheld[i] {
		return false
	}
	mark := h.free.Mark()
	_, ok := place.Consolidated(h.free, j, n)
	h.free.Rollback(mark)
	return ok
}

// keeps reports whether a running job of one size may not be stopped yet: it has its
// turn, or it has just started and nobody is due or below its tenant's share.
func (w *world) keeps(j *sched.Job) bool {
	return w.inTurn(w.s, j) || len(w.due) == 0 && w.limits == nil && w.s.Now.Sub(j.Since) < w.Settle.D()
}

// remember notes who starts because it was due.
func (w *world) remember(plan *sched.Plan) {
	set := func(i int, n sched.Note) {
		if w.s.Jobs[i].Note == n {
			return
		}
		if plan.Notes == nil {
			plan.Notes = make([]sched.Note, len(w.s.Jobs))
			for k, j := range w.s.Jobs {
				plan.Notes[k] = j.Note
			}
		}
		plan.Notes[i] = n
	}
	for i, j := range w.s.Jobs {
		failed := j.Phase == sched.Pending && w.hasTurn(w.s, j)
		if !failed && !(w.jobs[i].inTurn && len(plan.Want[i]) > 0) {
			set(i, sched.Note{})
		}
	}
	for _, i := range w.due {
		if len(plan.Want[i]) > 0 && !w.hasTurn(w.s, w.s.Jobs[i]) {
			set(i, sched.Note{Level: turn, Since: w.s.Now})
		}
	}
}

// promise says when waiting jobs will have started at the latest: see the theorem in the
// package comment. Where jobs are pinned nobody can tell.
func (w *world) promise(plan *sched.Plan) {
	if w.Wait == 0 || slices.ContainsFunc(w.s.Jobs, (*sched.Job).Pinned) {
		return
	}
	var waits []int
	for i, j := range w.s.Jobs {
		if j.Phase == sched.Pending && place.Waits(*plan, i) {
			waits = append(waits, i)
		}
	}
	w.byWait(waits)
	for before, i := range waits {
		due := w.dueAt(w.s.Jobs[i])
		if due.Before(w.s.Now) {
			due = w.s.Now
		}
		plan.Why[i].Promised = due.Add(time.Duration(before+1) * w.Turn.D())
	}
}

// byWait sorts jobs by the start of their wait.
func (w *world) byWait(jobs []int) {
	slices.SortFunc(jobs, func(a, b int) int {
		return cmp.Or(w.s.Jobs[a].Since.Compare(w.s.Jobs[b].Since), cmp.Compare(w.s.Jobs[a].Seq, w.s.Jobs[b].Seq))
	})
}

// fix returns where jobs have to be, whatever they are worth: those that have their
// turn or a seat on a shared GPU stay, and those that are due start, on idle GPUs if
// there are any, else on those of others.
func (w *world) fix() []sched.Placement {
	fixed := make([]sched.Placement, len(w.s.Jobs))
	w.free = w.free.For(w.s.Cluster)
	for i, j := range w.s.Jobs {
		if j.Phase == sched.Running && (j.Pinned() || w.jobs[i].inTurn) {
			fixed[i] = j.Placement
			w.free.Take(j, j.Placement)
		}
	}
	quota := place.NewQuota(w.s)
	for i, j := range w.s.Jobs {
		quota.AddMilli(j, fixed[i].Milli())
	}
	if len(w.due) > 0 {
		w.startDue(fixed, quota)
	}
	for i, j := range w.s.Jobs {
		if j.Phase == sched.Running && fixed[i] == nil && j.Placement.Shared() && w.free.Fits(j, j.Placement) && quota.Fits(j, j.Placement) {
			fixed[i] = j.Placement
			w.free.Take(j, j.Placement)
			quota.AddMilli(j, j.Placement.Milli())
		}
	}
	return fixed
}

// startDue places the jobs that are due, on what the fixed jobs leave: on GPUs that nobody
// else runs on, if there are enough.
func (w *world) startDue(fixed []sched.Placement, quota place.Quota) {
	var o *others
	for _, i := range w.due {
		j := w.s.Jobs[i]
		n := w.sizeOfTurn(i)
		if quota.Left(j) < n {
			continue
		}
		if o == nil {
			o = w.newOthers(fixed)
		}
		at, ok := place.Consolidated(o.free, j, n)
		if ok {
			w.free.Take(j, at)
		} else if at, ok = place.Consolidated(w.free, j, n); ok {
			o.yield(j, at)
		}
		if ok {
			fixed[i] = at
			quota.Add(j, n)
		}
	}
}
