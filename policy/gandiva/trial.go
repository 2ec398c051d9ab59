// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package gandiva

import (
	"time"

	"github.com/fairway-gpu/fairway/policy/pairing"
	"github.com/fairway-gpu/fairway/sched"
)

// memory is what trials have shown. It is lost when the daemon restarts: what was
// undone is then tried once more.
type memory struct {
	pairs pairing.Outcomes     // the speeds of two packed jobs, relative to alone, added up
	trips map[sched.JobID]trip // migrations that are not judged yet
	stays map[sched.JobID]bool // jobs that a migration made slower
}

// trip is a migration.
type trip struct {
	from sched.Placement
	rate float64 // before it
}

const (
	mostKnown = 4096 // jobs in each part of the memory
	// worse is the part of its rate that a migrated job must keep; rates vary by a
	// few percent from one report to the next.
	worse = 0.95
	// parted is the measured slowdown of a packed job above which it gets GPUs of
	// its own when some are idle.
	parted = 1.05
)

// remember adds an entry to a part of the memory.
func remember[V any](m *map[sched.JobID]V, id sched.JobID, value V) {
	if *m == nil || len(*m) >= mostKnown {
		*m = map[sched.JobID]V{}
	}
	(*m)[id] = value
}

// introspect judges the trials that have run long enough: it keeps what made jobs
// faster and undoes what did not.
func (d *decision) introspect() {
	for _, i := range d.sorted(func(i int) bool { return d.plan.Want[i].Shared() }) {
		if k := d.partner(i); k >= 0 && d.s.Jobs[k].Seq < d.s.Jobs[i].Seq {
			d.judgePair(i, k)
		}
	}
	if len(d.trips) == 0 {
		return
	}
	for _, i := range d.sorted(func(i int) bool { _, ok := d.trips[d.s.Jobs[i].ID]; return ok }) {
		d.judgeTrip(i)
	}
}

// partner returns the job that runs on the same GPUs; -1: none.
func (d *decision) partner(i int) int {
	p := d.plan.Want[i]
	for _, k := range d.runs[p[0].Node] {
		if k != i && overlap(p[:1], d.plan.Want[k]) {
			return k
		}
	}
	return -1
}

// ripe reports whether a trial that began at a time has run long enough to be
// judged. If not, the policy asks to be woken then.
func (d *decision) ripe(began time.Time) bool {
	due := began.Add(d.Trial.D())
	if due.After(d.s.Now) {
		d.plan.WakeBy(d.s.Now, due)
		return false
	}
	return true
}

// judgePair keeps two packed jobs together if their measured speeds add up to more
// than that of taking turns, and else ends the trial: the one that came last takes
// turns or tries the next GPU. Jobs that do not report stay together.
func (d *decision) judgePair(i, k int) {
	a, b := d.s.Jobs[i], d.s.Jobs[k]
	began := a.Since
	if b.Since.After(began) {
		began = b.Since
	}
	if !d.ripe(began) || !measuredSince(a, began) || !measuredSince(b, began) {
		return
	}
	speed := 1/a.Slowdown + 1/b.Slowdown
	d.pairs.Put(a, b, speed)
	if speed > 1+d.PackMargin {
		return
	}
	guest := i
	if b.Since.After(a.Since) {
		guest = k
	}
	if d.s.Jobs[guest].Pinned() {
		guest = i + k - guest
	}
	if d.s.Jobs[guest].Pinned() {
		return // neither may be stopped
	}
	d.stop(guest)
	d.plan.Why[guest] = sched.Reason{Code: sched.TurnWait, Need: d.home[guest].GPUs(), Until: d.now.end}
	d.waiting = append(d.waiting, guest)
}

// measuredSince reports whether the slowdown of a job was measured after a time.
func measuredSince(j *sched.Job, t time.Time) bool { return j.Slowdown > 0 && !j.ReportedAt.Before(t) }

// apart reports whether a trial has shown that two jobs do better in turns.
func (d *decision) apart(a, b *sched.Job) bool {
	speed, known := d.pairs.Get(a, b)
	return known && speed <= 1+d.PackMargin
}

// depart counts a migration, which begins as a trial.
func (d *decision) depart(i int) {
	if j := d.s.Jobs[i]; j.Rate > 0 {
		remember(&d.trips, j.ID, trip{j.Placement, j.Rate})
		d.ripe(d.s.Now)
	}
	d.moves--
}

// judgeTrip moves a job back that is slower than before its migration, if its old
// GPUs are still idle, and does not migrate it again.
func (d *decision) judgeTrip(i int) {
	j := d.s.Jobs[i]
	t := d.trips[j.ID]
	if j.Placement.GPUs() == t.from.GPUs() && !j.Placement.Equal(t.from) && !j.Placement.Shared() {
		if !d.ripe(j.Since) || j.Rate == 0 {
			return
		}
		if j.Rate < worse*t.rate {
			remember(&d.stays, j.ID, true)
			if !j.Pinned() && d.vacant(t.from) && d.accepts(j, t.from) && d.live.Fits(j, t.from) {
				d.relocate(i, t.from)
			}
		}
	}
	delete(d.trips, j.ID)
}

// vacant reports whether all GPUs of a placement exist and are idle.
func (d *decision) vacant(p sched.Placement) bool {
	for _, s := range p {
		if int(s.Node) >= len(d.s.Cluster.Nodes) || s.GPUs&^d.idle.OnNode(int(s.Node)) != 0 {
			return false
		}
	}
	return true
}
