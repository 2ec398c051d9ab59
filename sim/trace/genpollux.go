// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"time"

	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sim"
)

// polluxRate is the arrival rate of the paper's workload, 160 jobs within 8 hours for
// 64 GPUs, in jobs per second and GPU.
const polluxRate = 160.0 / (8 * 3600) / 64

// polluxHours counts the jobs of the 12 tuned workloads (1, 3 and 6 at four loads)
// that are submitted in each of the 8 hours. A longer workload repeats them.
var polluxHours = [8]float64{287, 248, 146, 299, 331, 555, 282, 252}

// pollux draws jobs that have no run time: they train their model to the end.
func (g *Gen) pollux(wl *sim.Workload) {
	load := 1.0
	if g.Load > 0 {
		load = g.Load
	}
	span := g.Span
	if span == 0 {
		seconds := float64(g.Jobs) / (polluxRate * float64(g.GPUs) * load)
		span = time.Duration(min(max(1, seconds), maxSeconds)) * time.Second
	}
	hourly := newRate(span, time.Hour, func(at time.Duration) float64 {
		return polluxHours[int(at/time.Hour)%len(polluxHours)]
	})
	rnd, arrivals := g.stream(jobStream), g.stream(arrivalStream)
	wl.Work = make([]sim.Work, g.Jobs)
	for i := range wl.Work {
		app := drawPolluxApp(rnd.Float64())
		size := app.fit(g.MaxGPUs, rnd.Float64())
		w := &wl.Work[i]
		w.Spec = sched.Spec{
			Submitted: Epoch.Add(hourly.at(arrivals.Float64(), span).Truncate(time.Second)),
			GPUs:      size.gpus,
			Shareable: true,
			Model:     app.name,
		}
		w.BatchSize = size.batch
		app.adapt(w)
	}
	number(wl, KindPollux)
}

func drawPolluxApp(u float64) *polluxApp {
	for i := range polluxApps {
		if u -= polluxApps[i].share; u < 0 {
			return &polluxApps[i]
		}
	}
	return &polluxApps[len(polluxApps)-1]
}
