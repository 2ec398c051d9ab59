// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"slices"
	"testing"
	"time"

	"github.com/fairway-gpu/fairway/sched/num"
	"github.com/fairway-gpu/fairway/sim"
)

// On 64 GPUs the streams are what their comments say.
func TestStreams(t *testing.T) {
	at := func(wl *sim.Workload, id string) *sim.Work {
		i := slices.IndexFunc(wl.Work, func(w sim.Work) bool { return string(w.ID) == id })
		if i < 0 {
			t.Fatalf("%s has no job %s", wl.Name, id)
		}
		return &wl.Work[i]
	}
	stream := func(kind string) *sim.Workload {
		return generate(t, Gen{Kind: kind, Jobs: StreamJobs[kind], GPUs: 64, Seed: 3})
	}
	last := func(wl *sim.Workload) float64 { return wl.Work[len(wl.Work)-1].Submitted.Sub(wl.Start).Hours() }

	giant := stream(KindGiant)
	for id, want := range map[string]struct {
		gpus int
		at   time.Duration
	}{"giant": {64, 6 * time.Hour}, "half": {32, 12 * time.Hour}} {
		if w := at(giant, id); w.GPUs != want.gpus || w.Submitted.Sub(giant.Start) != want.at || w.RunTime.D() != 2*time.Hour {
			t.Errorf("%s: %d GPUs for %s after %s", id, w.GPUs, w.RunTime, w.Submitted.Sub(giant.Start))
		}
	}
	near(t, "days of giant", last(giant)/24, 8, 0.01)
	var run, gpus []float64
	for i := range giant.Work {
		run, gpus = append(run, giant.Work[i].RunTime.D().Hours()), append(gpus, float64(min(8, giant.Work[i].GPUs)))
	}
	near(t, "mean run time", num.Mean(run), 1, 0.06)
	near(t, "mean size", num.Mean(gpus), 2.71, 0.05)

	flood := stream(KindFlood)
	if w := at(flood, "quiet-12"); w.GPUs != 8 || w.Tenant != "quiet" || w.Submitted.Sub(flood.Start) != 12*time.Hour || w.RunTime.D() != time.Hour {
		t.Errorf("quiet-12: %d GPUs of %s for %s after %s", w.GPUs, w.Tenant, w.RunTime, w.Submitted.Sub(flood.Start))
	}
	if len(flood.Tenants) != 2 || flood.Tenants[1].Quota != 32 || !flood.Tenants[1].Borrow {
		t.Errorf("tenants %+v; want two with half of the GPUs", flood.Tenants)
	}
	near(t, "hours of flood", last(flood), 20, 0.01)

	tiny := stream(KindTiny)
	if w := at(tiny, "long-4"); w.GPUs != 4 || w.Submitted.Sub(tiny.Start) != time.Minute {
		t.Errorf("long-4: %d GPUs after %s", w.GPUs, w.Submitted.Sub(tiny.Start))
	}
	near(t, "hours of tiny", last(tiny), 1, 0.01)
}

func TestHeliosIsLikeThePaper(t *testing.T) {
	wl := generate(t, Gen{Kind: KindHelios, Jobs: 200_000, GPUs: 6000, Seed: 2})
	var run, gpus, used []float64
	for i := range wl.Work {
		w := &wl.Work[i]
		run, gpus, used = append(run, w.RunTime.D().Seconds()), append(gpus, float64(w.GPUs)), append(used, gpuSeconds(w))
	}
	near(t, "median run time", num.Quantile(run, 0.5), 206, 0.1)
	near(t, "mean run time", num.Mean(run), 6652, 0.2)
	near(t, "mean size", num.Mean(gpus), 3.72, 0.1)
	near(t, "GPU time of a job", num.Mean(used), 49354, 0.3)
}
