// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package division

import (
	"math"

	"github.com/fairway-gpu/fairway/sched"
)

// Speedups is the objective of Pollux: the power mean of the jobs' speedups over a
// fair share of the cluster (equations 14 and 15).
type Speedups struct {
	P       float64 // exponent of the mean; 0 is its limit, the geometric mean
	Restart float64 // cost of changing a job's GPUs, in seconds

	s      *sched.Snapshot
	share  int       // GPUs of a fair share
	scale  float64   // of every value: nodes for each GPU
	factor []float64 // by job in the snapshot: on the value of GPUs that it does not have
	fair   []float64 // by job: goodput on a fair share
}

// Begin implements Objective.
func (o *Speedups) Begin(s *sched.Snapshot) {
	nodes := 0
	for _, n := range s.Cluster.Nodes {
		if n.State != sched.Down && n.Usable() != 0 {
			nodes++
		}
	}
	o.s, o.share = s, fairShare(s)
	o.scale = float64(nodes) / float64(max(1, s.Cluster.GPUs()))
	o.factor, o.fair = fill(o.factor, len(s.Jobs), 1), fill(o.fair, len(s.Jobs), 0)
}

// fairShare returns the GPUs of an equal share of every job.
func fairShare(s *sched.Snapshot) int {
	jobs := max(1, len(s.Jobs))
	return max(1, (s.Cluster.GPUs()+jobs-1)/jobs)
}

// Idle implements Objective.
func (o *Speedups) Idle() float64 { return o.cost(0) }

// Most implements Objective: twice the job's largest size so far or, with a report,
// what that says.
func (o *Speedups) Most(j *Job) int {
	if j.Perf != nil && j.Perf.MostGPUs > 0 {
		return j.Perf.MostGPUs
	}
	return max(1, 2*j.MostGPUs)
}

// Meet implements Objective. The fair share is made of the types that the job has a
// model for, in the cluster's proportions.
func (o *Speedups) Meet(j *Job) {
	if o.Restart > 0 {
		age := max(0, j.Age(o.s.Now).Seconds())
		o.factor[j.Index] = max(0, age-float64(j.Restarts())*o.Restart) / (age + o.Restart)
	}
	sum, weight := 0.0, 0.0
	for _, k := range j.Kinds {
		if k.Curve != nil {
			w := float64(o.s.Cluster.GPUsOf(k.Type))
			sum += w * k.Curve.fair(o.share)
			weight += w
		}
	}
	if sum > 0 {
		o.fair[j.Index] = sum / weight
	}
}

// Cost implements Objective.
func (o *Speedups) Cost(j *Job, k *Kind, at Span, n int, kept bool) float64 {
	value := o.value(j, k, at, n)
	if !kept {
		value *= o.factor[j.Index]
	}
	return o.cost(value)
}

// spreadLoss is the fraction of its speed that a job without a model is assumed to
// lose across nodes, and again across racks: just enough to prefer a compact
// placement.
const spreadLoss = 1e-3

// value returns what n GPUs of a kind at a span are worth to a job: its speed
// relative to a fair share (equation 15), before the cost of a restart.
func (o *Speedups) value(j *Job, k *Kind, at Span, n int) float64 {
	if fair := o.fair[j.Index]; k.Curve != nil && fair > 0 {
		return o.scale * k.Curve.Goodput(at, n) / fair
	}
	return o.scale * float64(n) / float64(o.share) * (1 - spreadLoss*float64(at))
}

// least is added to every value before taking the power, so that a job without GPUs
// has a finite cost for p <= 0.
const least = 1e-3

// cost returns what a job of this value adds to the sum: minimising the sum maximises
// the mean.
func (o *Speedups) cost(value float64) float64 {
	x := value + least
	switch {
	case o.P == -1:
		return 1 / x
	case o.P < 0:
		return math.Pow(x, o.P)
	case o.P == 0:
		return -math.Log(x)
	}
	return -math.Pow(x, o.P)
}
