// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package repro

import (
	"math"
	"testing"
	"time"

	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/forecast"
	"github.com/fairway-gpu/fairway/sim"
)

func TestForecastRate(t *testing.T) {
	noon := time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)
	at := func(minutes int) time.Time { return noon.Add(time.Duration(minutes) * time.Minute) }
	told := forecast.Range{Early: at(50), Middle: at(100), Late: at(200)}
	asked := forecast.Asked{At: noon, Range: forecast.Range{Early: at(90), Middle: at(100), Late: at(110)}}
	got := rate(ForecastRow{}, []foreseen{
		{Asked: asked, told: told, known: true, start: at(100), runTimes: at(110), oracle: at(100)},
		{Asked: asked, told: told, known: true, start: at(125), runTimes: at(100), oracle: at(125)}, // off by a fifth
		{Asked: asked, told: told, known: true, start: at(40), runTimes: at(40), oracle: at(40)},    // too early
		{Asked: asked, told: told, known: true, start: at(50), runTimes: at(100), oracle: at(50)},   // off by the whole wait
		{Asked: asked, start: at(10)},           // no forecast
		{Asked: asked, told: told, known: true}, // never started
	})
	want := ForecastRow{Cases: 4, None: 1, Inside: 0.75, Raw: 0.25, Error: 1, Width: 3, RunTimes: 0.2}
	if got != want {
		t.Errorf("rated %+v; want %+v", got, want)
	}
}

// TestForecast: forecasts are calibrated, on small workloads that were not used to choose
// any constant. "fairway repro forecast" measures more.
func TestForecast(t *testing.T) {
	c := DefaultForecast()
	c.Cluster, c.Jobs, c.Span = "3x4:t4", 40, 8*time.Hour
	var all []foreseen
	for seed := uint64(7); seed < 9; seed++ {
		w, err := c.workload(c.Kinds[1], seed)
		if err != nil {
			t.Fatal(err)
		}
		cases, err := c.run(w, "fifo", knowledges()[1], seed)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, cases...)
	}
	r := rate(ForecastRow{}, all)
	if r.Cases < 40 || r.None > 2 || r.Inside < 0.8 || r.Inside > 0.97 {
		t.Errorf("%+v; want 40 starts or more, all forecast, 80 to 97 %% of them within the range", r)
	}
	if r.Error > 0.7 || r.RunTimes > 0.05 {
		t.Errorf("%+v; want a median error below 70 %% of the wait, and below 5 %% if run times are known", r)
	}
}

// TestForecastTrace: a part of a recorded workload fills the cluster and keeps its order.
func TestForecastTrace(t *testing.T) {
	start := time.Date(2017, time.October, 1, 0, 0, 0, 0, time.UTC)
	w := &sim.Workload{Name: "log", Start: start}
	for i := range 100 {
		at := start.Add(time.Duration(i) * time.Minute)
		w.Work = append(w.Work, sim.Work{Spec: sched.Spec{GPUs: 1 << (i % 5), Submitted: at}, RunTime: sched.Duration(time.Hour)})
	}
	for seed := range uint64(4) {
		p := part(w, 30, seed, 32)
		need, last := 0.0, start
		for _, j := range p.Work {
			if j.GPUs > 8 || j.Submitted.Before(last) {
				t.Errorf("a job of %d GPUs submitted at %s after one at %s; want at most 8 GPUs, in order", j.GPUs, j.Submitted, last)
			}
			need, last = need+float64(j.GPUs)*j.RunTime.D().Seconds(), j.Submitted
		}
		if load := need / last.Sub(start).Seconds() / 32; len(p.Work) != 30 || math.Abs(load-1) > 0.01 {
			t.Errorf("seed %d: %d jobs that need %.2f of the cluster; want 30 that need all of it", seed, len(p.Work), load)
		}
	}
}
