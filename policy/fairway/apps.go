// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package fairway

import (
	"cmp"
	"slices"

	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/place"
)

// group is the jobs of an app that is looked at as a whole. Work is in seconds on one GPU.
type group struct {
	app     sched.App
	jobs    []int
	left    float64 // work
	longest float64 // seconds that its longest job still needs at its size
	slowest float64 // seconds that its slowest job takes in all
	gpus    float64 // that its jobs use at once
	all     float64 // work of the jobs that it has and had
	share   float64 // GPUs of its fair share
	rho     float64 // finish-time fairness as expected with that
}

// appBound is the expected finish-time fairness beyond which an app is given its share
// first, and favouredApps the part of the cluster for all such apps. There has to be some
// slack, unlike for a job that can be resized: an app gets whole jobs, and its share grows
// when others end sooner than expected. The rest goes to those that need it least long.
const appBound, favouredApps = 0.8, 0.9

// groups returns the apps that are favoured as a whole: those that have, or had, several
// jobs, and those of one job of one size.
func (w *world) groups() []*group {
	byApp := map[sched.AppID]*group{}
	var out []*group
	for _, i := range place.Order(w.s, func(int) (a, b float64) { return 0, 0 }) { // by submission: sums are the same in any order of the snapshot
		j, v := w.s.Jobs[i], &w.jobs[i]
		if v.app == nil || single(v.app) && j.Elastic() {
			continue
		}
		g := byApp[j.App]
		if g == nil {
			g = &group{app: *v.app, all: v.app.Attained}
			byApp[j.App] = g
			out = append(out, g)
		}
		had, speed := j.AttainedBy(w.s.Now), w.speed(j, v.one, j.GPUs)
		g.jobs = append(g.jobs, i)
		g.left += v.left
		g.all += had + v.left
		g.longest = max(g.longest, v.left/speed)
		g.slowest = max(g.slowest, (had+v.left)/speed)
		g.gpus += float64(j.GPUs)
	}
	return out
}

// single reports whether an app is one job.
func single(a *sched.App) bool { return a.Active+a.EndedJobs == 1 }

// compare finds the share of the app, and its finish-time fairness if it had that from now
// on, and as many apps were active until its end as are now.
func (g *group) compare(w *world) {
	age, apps := w.s.Now.Sub(g.app.Submitted).Seconds(), w.s.Contention(g.app)
	share := float64(w.s.Cluster.GPUs()) / max(1, apps)
	rest := max(g.left/min(share, g.gpus), g.longest)
	apps = (age*apps + rest*float64(w.s.Apps())) / (age + rest)
	g.share = float64(w.s.Cluster.GPUs()) / max(1, apps)
	rest = max(g.left/min(g.share, g.gpus), g.longest)
	g.rho = (age + rest) / max(g.all/g.share, g.slowest)
}

// favourApps favours jobs of the apps that are furthest behind, as many as fit on the share
// of the app and on the part of the cluster for all of them. To an app only the end of its
// last job counts, so the longest go first.
//
// Jobs alone are favoured against apps of several jobs, whose many short ones would all go
// before them, not against each other: they have as much of that part as the others ask for
// of all GPUs. One that is larger than its share would only take turns with those like it,
// and lose more by restarts than it gains.
func (w *world) favourApps() {
	several, asked := 0.0, 0.0 // GPUs that jobs of apps of several ask for, and all jobs
	for i, j := range w.s.Jobs {
		asked += float64(j.GPUs)
		if app := w.jobs[i].app; app != nil && !single(app) {
			several += float64(j.GPUs)
		}
	}
	if several == 0 {
		return
	}
	apps := w.groups()
	for _, g := range apps {
		g.compare(w)
	}
	slices.SortStableFunc(apps, func(a, b *group) int { return cmp.Compare(b.rho, a.rho) })
	left := favouredApps * float64(w.s.Cluster.GPUs())
	leftAlone := left * several / asked
	for _, g := range apps {
		if g.rho <= appBound {
			break
		}
		if single(&g.app) {
			if g.gpus > leftAlone {
				continue
			}
			leftAlone -= g.gpus
		}
		slices.SortFunc(g.jobs, func(a, b int) int {
			return cmp.Or(cmp.Compare(w.lastKey(b), w.lastKey(a)), cmp.Compare(w.s.Jobs[a].Seq, w.s.Jobs[b].Seq))
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

// lastKey is the work that a job is taken to have left where the longest goes first: one
// that runs is not stopped for a little more.
func (w *world) lastKey(i int) float64 {
	if w.s.Jobs[i].Phase == sched.Running {
		return w.jobs[i].left * nearer
	}
	return w.jobs[i].left
}
