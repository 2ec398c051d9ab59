// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package fairway

import (
	"math"

	"github.com/fairway-gpu/fairway/policy/division"
	"github.com/fairway-gpu/fairway/sched"
)

// value is the objective of a division: what GPUs are worth to jobs, negative because
// a search looks for the least cost.
type value struct {
	*policy
	world *world
}

// Begin implements division.Objective.
func (o *value) Begin(*sched.Snapshot) {}

// Idle implements division.Objective.
func (o *value) Idle() float64 { return 0 }

// Meet implements division.Objective.
func (o *value) Meet(*division.Job) {}

// Most implements division.Objective.
func (o *value) Most(j *division.Job) int { return o.world.jobs[j.Index].most }

// mostOf returns the GPUs that an elastic job may have. One without a model grows by
// doubling: nobody knows how fast it would be. One with a model grows as far as its batch
// can be split. one is a curve of its report, if there is any.
func mostOf(j *sched.Job, one *division.Curve) int {
	switch {
	case one != nil:
		if n := one.Usable(); n > 0 {
			return n
		}
	case j.Perf == nil || len(j.Perf.Params)+len(j.Perf.Plans) == 0:
		return max(1, 2*j.MostGPUs)
	case j.Perf.UsableGPUs > 0:
		return j.Perf.UsableGPUs
	case j.Perf.MostGPUs > 0:
		return j.Perf.MostGPUs
	}
	return math.MaxInt32
}

// The parts of its speed that a job without a model is assumed to lose across nodes,
// and again across racks: one that can be resized measures it soon, one of one size is
// taken for what most lose, and one whose model is known to lose, for more.
const spreadLoss, rigidLoss, consolidateLoss = 1e-3, 0.1, 0.3

// speed returns how much faster a job is on n GPUs than on one of those that its
// speeds refer to.
func (o *value) speed(j *division.Job, k *division.Kind, at division.Span, n int) float64 {
	one := o.world.jobs[j.Index].one
	if one == nil {
		loss := spreadLoss
		switch {
		case j.Consolidate:
			loss = consolidateLoss
		case !j.Elastic():
			loss = rigidLoss
		}
		return float64(n) * (1 - loss*float64(at))
	}
	g := one.One()
	if !(g > 0) {
		g = 1
	}
	if k.Curve != nil {
		return k.Curve.Goodput(at, n) / g
	}
	return one.Goodput(at, n) / g
}

// A running job of one size counts stay times as much as one that waits, and ranks as if
// it had a part of its work left: estimates are often wrong, and to be stopped costs it
// a restart later.
const stay, nearer = 2, 5

// A job with execution plans trains a large model, which loads for minutes. Until it has run
// for amortised times as long as that, its GPUs are worth settled times as much: to stop it
// sooner would waste the load.
const amortised, settled = 5, 100

// planned reports whether a job may run under several execution plans.
func planned(j *sched.Job) bool { return j.Perf != nil && len(j.Perf.Plans) > 0 }

// Cost implements division.Objective.
func (o *value) Cost(j *division.Job, k *division.Kind, at division.Span, n int, kept bool) float64 {
	v := &o.world.jobs[j.Index]
	speed := o.speed(j, k, at, n)
	if !(speed > 0) {
		return 0
	}
	s := speed  // on average, until the job ends
	load := 0.0 // seconds of a load that the job has to do at some time
	if planned(j.Job) && j.Starts == 0 || j.Phase != sched.Running && !j.Elastic() {
		// It is a part of the work, and no price of a change: a job that was stopped a second
		// before its end would otherwise never be worth its start. GPUs do not shorten it: a job
		// that loads for most of its time needs few.
		load = o.restart(j.Job)
		s = (load + v.left) / (load + v.left/speed)
	}
	worth := v.weight * math.Pow(s, o.Power)
	if v.share > 0 && (j.Elastic() || v.ofApp) { // it is behind: its share counts for more than anything else
		most := o.world.most
		if v.ofApp {
			most *= stay * v.share // a gang has to outweigh as many small jobs that run
		}
		worth += most * min(1, speed/o.world.speedAt(j.Job, v, v.share))
	}
	if !kept && load == 0 {
		h := o.horizon(j.Job, o.world.s.Now, v.left, speed)
		worth *= h / (h + o.restart(j.Job))
	}
	if j.Phase == sched.Running && !j.Elastic() {
		worth *= stay
	}
	if kept && planned(j.Job) && o.world.s.Now.Sub(j.Since).Seconds() < amortised*o.restart(j.Job) {
		worth *= settled
	}
	return -worth
}
