// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package fairway

import (
	"math"
	"slices"

	"github.com/fairway-gpu/fairway/policy/division"
	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/place"
)

// world is a snapshot with what the policy thinks of its jobs, which is in the order of
// Snapshot.Jobs.
type world struct {
	*policy
	s       *sched.Snapshot
	jobs    []view
	elastic bool    // some job may be given another size
	due     []int   // jobs that have waited for as long as any may, in order
	limits  []int   // by tenant: GPUs that its own jobs may hold; nil: no tenant is limited
	family  []int   // by tenant: GPUs that it may hold with all tenants below it
	most    float64 // largest weight
	behind  []int   // elastic jobs that are favoured and have less, the one furthest behind first
}

// view is what the policy thinks of a job. Speeds and work are in terms of one GPU.
type view struct {
	one    *division.Curve // its goodput on the type of GPU that its speeds refer to; nil: unknown
	app    *sched.App      // nil: unknown
	most   int             // GPUs that it may have if it is elastic (value.Most)
	inTurn bool            // see policy.inTurn
	left   float64         // work left, in seconds on one GPU
	weight float64
	share  float64 // GPUs of its fair share, where it is behind; 0: it is not
	rho    float64 // finish-time fairness as expected, where it is behind
	ofApp  bool    // it is favoured because its app is behind
}

// weigh looks at the jobs of a snapshot.
func (p *policy) weigh(s *sched.Snapshot) *world {
	w := &world{policy: p, s: s, jobs: make([]view, len(s.Jobs))}
	for i, j := range s.Jobs {
		v := &w.jobs[i]
		for _, t := range s.Cluster.Types {
			if v.one = p.divider.Curve(j, t); v.one != nil {
				break
			}
		}
		v.app = s.AppOf(j)
		v.most, v.inTurn = mostOf(j, v.one), p.inTurn(s, j)
		v.left = w.left(j, v.one)
		w.elastic = w.elastic || j.Elastic() && !(j.Phase == sched.Running && j.Pinned())
		if p.isDue(s, j) {
			w.due = append(w.due, i)
		}
	}
	w.spare()
	w.byWait(w.due)
	w.admit()
	if w.divides() {
		w.rank()
		if p.Bound > 0 {
			w.favour()
		}
	}
	if p.Bound > 0 {
		w.favourApps()
	}
	if p.Tenants {
		w.divideTenants()
	}
	return w
}

// few is the number of jobs up to which a division is worth its cost even if no job can
// be resized: it finds room for gangs by moving others.
const few = 256

// divides reports whether the jobs are weighed against each other, or stand in line.
func (w *world) divides() bool { return w.elastic || len(w.jobs) <= few }

// maxPriority bounds what priorities do to weights.
const maxPriority = 10

// rank gives every job its weight: the job with the most work left has rank 1. A step of
// priority counts four times.
func (w *world) rank() {
	order := place.Order(w.s, func(i int) (a, b float64) { return w.sortKey(i), 0 })
	for n := len(w.powers); n < len(order); n++ {
		w.powers = append(w.powers, math.Pow(float64(n+1), w.Rank))
	}
	for k, i := range order {
		priority := float64(max(-maxPriority, min(maxPriority, w.s.Jobs[i].Priority)))
		w.jobs[i].weight = w.powers[len(order)-1-k] * math.Pow(4, priority)
		w.most = max(w.most, w.jobs[i].weight)
	}
}

// sortKey is the work that a job is taken to have left where jobs are compared.
func (w *world) sortKey(i int) float64 {
	if j := w.s.Jobs[i]; j.Phase == sched.Running && !j.Elastic() {
		return w.jobs[i].left / nearer
	}
	return w.jobs[i].left
}

// order returns the jobs, the most urgent first: those that are due, those whose app is
// behind, and the others by the work that they have left, where one that does not run has
// to gain more than a restart costs it. Jobs beyond their tenant's share come last.
func (w *world) order() []int {
	keys := make([]float64, len(w.jobs))
	for i, j := range w.s.Jobs {
		keys[i] = w.sortKey(i)
		switch v := &w.jobs[i]; {
		case v.ofApp:
			keys[i] = -v.rho
		case j.Phase != sched.Running:
			keys[i] += w.restart(j) * float64(j.GPUs)
		}
	}
	first := 0.0
	for _, k := range keys {
		first = min(first, k)
	}
	for k, i := range w.due {
		keys[i] = first - float64(len(w.due)-k) // below all others
	}
	order := place.Order(w.s, func(i int) (a, b float64) { return -float64(w.s.Jobs[i].Priority), keys[i] })
	if w.limits == nil {
		return order
	}
	return slices.Concat(w.shares(order)...)
}
