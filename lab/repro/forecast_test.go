// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package repro

import (
	"testing"
	"time"

	"github.com/fairway-gpu/fairway/sched/forecast"
)

func TestForecastRate(t *testing.T) {
	noon := time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)
	at := func(minutes int) time.Time { return noon.Add(time.Duration(minutes) * time.Minute) }
	r := forecast.Range{Early: at(50), Middle: at(100), Late: at(200)}
	got := rate(ForecastRow{}, []foreseen{
		{asked: noon, Range: r, known: true, start: at(100)},
		{asked: noon, Range: r, known: true, start: at(125)}, // off by a fifth
		{asked: noon, Range: r, known: true, start: at(40)},  // too early
		{asked: noon, Range: r, known: true, start: at(50)},  // off by the whole wait
		{asked: noon, start: at(10)},                         // no forecast
		{asked: noon, Range: r, known: true},                 // never started
	})
	if got.Cases != 4 || got.None != 1 || got.Inside != 0.75 || got.Error != 1 || got.Width < 1.5 {
		t.Errorf("rated %+v; want 4 cases, 1 without a forecast, 3 of 4 inside, an error of 1", got)
	}
}

// TestForecast: a small workload runs through, with hardly any past to learn from. How
// good forecasts are is printed by "fairway repro forecast".
func TestForecast(t *testing.T) {
	c := DefaultForecast()
	c.Kinds, c.Jobs, c.Seeds, c.Policies = c.Kinds[1:], 60, c.Seeds[:1], []string{"fifo"}
	c.Cluster = "3x4:t4"
	rows, err := Forecast(c)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rows {
		if r.Cases < 10 || r.None > 5 || r.Inside < 0.25 {
			t.Errorf("%+v; want 10 starts or more, nearly all forecast, and a good part within the range", r)
		}
	}
}
