// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package gandiva

import (
	"slices"
	"time"

	"github.com/fairway-gpu/fairway/sched"
)

// timeSlice serves the waiting jobs, the longest wait first: on the GPUs where their
// state is, on idle GPUs, or by ending turns that are over. GPUs that a job could
// not get are claimed for it, so that no job that has waited less takes them first.
func (d *decision) timeSlice() {
	d.sortBy(d.waiting, d.dueSince)
	var stopped []int
	for _, i := range d.waiting {
		if len(d.plan.Want[i]) == 0 {
			stopped = d.serve(i, stopped)
		}
	}
	d.waiting = append(d.waiting, stopped...)
	if !d.now.late {
		d.fill()
	}
	d.waiting = slices.DeleteFunc(d.waiting, func(i int) bool { return len(d.plan.Want[i]) > 0 })
	for _, i := range d.waiting {
		if d.plan.Why[i].Code == sched.TurnWait {
			d.plan.WakeBy(d.s.Now, d.now.end)
		}
		if j := d.s.Jobs[i]; j.Phase == sched.Pending && !d.resumable(j) {
			d.notes()[i] = sched.Note{Level: admitted, Since: d.dueSince(j)}
		}
	}
}

// admitted, as the Note.Level of a pending job, means that it has shared GPUs since
// Note.Since, though it has had no turn yet.
const admitted = 1

// dueSince returns since when a job has waited for its turn. The time before it
// found GPUs to share does not count; otherwise jobs that wait for a turn would be
// behind the whole queue.
func (d *decision) dueSince(j *sched.Job) time.Time {
	switch {
	case j.Phase == sched.Running || d.resumable(j):
		return j.Since
	case j.Note.Level == admitted && j.Note.Since.Before(d.s.Now):
		return j.Note.Since
	}
	return d.s.Now
}

// serve does what it can for one waiting job now. It appends the jobs that are
// stopped for it.
func (d *decision) serve(i int, stopped []int) []int {
	if p, ok := d.elsewhere(i); ok {
		d.leave(i)
		d.settle(i, p)
		d.run(i)
		return stopped
	}
	j, p := d.s.Jobs[i], d.home[i]
	d.plan.Why[i] = sched.Reason{Code: sched.TurnWait, Need: p.GPUs(), Until: d.now.end}
	blockers, over := d.blockers(i)
	if over && !d.claims(p) {
		for _, b := range blockers {
			d.stop(b)
		}
		if d.fits(i) {
			d.run(i)
			for _, b := range blockers {
				d.plan.Why[b] = sched.Reason{Code: sched.TurnWait, Need: d.home[b].GPUs(), Until: d.now.end}
			}
			return append(stopped, blockers...)
		}
		for _, b := range blockers {
			d.run(b)
		}
		if d.quota.Left(j) < p.GPUs() {
			d.plan.Why[i] = d.quota.Why(j, p.GPUs())
			return stopped
		}
	}
	if len(blockers) > 0 {
		for _, s := range p {
			d.claimed[s.Node] |= s.GPUs
		}
	}
	return stopped
}

// elsewhere finds idle GPUs for a suspended job whose own are taken; that lowers
// the height of those it leaves.
func (d *decision) elsewhere(i int) (sched.Placement, bool) {
	j := d.s.Jobs[i]
	n := d.home[i].GPUs()
	if d.idle.Total() < n || d.isBarred(j) || (d.fits(i) && !d.claims(d.home[i])) ||
		d.room(j) < n {
		return nil, false
	}
	return d.avoiding(j, func() (sched.Placement, bool) { return d.spot(j, d.request(j, n)) })
}

// fits reports whether the job can run where it is resident, beside those that
// run there.
func (d *decision) fits(i int) bool {
	j, p := d.s.Jobs[i], d.home[i]
	if d.quota.Left(j) < p.GPUs() || !d.live.Fits(j, p) {
		return false
	}
	if !p.Shared() {
		return true
	}
	// Half of each GPU is free, but not every neighbour is suitable.
	for _, s := range p {
		for _, b := range d.runs[s.Node] {
			if d.blocks(b, i, s) {
				return false
			}
		}
	}
	return true
}

// claims reports whether any of the GPUs is claimed.
func (d *decision) claims(p sched.Placement) bool {
	for _, s := range p {
		if d.claimed[s.Node]&s.GPUs != 0 {
			return true
		}
	}
	return false
}

// blockers returns the jobs that run on the GPUs where a job is resident, and
// whether all their turns are over. The result is valid until the next call.
func (d *decision) blockers(i int) (jobs []int, over bool) {
	jobs, over = d.scratch[:0], true
	for _, s := range d.home[i] {
		for _, b := range d.runs[s.Node] {
			if d.blocks(b, i, s) && !slices.Contains(jobs, b) {
				jobs = append(jobs, b)
				over = over && d.over(b)
			}
		}
	}
	d.scratch = jobs
	return jobs, over
}

// blocks reports whether a running job keeps another from running on a part of its
// GPUs: they need the same GPUs and cannot be packed.
func (d *decision) blocks(b, i int, s sched.Slice) bool {
	q := d.plan.Want[b]
	if !slices.ContainsFunc(q, func(t sched.Slice) bool { return t.Node == s.Node && t.GPUs&s.GPUs != 0 }) {
		return false
	}
	return s.Milli == sched.WholeGPU || !q.Shared() || !sameGPUs(d.home[i], q) || !d.suit(i, b)
}

// over reports whether a running job has had its turn: it began in an earlier
// slice, and not just at its end.
func (d *decision) over(i int) bool {
	j := d.s.Jobs[i]
	return d.runsOn(i) && !j.Pinned() && j.Since.Before(d.now.begin) && d.s.Now.Sub(j.Since) >= d.Slice.D()/2
}

// fill lets waiting jobs run on GPUs that would otherwise idle until the end of the
// slice, even if another job claims them: their turn is over by then.
func (d *decision) fill() {
	d.sortBy(d.waiting, d.dueSince)
	for _, i := range d.waiting {
		if len(d.plan.Want[i]) == 0 && d.fits(i) {
			d.run(i)
		}
	}
}
