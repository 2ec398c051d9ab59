// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"fmt"
	"time"

	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sim"
)

// The streams are made to break a scheduler's promises. With the jobs and GPUs named
// below they are as described; other numbers scale them.

// StreamJobs is the length of each stream on 64 GPUs.
var StreamJobs = map[string]int{KindFlood: 3012, KindGiant: 4309, KindTiny: 4004}

const (
	floodLoad = 1.5625 // GPU time that the noisy tenant asks for, over all
	giantLoad = 0.95
	tinyLoad  = 0.5642 // of the short jobs
	quietJobs = 12
	longJobs  = 4
)

// flood: within 20 hours a tenant submits 3,000 jobs of one GPU that take 20 to 60
// minutes. Another, which like the first has half of the cluster as its quota, submits
// a gang of an eighth of the cluster, for an hour, every hour.
func (g *Gen) flood(wl *sim.Workload) {
	quiet := min(quietJobs, g.Jobs/4)
	noisy, rnd := g.Jobs-quiet, g.stream(jobStream)
	span := g.spanFor(2400*float64(noisy), floodLoad)
	for range noisy {
		g.streamJob(wl, "noisy", 1, 1200+2400*rnd.Float64())
	}
	g.spread(wl.Work, span)
	for i := range quiet {
		w := g.streamJob(wl, "quiet", max(1, g.GPUs/8), 3600)
		w.ID, w.Submitted = sched.JobID(fmt.Sprint("quiet-", i+1)), Epoch.Add((span / 20 * time.Duration(i+1)).Truncate(time.Second))
	}
	for _, name := range []sched.TenantID{"noisy", "quiet"} {
		wl.Tenants = append(wl.Tenants, sched.Tenant{ID: name, Quota: g.GPUs / 2, Borrow: true})
	}
	number(wl, KindFlood)
}

// giantSizes are the sizes of the small jobs of giant, each as likely as the others.
var giantSizes = [...]int{1, 1, 1, 2, 2, 4, 8}

// giant: eight days of small jobs that take an hour on average and nearly fill the
// cluster. After 6 hours comes a gang of all GPUs, after 12 hours one of half of them,
// each for two hours.
func (g *Gen) giant(wl *sim.Workload) {
	gangs := min(2, g.Jobs-1)
	small, rnd := g.Jobs-gangs, g.stream(jobStream)
	for range small {
		tenant := sched.TenantID(fmt.Sprint("t", rnd.IntN(4)))
		g.streamJob(wl, tenant, giantSizes[rnd.IntN(len(giantSizes))], min(60+3600*rnd.ExpFloat64(), 6*3600))
	}
	span := g.spanFor(2.71*3600*float64(small), giantLoad)
	g.spread(wl.Work, span)
	for i, name := range []sched.JobID{"giant", "half"}[:gangs] {
		w := g.streamJob(wl, sched.TenantID(fmt.Sprint("t", i)), g.GPUs/(i+1), 7200)
		w.ID, w.Submitted = name, Epoch.Add(min(time.Duration(6*(i+1))*time.Hour, span/4*time.Duration(i+1)).Truncate(time.Second))
	}
	number(wl, KindGiant)
}

// tiny: 4,000 jobs of 5 to 60 seconds within an hour, and four of 4 GPUs that take two
// hours.
func (g *Gen) tiny(wl *sim.Workload) {
	long := min(longJobs, g.Jobs/4)
	short, rnd := g.Jobs-long, g.stream(jobStream)
	for range short {
		g.streamJob(wl, sched.TenantID(fmt.Sprint("t", rnd.IntN(3))), 1, 5+55*rnd.Float64())
	}
	span := g.spanFor(32.5*float64(short), tinyLoad)
	g.spread(wl.Work, span)
	for i := range long {
		w := g.streamJob(wl, "t3", 4, 7200)
		w.ID, w.Submitted = sched.JobID(fmt.Sprint("long-", i+1)), Epoch.Add((span / 60).Truncate(time.Second))
	}
	number(wl, KindTiny)
}

// streamJob adds a job of its own app. The next call makes the pointer stale.
func (g *Gen) streamJob(wl *sim.Workload, tenant sched.TenantID, gpus int, seconds float64) *sim.Work {
	w := sim.Work{RunTime: g.cap(seconds)}
	w.App, w.Tenant, w.User = sched.AppID(fmt.Sprint("a", len(wl.Work))), tenant, string(tenant)
	w.GPUs, w.Shareable, w.Model, w.GPUUtil = max(1, min(gpus, g.MaxGPUs)), true, "resnet50", 0.6
	w.Work = w.RunTime.D().Seconds()
	wl.Work = append(wl.Work, w)
	return &wl.Work[len(wl.Work)-1]
}

// spread submits jobs evenly at random, which is a Poisson process with a given number
// of arrivals.
func (g *Gen) spread(work []sim.Work, span time.Duration) {
	rnd := g.stream(arrivalStream)
	for i := range work {
		work[i].Submitted = Epoch.Add(time.Duration(rnd.Float64() * float64(span)).Truncate(time.Second))
	}
}
