// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package screen

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/place"
)

// decision is the layer's work on one plan.
type decision struct {
	*policy
	s       *sched.Snapshot
	roles   []role
	at      []sched.Placement // by job: where it is screened
	queue   []int             // jobs that wait for the pool
	used    int               // GPUs of the pool in use
	pool    int               // GPUs it may have now
	largest int               // GPUs it may ever have
	held    []*sched.Job      // placeholders that hold the spare GPUs of the pool
	why     map[int]sched.Reason

	late    bool         // a job of the policy below has waited too long
	gangs   []*sched.Job // some of those that need more than one GPU
	blocked bool         // the pool is in the way of one
}

// fill sizes the pool and starts screenings on its free GPUs.
func (d *decision) fill() {
	d.free = d.free.For(d.s.Cluster)
	quota := place.NewQuota(d.s)
	for i, j := range d.s.Jobs {
		if j.Phase == sched.Running && d.roles[i] != leaving {
			d.free.Take(j, j.Placement)
			quota.Add(j, j.Placement.GPUs())
		}
	}
	bySubmission(d.s, d.queue)
	d.runIdle()
	need := 0
	for _, i := range d.queue {
		if j := d.s.Jobs[i]; j.Ready(d.s.Now) {
			need += d.size(j)
		}
	}
	d.pool = min(d.largest, max(d.Least, int(math.Ceil((1+d.Spare)*float64(d.used+need)))))
	d.why = map[int]sched.Reason{}
	d.makeWay(quota)
	for _, i := range d.queue {
		d.try(i, quota)
	}
	if !d.late {
		d.hold()
	}
}

// try starts the screening of a job, or says why it waits.
func (d *decision) try(i int, quota place.Quota) {
	j := d.s.Jobs[i]
	n := d.size(j)
	if !j.Ready(d.s.Now) {
		d.why[i] = sched.Reason{Code: sched.BackOff, Until: j.NotBefore}
		return
	}
	if quota.Left(j) < n {
		d.why[i] = quota.Why(j, n)
		return
	}
	if room := d.used == 0 || d.used+n <= d.largest; room && !d.blocked {
		if at, ok := d.place(j, n); ok {
			quota.Add(j, n)
			d.roles[i], d.at[i] = screened, at
			d.used += n
			return
		}
	}
	d.why[i] = sched.Reason{Code: sched.ScreenWait, Need: n, Have: max(0, d.pool-d.used), Until: d.nextEnd()}
}

// small returns the job as it is screened: on that many whole GPUs, and not
// preemptible.
func (d *decision) small(j *sched.Job, n int) *sched.Job {
	alias := *j
	alias.GPUs, alias.MinGPUs, alias.MaxGPUs, alias.Sizes = n, 0, 0, nil
	alias.MilliGPU, alias.Shareable = 0, false
	alias.NonPreemptible, alias.Screening, alias.Suspended = true, false, nil
	return &alias
}

// nextEnd returns when the first of the screenings ends; zero: there is none.
func (d *decision) nextEnd() time.Time {
	var first time.Time
	for i, j := range d.s.Jobs {
		if d.roles[i] != screened {
			continue
		}
		if end := d.end(j); first.IsZero() || end.Before(first) {
			first = end
		}
	}
	return first
}

// end returns when the screening of a job ends.
func (d *decision) end(j *sched.Job) time.Time {
	if j.Phase == sched.Pending { // it starts now
		return d.s.Now.Add(j.Screen.D())
	}
	return j.Since.Add(j.Screen.D())
}

// runIdle lets new jobs skip screening while no job waits and there is room for
// them anyway. It also passes on jobs for which the cluster, or their tenant's
// limit, has no room at all: the policy below reports that.
func (d *decision) runIdle() {
	total := d.s.Cluster.GPUs()
	left, pool := d.free.Total(), d.largest-d.used
	nobodyHolds := place.NewQuota(d.s)
	nobody := d.Idle > 0 && !d.anybodyWaits()
	d.queue = slices.DeleteFunc(d.queue, func(i int) bool {
		j := d.s.Jobs[i]
		level := cmp.Or(j.MaxSpread, sched.CrossRack)
		pass := d.free.Ever(j, j.GPUs, level) < j.GPUs || nobodyHolds.Left(j) < j.GPUs
		if !pass && nobody && j.Ready(d.s.Now) {
			full := d.used > 0 && pool < d.size(j)
			pass = left >= j.GPUs && (full || float64(left-j.GPUs) >= d.Idle*float64(total))
			if pass {
				left -= j.GPUs
			} else {
				pool -= d.size(j)
			}
		}
		if pass {
			d.roles[i] = trusted
		}
		return pass
	})
}

// anybodyWaits reports whether the policy below has a job that could run and does
// not.
func (d *decision) anybodyWaits() bool {
	for i, j := range d.s.Jobs {
		if d.roles[i] == leaving || (d.roles[i] == trusted && j.Phase == sched.Pending && j.Ready(d.s.Now)) {
			return true
		}
	}
	return false
}

// hold withholds free GPUs, as many as the pool should have, from the policy below.
func (d *decision) hold() {
	for t, name := range d.s.Cluster.Types {
		var at sched.Placement
		one := &sched.Job{Spec: sched.Spec{GPUs: 1, GPUTypes: []sched.GPUType{name}, Selector: d.Pool}}
		for d.used+at.GPUs() < d.pool && d.free.OfType(t) > 0 {
			p, ok := place.Fragments(d.free, one, 1)
			if !ok {
				break
			}
			at = add(at, p[0])
		}
		if len(at) == 0 {
			continue
		}
		d.pool -= at.GPUs()
		id := "@pool-" + string(name)
		d.held = append(d.held, &sched.Job{
			Spec:   sched.Spec{ID: sched.JobID(id), App: sched.AppID(id), GPUs: at.GPUs(), NonPreemptible: true, Submitted: d.s.Now},
			Status: sched.Status{Phase: sched.Running, Seq: -1 - int64(t), Since: d.s.Now, ReportedAt: d.s.Now, Placement: at},
		})
	}
}

// add adds a slice to a placement that may already hold GPUs of its node.
func add(at sched.Placement, s sched.Slice) sched.Placement {
	if i := slices.IndexFunc(at, func(h sched.Slice) bool { return h.Node == s.Node }); i >= 0 {
		at[i].GPUs |= s.GPUs
		return at
	}
	return append(at, s)
}

// view returns the jobs that the policy below sees, and for each the index of the
// job it represents; -1: none.
func (d *decision) view() (seen []*sched.Job, from []int) {
	for i, j := range d.s.Jobs {
		switch d.roles[i] {
		case waiting:
			continue
		case screened:
			small := d.small(j, d.at[i].GPUs())
			if small.Phase == sched.Pending {
				small.Phase, small.Since, small.ReportedAt = sched.Running, d.s.Now, d.s.Now
			}
			small.Placement = d.at[i]
			j = small
		case leaving:
			j = d.gang(j)
		}
		seen, from = append(seen, j), append(from, i)
	}
	for _, h := range d.held {
		seen, from = append(seen, h), append(from, -1)
	}
	return seen, from
}

// gang returns a job whose screening is over as one that waits for its gang.
func (d *decision) gang(j *sched.Job) *sched.Job {
	alias := *j
	alias.Suspended = nil
	if j.Phase == sched.Running {
		alias.GPUSeconds, alias.Ran = j.AttainedBy(d.s.Now), sched.Duration(j.RanBy(d.s.Now))
		alias.Done, alias.Rate, alias.ReportedAt = j.DoneBy(d.s.Now), 0, d.s.Now
		alias.Phase, alias.Placement, alias.Since = sched.Pending, nil, d.s.Now
		alias.Screening, alias.ProbationPassed = false, true
	}
	return &alias
}

// plan turns the plan of the policy below into one for all jobs.
func (d *decision) plan(inner sched.Plan, from []int) sched.Plan {
	out := sched.NewPlan(d.s)
	out.Suspend, out.Wake, out.Due, out.Ledger = inner.Suspend, inner.Wake, inner.Due, inner.Ledger
	if inner.Notes != nil {
		out.Notes = make([]sched.Note, len(d.s.Jobs))
		for i, j := range d.s.Jobs {
			out.Notes[i] = j.Note
		}
	}
	out.Screening = make([]bool, len(d.s.Jobs))
	for k, i := range from {
		if i < 0 {
			continue
		}
		out.Want[i], out.Why[i] = inner.Want[k], inner.Why[k]
		if inner.Notes != nil {
			out.Notes[i] = inner.Notes[k]
		}
		out.Screening[i] = d.roles[i] == screened || (inner.Screening != nil && inner.Screening[k])
	}
	for _, i := range d.queue {
		j := d.s.Jobs[i]
		if d.roles[i] == waiting {
			out.Why[i] = d.why[i]
			out.WakeBy(d.s.Now, j.Since.Add(d.Patience.D()))
		}
	}
	for i, j := range d.s.Jobs {
		switch {
		case d.roles[i] == screened:
			out.WakeBy(d.s.Now, d.end(j))
		case d.roles[i] != waiting && len(d.held) > 0 && len(out.Want[i]) == 0:
			since := j.Since
			if j.Phase == sched.Running {
				since = d.s.Now
			}
			out.WakeBy(d.s.Now, since.Add(2*d.Patience.D())) // from then on nothing is held
		}
	}
	return out
}
