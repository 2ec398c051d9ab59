// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package fairway

import (
	"math"

	"github.com/fairway-gpu/fairway/policy/division"
	"github.com/fairway-gpu/fairway/sched"
)

// spare bounds the GPUs of jobs with execution plans while others wait. Such a job loads for
// minutes, on all GPUs that it gets: a training of a few steps would end a little sooner on
// many, and keep them from others for as long as it loads.
//
// On n of G GPUs a job takes t(n), its load included, and takes n*t(n)/G of the cluster's
// time, by which each of q jobs that wait starts later. So it may have as many GPUs as make
// t(n) + q*n*t(n)/G smallest: with an empty queue those on which it is fastest, with a long
// one those that it uses best. A running job may keep what it has.
func (w *world) spare() {
	waiting := 0
	for _, j := range w.s.Jobs {
		if j.Phase == sched.Pending {
			waiting++
		}
	}
	for i, j := range w.s.Jobs {
		v := &w.jobs[i]
		if !planned(j) || v.one == nil || !j.Elastic() {
			continue
		}
		queue := waiting
		if j.Phase == sched.Pending {
			queue--
		}
		if n := w.thrifty(j, v, float64(queue)/float64(w.s.Cluster.GPUs())); n > 0 {
			v.most = min(v.most, max(n, j.Placement.GPUs()))
		}
	}
}

// thrifty returns the GPUs on which a job costs itself and the others least; 0: nobody knows.
// queue is the number of jobs that wait for each GPU of the cluster.
func (w *world) thrifty(j *sched.Job, v *view, queue float64) (best int) {
	load, least := w.restart(j), math.Inf(1)
	for n := j.NextSize(0); n > 0; n = j.NextSize(n) {
		speed := max(v.one.Goodput(division.Local, n), v.one.Goodput(division.Near, n))
		if !(speed > 0) {
			continue
		}
		seconds := load + v.left*v.one.One()/speed
		if cost := seconds * (1 + queue*float64(n)); cost < least {
			best, least = n, cost
		}
	}
	return best
}
