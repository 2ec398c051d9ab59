// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package fairway

import (
	"cmp"
	"slices"

	"github.com/fairway-gpu/fairway/sched"
)

// compare finds out whether a job is behind: whether its finish-time fairness would
// exceed the bound even if it had its fair share from now on. The share of an app is
// divided evenly among its jobs.
func (w *world) compare(j *sched.Job, v *view) {
	if v.app == nil {
		return
	}
	share := float64(w.s.Cluster.GPUs()) / max(1, w.s.Contention(*v.app)) / float64(v.app.Active)
	at := w.speedAt(j, v, share)
	done := w.done(j, v.one)
	alone := (done + v.left) / at
	if rho := (j.Age(w.s.Now).Seconds() + v.left/at) / alone; rho > w.Bound {
		v.rho, v.share = rho, share
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
	left := favoured * float64(w.s.Cluster.GPUs())
	for _, b := range behind {
		i := b.job
		j, v := w.s.Jobs[i], &w.jobs[i]
		n := float64(j.GPUs)
		if j.Elastic() {
			n = max(float64(j.MinGPUs), min(v.share, float64(v.most)))
		}
		if left < n {
			v.share = 0
			continue
		}
		left -= n
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
