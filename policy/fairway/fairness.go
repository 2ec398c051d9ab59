// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package fairway

import (
	"cmp"
	"math"
	"slices"

	"github.com/fairway-gpu/fairway/sched"
)

// A job whose length nobody can vouch for is behind once its share would have done late times
// as much of its work since it was submitted. It then has its share until that is caughtUp
// times: to take it back at once would cost a restart each time.
const late, caughtUp = 1.7, 1.36

// favouredDoubtful is the part of the cluster for jobs that are behind where lengths are in
// doubt: ranks by work left are then wrong as well, and the share of a job is worth more than
// they are. Elsewhere it is favoured.
const favouredDoubtful = 0.8

// compare finds out whether a job is behind: whether its finish-time fairness would
// exceed the bound even if it had its fair share from now on. The share of an app is
// divided evenly among its jobs.
//
// That depends on the work it has left. One that announces far too much would never seem to
// be behind, so where lengths are in doubt and no similar job has completed, what it has done
// since it was submitted decides as well.
func (w *world) compare(j *sched.Job, v *view) {
	if v.app == nil {
		return
	}
	share := float64(w.s.Cluster.GPUs()) / max(1, w.s.Contention(*v.app)) / float64(v.app.Active)
	at := w.speedAt(j, v, share)
	done := w.done(j, v.one)
	alone := (done + v.left) / at
	age := j.Age(w.s.Now).Seconds()
	if rho := (age + v.left/at) / alone; rho > w.Bound {
		v.rho, v.share = rho, share
	}
	if !w.doubts(j) || j.Perf != nil && j.Perf.Typical > 0 {
		return
	}
	most := late
	if j.Phase == sched.Running && float64(j.Placement.GPUs()) >= math.Floor(min(share, float64(v.most))) {
		most = caughtUp
	}
	if missed := max(0, age-2*w.restart(j)) * at / max(1, done); missed > most {
		v.rho, v.share = max(v.rho, missed*w.Bound/most), share
	}
}

// favour finds the jobs that are furthest behind, as many as are given no more than a part
// of the cluster.
func (w *world) favour() {
	type late struct {
		rho float64
		seq int64
		job int
	}
	var behind []late
	for i, j := range w.s.Jobs {
		if w.compare(j, &w.jobs[i]); w.jobs[i].share > 0 {
			behind = append(behind, late{w.jobs[i].rho, j.Seq, i})
		}
	}
	slices.SortFunc(behind, func(a, b late) int {
		if a.rho != b.rho {
			return cmp.Compare(b.rho, a.rho)
		}
		return cmp.Compare(a.seq, b.seq)
	})
	all := float64(w.s.Cluster.GPUs())
	left, leftDoubtful := favoured*all, favouredDoubtful*all
	for _, b := range behind {
		i := b.job
		j, v := w.s.Jobs[i], &w.jobs[i]
		n := float64(j.GPUs)
		if j.Elastic() {
			n = max(float64(j.MinGPUs), min(v.share, float64(v.most)))
		}
		room := left
		if w.doubts(j) {
			room = leftDoubtful
		}
		if room < n {
			v.share = 0
			continue
		}
		left, leftDoubtful = left-n, leftDoubtful-n
		if j.Elastic() && float64(j.Placement.GPUs()) < n {
			w.behind = append(w.behind, i)
		}
	}
}

// speedAt returns how much faster a job is on its share of the cluster than on one GPU.
// On a share smaller than its smallest size, it would have that for a part of the time.
func (w *world) speedAt(j *sched.Job, v *view, share float64) float64 {
	least, most := j.GPUs, j.GPUs
	if j.Elastic() {
		least, most = max(1, j.MinGPUs), v.most
	}
	n := min(share, float64(most))
	if n < float64(least) {
		return w.speed(j, v.one, least) * n / float64(least)
	}
	return w.speed(j, v.one, int(n))
}
