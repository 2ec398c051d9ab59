// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package fairway

import (
	"cmp"
	"slices"

	"github.com/fairway-gpu/fairway/sched"
)

// group is the jobs of an app that has, or had, several. Work is in seconds on one GPU.
type group struct {
	app     sched.App
	jobs    []int
	left    float64 // work
	longest float64 // seconds that its longest job needs at its size
	gpus    float64 // that its jobs use at once
	all     float64 // work of the jobs it has had, as far as their notes tell
	fresh   float64 // work of jobs without a note
	share   float64 // GPUs of its fair share
	rho     float64 // finish-time fairness as expected with that
}

// appBound is the expected finish-time fairness beyond which an app of several jobs is
// behind, and favouredApps the part of the cluster that such apps are given first. There is
// no slack, unlike for a single job: an app runs some of its jobs all the time, so that to
// favour others costs few restarts.
const appBound, favouredApps = 1, 0.5

// groups returns the apps of several jobs, and notes the work of each: when a job ends,
// the notes of the others keep its part.
func (w *world) groups() []*group {
	byApp := map[sched.AppID]*group{}
	var out []*group
	for i, j := range w.s.Jobs {
		app := w.jobs[i].app
		if app == nil || app.Active == 1 && j.Note.Count == 0 {
			continue
		}
		g := byApp[j.App]
		if g == nil {
			g = &group{app: *app}
			byApp[j.App] = g
			out = append(out, g)
		}
		v := &w.jobs[i]
		g.jobs = append(g.jobs, i)
		g.left += v.left
		g.longest = max(g.longest, v.left/w.speed(j, v.one, j.GPUs))
		g.gpus += float64(j.GPUs)
		if j.Note.Count > 0 {
			g.all = max(g.all, float64(j.Note.Count))
		} else {
			g.fresh += j.AttainedBy(w.s.Now) + v.left
		}
	}
	if len(out) > 0 {
		w.work = make([]int, len(w.s.Jobs))
	}
	for _, g := range out {
		g.all += g.fresh
		for _, i := range g.jobs {
			w.work[i] = max(1, int(g.all))
		}
	}
	return out
}

// noted returns what a job's note is to say about the work of its app.
func (w *world) noted(i int) int {
	if w.work == nil {
		return 0
	}
	return w.work[i]
}

// compare finds the share of the app, and its finish-time fairness if it had that from now
// on.
func (g *group) compare(w *world) {
	g.share = float64(w.s.Cluster.GPUs()) / max(1, w.s.Contention(g.app))
	end := w.s.Now.Sub(g.app.Submitted).Seconds() + max(g.left/min(g.share, g.gpus), g.longest)
	g.rho = end / max(g.all/g.share, g.longest)
}

// favourApps favours the shortest jobs of the apps that are furthest behind, as many as fit
// on the share of the app and on the part of the cluster for all of them. To an app only the
// end of its last job counts, so jobs of one size are favoured as well.
func (w *world) favourApps() {
	apps := w.groups()
	for _, g := range apps {
		g.compare(w)
	}
	slices.SortStableFunc(apps, func(a, b *group) int { return cmp.Compare(b.rho, a.rho) })
	left := favouredApps * float64(w.s.Cluster.GPUs())
	for _, g := range apps {
		if g.rho <= appBound {
			break
		}
		slices.SortFunc(g.jobs, func(a, b int) int {
			return cmp.Or(cmp.Compare(w.sortKey(a), w.sortKey(b)), cmp.Compare(w.s.Jobs[a].Seq, w.s.Jobs[b].Seq))
		})
		for _, i := range g.jobs {
			if n := float64(w.s.Jobs[i].GPUs); n <= min(g.share, left) {
				g.share -= n
				left -= n
				w.jobs[i].rho, w.jobs[i].share, w.jobs[i].ofApp = g.rho, n, true
			}
		}
	}
}
