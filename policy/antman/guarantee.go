// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package antman

import (
	"slices"

	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/place"
)

// guarantee places the jobs that have the guarantee but do not run with it yet, in
// order of submission.
func (d *decision) guarantee() {
	d.expect()
	reserved := make([]bool, len(d.s.Cluster.Types))
	for _, i := range d.order {
		j := d.s.Jobs[i]
		if !d.guaranteed[i] || len(d.plan.Want[i]) > 0 {
			continue
		}
		if d.quota.Left(j) < gpus(j) {
			d.plan.Why[i] = d.quota.Why(j, gpus(j))
			continue
		}
		if d.barred(j, reserved) {
			d.plan.Why[i] = sched.Reason{Code: sched.Behind, Need: gpus(j), Have: d.hosts.Total()}
			continue
		}
		if p, ok := d.upgrade(i); ok {
			d.run(i, p)
			d.firm[i] = true
			continue
		}
		d.plan.Why[i] = d.hosts.Why(j, gpus(j), sched.CrossRack)
		if d.plan.Why[i].Code != sched.Impossible {
			d.reserve(j, reserved)
		}
	}
}

// expect marks the GPUs of running opportunistic jobs as not idle, so that jobs
// with the guarantee go elsewhere if they can.
func (d *decision) expect() {
	for _, i := range d.order {
		if j := d.s.Jobs[i]; j.Phase == sched.Running && len(d.plan.Want[i]) == 0 {
			for _, s := range j.Placement {
				d.idle.Take(ghost, sched.Placement{{Node: s.Node, Milli: sched.WholeGPU, GPUs: s.GPUs}})
			}
		}
	}
}

// ghost takes GPUs without CPUs or memory.
var ghost = &sched.Job{}

// upgrade finds GPUs for a job with the guarantee: those it runs on as a guest,
// else idle ones, else any that no other such job has.
func (d *decision) upgrade(i int) (sched.Placement, bool) {
	j := d.s.Jobs[i]
	if j.Phase == sched.Running {
		if p := d.held(j, j.Placement); d.takes(j.Placement) && d.fits(i, p) {
			return p, true
		}
	}
	for _, view := range []*place.Free{d.idle, d.hosts} {
		mark := view.Mark()
		p, ok := place.Consolidated(view, j, gpus(j))
		view.Rollback(mark)
		if p = d.held(j, p); ok && d.fits(i, p) {
			return p, true
		}
	}
	return nil, false
}

// takes reports whether all nodes of a placement take new work.
func (d *decision) takes(p sched.Placement) bool {
	for _, s := range p {
		if d.s.Cluster.Nodes[s.Node].State != sched.Ready {
			return false
		}
	}
	return true
}

// held returns a placement with the share that a job with the guarantee holds.
func (d *decision) held(j *sched.Job, p sched.Placement) sched.Placement {
	q := slices.Clone(p)
	for k := range q {
		q[k].Milli = sched.WholeGPU
		if j.Shareable {
			q[k].Milli = int32(sched.WholeGPU - d.Guest)
		}
	}
	return q
}

// barred reports whether an earlier job waits for a GPU type of the job.
func (d *decision) barred(j *sched.Job, reserved []bool) bool {
	for t, is := range reserved {
		if is && j.Accepts(d.s.Cluster.Types[t]) {
			return true
		}
	}
	return false
}

// reserve makes all later jobs of the same GPU types wait.
func (d *decision) reserve(j *sched.Job, reserved []bool) {
	for t, name := range d.s.Cluster.Types {
		reserved[t] = reserved[t] || j.Accepts(name)
	}
}

// notes records which jobs run with the guarantee, and asks for a decision when the
// next job's patience ends.
func (d *decision) notes() {
	for i, j := range d.s.Jobs {
		var note sched.Note
		if d.firm[i] {
			note.Level = guaranteed
		}
		if note != j.Note {
			if d.plan.Notes == nil {
				d.plan.Notes = make([]sched.Note, len(d.s.Jobs))
				for k, other := range d.s.Jobs {
					d.plan.Notes[k] = other.Note
				}
			}
			d.plan.Notes[i] = note
		}
		if len(d.plan.Want[i]) == 0 && d.guaranteed[i] && d.mayRun(j) {
			d.plan.WakeBy(d.s.Now, j.Since.Add(d.Patience.D()))
		}
	}
}
