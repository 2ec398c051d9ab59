// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package division

import (
	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/place"
)

// Search finds a row for every job of a problem. Its answer depends on nothing but
// the problem.
type Search interface {
	search(*problem) []row
}

// Fast returns the search by a market and local improvements.
func Fast(seed uint64) Search { return fast{seed} }

// Genetic returns the search of the Pollux paper.
func Genetic(seed uint64, population, generations int) Search {
	return genetic{seed: seed, population: population, generations: generations}
}

// Divider divides the GPUs of a cluster among all jobs that may move.
type Divider struct {
	Objective Objective
	Search    Search

	free   *place.Free // a cache
	curves Curves      // a cache
	memory memory
}

// memory is what the last decision has left to write into, so that a decision about many
// jobs gives the garbage collector less to do. What is taken from it stays where it is.
type memory struct {
	jobs    []Job
	kinds   []Kind
	options []option
	costs   []float64
}

// reset makes all of it free.
func (m *memory) reset() {
	m.jobs, m.kinds, m.options, m.costs = m.jobs[:0], m.kinds[:0], m.options[:0], m.costs[:0]
}

// Begin begins a decision: call it once, before all else.
func (d *Divider) Begin() { d.curves.turn() }

// Divide returns the plan for a snapshot.
func (d *Divider) Divide(s *sched.Snapshot, r Rules) sched.Plan {
	d.free = d.free.For(s.Cluster)
	p := newProblem(s, r, d.Objective, d.free, &d.curves, &d.memory)
	rows := d.Search.search(p)
	return p.plan(rows, p.fill(rows))
}

// Curve returns what a job's report says about its goodput on a type of GPU; nil: nothing.
func (d *Divider) Curve(j *sched.Job, t sched.GPUType) *Curve { return d.curves.of(j.Perf, t) }
