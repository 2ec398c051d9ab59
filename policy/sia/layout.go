// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package sia

import (
	"cmp"
	"slices"

	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/place"
)

// layout finds nodes for the assigned options.
type layout struct {
	s     *sched.Snapshot
	free  *place.Free
	jobs  []job
	plan  sched.Plan
	quota place.Quota
}

func newLayout(s *sched.Snapshot, free *place.Free, jobs []job) *layout {
	return &layout{s: s, free: free, jobs: jobs, plan: sched.NewPlan(s), quota: place.NewQuota(s)}
}

// build places the jobs. Those that stay keep their nodes; if another job then does
// not fit, all are placed again, large before small.
func (l *layout) build(choice []int) {
	for k := range l.jobs {
		if j := &l.jobs[k]; j.pinned() {
			l.take(j, j.Placement)
		}
	}
	mark := l.free.Mark()
	if homeless := l.attempt(choice, false); homeless > 0 {
		first := slices.Clone(l.plan.Want)
		l.reset(mark)
		if l.attempt(choice, true) >= homeless {
			l.reset(mark)
			l.restore(first)
		}
	}
	l.fill()
	for k := range l.jobs {
		j := &l.jobs[k]
		if len(l.plan.Want[j.index]) == 0 {
			l.plan.Why[j.index] = why(l.free, l.quota, l.s, j.Job)
		}
	}
}

// attempt places everything that was chosen and returns how many jobs did not fit.
func (l *layout) attempt(choice []int, largeFirst bool) int {
	type wanted struct {
		job  int
		o    option
		stay bool
	}
	var all []wanted
	for k, c := range choice {
		if c != nothing {
			o := l.jobs[k].options[c]
			all = append(all, wanted{k, o, l.jobs[k].stays(o)})
		}
	}
	slices.SortStableFunc(all, func(a, b wanted) int {
		if !largeFirst && a.stay != b.stay {
			if a.stay {
				return -1
			}
			return 1
		}
		return cmp.Compare(b.o.gpus, a.o.gpus)
	})
	homeless := 0
	for _, w := range all {
		j := &l.jobs[w.job]
		if (w.stay && l.keep(j)) || l.start(j, w.o) {
			continue
		}
		homeless++
	}
	return homeless
}

// reset removes all but the pinned jobs.
func (l *layout) reset(mark int) {
	l.free.Rollback(mark)
	l.quota.Clear()
	for k := range l.jobs {
		j := &l.jobs[k]
		if j.pinned() {
			l.quota.Add(j.Job, j.has)
		} else {
			l.plan.Want[j.index] = nil
		}
	}
}

// restore restores an earlier plan.
func (l *layout) restore(want []sched.Placement) {
	for k := range l.jobs {
		if j := &l.jobs[k]; !j.pinned() && len(want[j.index]) > 0 {
			l.take(j, want[j.index])
		}
	}
}

func (l *layout) take(j *job, p sched.Placement) {
	l.free.Take(j.Job, p)
	l.quota.Add(j.Job, p.GPUs())
	l.plan.Want[j.index] = p
}

// keep lets a running job continue where it is.
func (l *layout) keep(j *job) bool {
	if !l.free.Fits(j.Job, j.Placement) || l.quota.Left(j.Job) < j.has {
		return false
	}
	l.take(j, j.Placement)
	return true
}

// start places an option on as few nodes as it needs, or not at all: within one
// node, or on whole nodes.
func (l *layout) start(j *job, o option) bool {
	if l.free.OfType(o.gpuType) < o.gpus || l.quota.Left(j.Job) < o.gpus {
		return false
	}
	only := *j.Job
	only.GPUTypes = []sched.GPUType{l.s.Cluster.Types[o.gpuType]}
	p, ok := place.FewestNodes(l.free, &only, o.gpus)
	if !ok {
		return false
	}
	l.quota.Add(j.Job, o.gpus)
	l.plan.Want[j.index] = p
	return true
}

// fill gives what is left to jobs without GPUs: what they had, or the most valuable
// option that fits.
func (l *layout) fill() {
	for k := range l.jobs {
		j := &l.jobs[k]
		if len(l.plan.Want[j.index]) > 0 || j.on < 0 {
			continue
		}
		l.keep(j)
	}
	for k := range l.jobs {
		j := &l.jobs[k]
		if len(l.plan.Want[j.index]) > 0 {
			continue
		}
		options := slices.Clone(j.options)
		slices.SortStableFunc(options, func(a, b option) int { return cmp.Compare(b.gain, a.gain) })
		for _, o := range options {
			if l.start(j, o) {
				break
			}
		}
	}
}
