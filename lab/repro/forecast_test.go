// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package repro

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/forecast"
	"github.com/fairway-gpu/fairway/sim"
	"github.com/fairway-gpu/fairway/sim/trace"
)

func TestForecastRate(t *testing.T) {
	noon := time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)
	at := func(minutes int) time.Time { return noon.Add(time.Duration(minutes) * time.Minute) }
	told := forecast.Range{Early: at(50), Middle: at(100), Late: at(200)}
	asked := forecast.Asked{At: noon, Range: forecast.Range{Early: at(90), Middle: at(100), Late: at(110)}}
	rough := told
	rough.Error = 0.2
	got := rate(ForecastRow{}, [][]foreseen{{
		{answer: answer{asked, told, true}, start: at(100), floor: at(110), runTimes: at(110), oracle: at(100)},
		{answer: answer{asked, told, true}, start: at(125), floor: at(100), runTimes: at(100), oracle: at(125)}, // off by a fifth
		{answer: answer{asked, rough, true}, start: at(40), floor: at(60), runTimes: at(40), oracle: at(40)},    // too early
		{answer: answer{asked, told, true}, start: at(50), floor: at(55), runTimes: at(100), oracle: at(50)},    // off by the whole wait
		{answer: answer{Asked: asked}, start: at(10)},                                                           // no forecast
		{answer: answer{asked, told, true}},                                                                     // never started
	}})
	want := ForecastRow{
		Cases: 4, None: 1, Inside: 0.75, Low: 1, Error: 1, Width: 3, Floor: 0.2, FloorCases: 4, RunTimes: 0.2,
		Told: forecastPart{Cases: 3, Inside: 1, Error: 0.2}, Rough: forecastPart{Cases: 1, Error: 1.5},
	}
	if got != want {
		t.Errorf("rated %+v; want %+v", got, want)
	}
}

// TestForecast: forecasts are calibrated, on small workloads that were not used to choose
// any constant. "fairway repro forecast" measures more.
func TestForecast(t *testing.T) {
	c := DefaultForecast()
	c.Kinds, c.Cluster, c.Jobs, c.Gaps[trace.KindPollux] = c.Kinds[1:], "3x4:t4", 40, 12*time.Minute
	c.Seeds, c.Dear = []uint64{7, 8}, nil
	tasks := c.tasks()
	if len(tasks) != 3 {
		t.Fatalf("%d rows; want one for each kind of knowledge", len(tasks))
	}
	cases := make([][]foreseen, 2)
	for i, seed := range c.Seeds {
		var err error
		if cases[i], err = c.run(tasks[1], seed); err != nil {
			t.Fatal(err)
		}
	}
	r := rate(ForecastRow{}, cases)
	if r.Cases < 40 || r.None > 2 || r.Inside < 0.8 || r.Width > 2.5 {
		t.Errorf("%+v; want 40 starts or more, all forecast, 80 %% of them or more within the range, and that it is at most 2.5 waits wide", r)
	}
	if r.Error > 0.5 || r.Floor > 0.2 || r.RunTimes > 0.05 {
		t.Errorf("%+v; want a median error below 50 %% of the wait, below 20 %% if it is known how run times are drawn, and below 5 %% if they are known", r)
	}
	if r.Told.Cases+r.Rough.Cases != r.Cases || r.Told.Cases >= fewCases && r.Told.Error >= errorMost {
		t.Errorf("expected starts %+v, rough ones %+v; want a median error of expected starts below 20 %%", r.Told, r.Rough)
	}
}

// TestOdds: what a job may still run follows from how long it has run, how often it has
// failed, and what was estimated or reported.
func TestOdds(t *testing.T) {
	now := time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)
	told := &seer{ran: map[sched.JobID]time.Duration{"j": 0}}
	o := &odds{drawn: map[sched.JobID][]drawnRun{"j": {
		{run: 600}, {run: 7200}, {run: 90_000}, // they succeed
		{run: 7200, failing: 1800, longest: 1800, attempts: 1, lost: true},
		{run: 7200, failing: 9000, longest: 9000, attempts: 1, lost: true}, // it would have run for longer
		{run: 7200, failing: 2700, longest: 2700, attempts: 1},             // and then succeeds
	}}}
	job := func(ran time.Duration) *sched.Job {
		return &sched.Job{Spec: sched.Spec{ID: "j", GPUs: 1}, Status: sched.Status{Phase: sched.Running, Since: now.Add(-ran)}}
	}
	estimated, reporting, failed := job(20*time.Minute), job(20*time.Minute), job(time.Hour)
	estimated.Estimate = sched.Duration(2 * time.Hour)
	reporting.Work, reporting.Rate, reporting.Done, reporting.ReportedAt = 7200, 1, 1200, now
	failed.Failures = 1
	for _, c := range []struct {
		name string
		job  *sched.Job
		want []float64
	}{
		{"by age", job(20 * time.Minute), []float64{6000, 88_800, 600, 7800, 8700}},
		{"estimated: nothing longer than that", estimated, []float64{6000, 600, 7800, 8700}},
		{"reporting: it ends with its work, or fails before", reporting, []float64{6000, 6000, 6000, 600, 8700}},
		{"failed: another that fails once has no second try", failed, []float64{6300}},
	} {
		p := &seer{told: told, knowledge: knowledge{reports: true}}
		if got := o.choices(c.job, now, p).left; !slices.Equal(got, c.want) {
			t.Errorf("%s: it may still run for %v s; want %v", c.name, got, c.want)
		}
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
		p := piece(w, 30, seed, 32)
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
