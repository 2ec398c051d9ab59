// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"fmt"
	"math"
	"time"

	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sim"
)

// The Themis paper (Mahajan et al., NSDI 2020) describes apps of a framework for
// hyper-parameter search. The numbers here come from its figures 1 to 4, read off the
// charts, and from its text.

const themisLoad = 0.9

// themisJobs are the jobs of an app: one app in ten has one job, one in five has
// fewer than 5, the median is about 78, and the maximum 100.
var themisJobs = quantiles{{0, 1}, {0.1, 1}, {0.101, 2}, {0.2, 5}, {0.35, 30}, {0.5, 78}, {0.75, 92}, {1, 100}}

// themisMinutes is the GPU time of a job in minutes: median about 215, 90 %
// below about 450, and a tail to 1600. The shortest is our choice.
var themisMinutes = quantiles{{0, 30}, {0.5, 215}, {0.9, 450}, {0.99, 900}, {1, 1600}}

// themisSizes: the paper's mean durations of 59 and 123 minutes are its mean
// GPU time on 4 and on 2 GPUs. The shares are our choice.
var themisSizes = [...]struct {
	gpus  int
	share float64
}{{4, 0.45}, {2, 0.45}, {1, 0.10}}

// appLikeness is the share of the variance of log GPU time that lies between
// apps, our choice: the jobs of a search train one model on one set of data.
const appLikeness = 0.5

// themis draws whole apps; the last one may be cut short. The jobs of an app
// share its id, user, model and size and are submitted together.
func (g *Gen) themis(wl *sim.Workload) {
	rnd := g.stream(jobStream)
	offset := rnd.Float64()
	wl.Work = make([]sim.Work, 0, g.Jobs)
	var apps []int // first job of each app
	var used float64
	for len(wl.Work) < g.Jobs {
		app := len(apps)
		apps = append(apps, len(wl.Work))
		n := themisJobs.whole(rnd.Float64(), 100)
		model := drawModel(themisModels[:], golden(offset, app))
		gpus := g.themisGPUs(rnd.Float64())
		z := rnd.NormFloat64()
		for range min(n, g.Jobs-len(wl.Work)) {
			own := math.Sqrt(appLikeness)*z + math.Sqrt(1-appLikeness)*rnd.NormFloat64()
			minutes := themisMinutes.at(normalCDF(own))
			w := sim.Work{RunTime: g.cap(60 * minutes / float64(gpus))}
			w.App = sched.AppID(fmt.Sprintf("app-%04d", app+1))
			w.User = fmt.Sprintf("u%04d", app+1)
			w.GPUs, w.Shareable = gpus, true
			w.Model, w.Consolidate = model.name, model.consolidate && gpus > 1
			w.Work = w.RunTime.D().Seconds()
			used += gpuSeconds(&w)
			wl.Work = append(wl.Work, w)
		}
	}
	g.themisTimes(wl.Work, apps, g.spanFor(used, themisLoad))
	number(wl, KindThemis)
}

// golden returns the i-th number of a sequence that fills 0 to 1 evenly at any
// length, so that even a few apps have about the paper's shares of models.
func golden(offset float64, i int) float64 {
	_, part := math.Modf(offset + float64(i)/math.Phi)
	return part
}

// themisTimes spreads the apps evenly at random, which is a Poisson process
// with a given number of arrivals.
func (g *Gen) themisTimes(work []sim.Work, apps []int, span time.Duration) {
	rnd := g.stream(arrivalStream)
	for i, first := range apps {
		at := time.Duration(rnd.Float64() * float64(span)).Truncate(time.Second)
		end := len(work)
		if i+1 < len(apps) {
			end = apps[i+1]
		}
		for j := first; j < end; j++ {
			work[j].Submitted = Epoch.Add(at)
		}
	}
}

func (g *Gen) themisGPUs(u float64) int {
	for _, s := range themisSizes {
		if u -= s.share; u < 0 {
			return min(s.gpus, g.MaxGPUs)
		}
	}
	return 1
}
