// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package fairway

import (
	"slices"

	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/place"
)

// others are the running jobs that have no fixed place, in a view with the fixed jobs: in
// the order of the snapshot, as many as find room where they are.
type others struct {
	jobs []*sched.Job
	free *place.Free
	on   [][]int32 // by node: those with GPUs of it
	fits []bool    // by job: it is in the view
}

func (w *world) newOthers(fixed []sched.Placement) *others {
	w.crowded = w.crowded.For(w.s.Cluster)
	o := &others{jobs: w.s.Jobs, free: w.crowded, on: make([][]int32, len(w.s.Cluster.Nodes)), fits: make([]bool, len(w.s.Jobs))}
	for i, at := range fixed {
		o.free.Take(o.jobs[i], at)
	}
	for i, j := range o.jobs {
		if j.Phase == sched.Running && fixed[i] == nil {
			for _, s := range j.Placement {
				o.on[s.Node] = append(o.on[s.Node], int32(i))
			}
			o.enter(int32(i))
		}
	}
	return o
}

// enter adds a job to the view if there is room for it.
func (o *others) enter(i int32) {
	j := o.jobs[i]
	if o.fits[i] = o.free.Fits(j, j.Placement); o.fits[i] {
		o.free.Take(j, j.Placement)
	}
}

// yield fixes a job on GPUs that others may have. Only those on its nodes, on their other
// nodes, and so on, can be concerned: they enter again.
func (o *others) yield(j *sched.Job, at sched.Placement) {
	var concerned []int32
	seen, listed := map[int32]bool{}, map[int32]bool{} // nodes, jobs
	var look func(sched.Placement)
	look = func(p sched.Placement) {
		for _, s := range p {
			if seen[s.Node] {
				continue
			}
			seen[s.Node] = true
			for _, i := range o.on[s.Node] {
				if !listed[i] {
					listed[i] = true
					concerned = append(concerned, i)
					look(o.jobs[i].Placement)
				}
			}
		}
	}
	look(at)
	slices.Sort(concerned)
	for _, i := range concerned {
		if o.fits[i] {
			o.free.Release(o.jobs[i], o.jobs[i].Placement)
		}
	}
	o.free.Take(j, at)
	for _, i := range concerned {
		o.enter(i)
	}
}
