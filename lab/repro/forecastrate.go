// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package repro

import (
	"math"
	"slices"
	"time"

	"github.com/fairway-gpu/fairway/sched/forecast"
)

// ForecastRow is how well the starts of one kind of workload were foreseen, on some seeds.
type ForecastRow struct {
	Workload, Policy, Known string
	Coarse                  bool         // without the policy
	Cases, None             int          // with and without a forecast
	Inside                  float64      // share of starts within the range of 90 %
	Low, High               float64      // of the seeds with the smallest and the largest share
	Width                   float64      // median of the range over the actual wait
	Told, Rough             forecastPart // where an expected start is told, and where it would be rough
	// Error is the median error of all, Floor of a forecast that knows how the run times
	// are drawn, RunTimes of one that knows them, Oracle of one that also knows which jobs
	// are submitted later.
	Error, Floor, RunTimes, Oracle float64
	FloorCases                     int
}

// forecastPart is a part of the starts.
type forecastPart struct {
	Cases  int
	Inside float64 // share within the range of 90 %
	Error  float64 // median of |expected - actual| over the actual wait
}

// answer is a forecast of one start.
type answer struct {
	forecast.Asked                // before the ledger corrects it
	told           forecast.Range // after
	known          bool
}

// foreseen is one start: what was expected, and when it came.
type foreseen struct {
	answer
	coarse answer // without the policy
	// floor, runTimes and oracle are the starts foreseen with more knowledge; zero: none.
	floor, runTimes, oracle time.Time
	start                   time.Time
}

// tally collects how good forecasts were.
type tally struct {
	inside int
	errs   []float64
}

func (t *tally) add(inside int, err float64) {
	t.inside, t.errs = t.inside+inside, append(t.errs, err)
}

func (t *tally) part() forecastPart {
	p := forecastPart{Cases: len(t.errs)}
	if p.Cases > 0 {
		p.Inside, p.Error = float64(t.inside)/float64(p.Cases), median(t.errs)
	}
	return p
}

// without returns the cases as they were foreseen without the policy.
func without(seeds [][]foreseen) [][]foreseen {
	out := make([][]foreseen, len(seeds))
	for i, cases := range seeds {
		for _, f := range cases {
			out[i] = append(out[i], foreseen{answer: f.coarse, start: f.start})
		}
	}
	return out
}

// rate fills in how good the forecasts of each seed were.
func rate(row ForecastRow, seeds [][]foreseen) ForecastRow {
	var all, told, rough, floor, runTimes, oracle tally
	var widths []float64
	row.Low, row.High = 1, 0
	for _, cases := range seeds {
		var one tally
		for _, f := range cases {
			wait := f.start.Sub(f.At).Seconds()
			if !f.known {
				row.None++
			}
			if f.start.IsZero() || !f.known || wait < 1 {
				continue
			}
			off := func(t time.Time) float64 {
				if t.IsZero() {
					return math.Inf(1)
				}
				return math.Abs(t.Sub(f.start).Seconds()) / wait
			}
			inside, err := holds(f.told, f.start), off(f.told.Middle)
			one.add(inside, err)
			all.add(inside, err)
			if f.told.Rough() || f.told.Middle.IsZero() {
				rough.add(inside, err)
			} else {
				told.add(inside, err)
			}
			if !f.floor.IsZero() {
				floor.add(0, off(f.floor))
			}
			runTimes.add(0, off(f.runTimes))
			oracle.add(0, off(f.oracle))
			width := math.Inf(1)
			if !f.told.Late.IsZero() {
				width = f.told.Late.Sub(f.told.Early).Seconds() / wait
			}
			widths = append(widths, width)
		}
		if p := one.part(); p.Cases >= fewCases {
			row.Low, row.High = min(row.Low, p.Inside), max(row.High, p.Inside)
		}
	}
	p := all.part()
	row.Cases, row.Inside, row.Error = p.Cases, p.Inside, p.Error
	row.Told, row.Rough = told.part(), rough.part()
	row.FloorCases, row.Floor = floor.part().Cases, floor.part().Error
	row.RunTimes, row.Oracle = runTimes.part().Error, oracle.part().Error
	if len(widths) > 0 {
		row.Width = median(widths)
	}
	return row
}

// holds is 1 if a range holds a time, else 0.
func holds(r forecast.Range, at time.Time) int {
	if at.Before(r.Early) || !r.Late.IsZero() && at.After(r.Late) {
		return 0
	}
	return 1
}

func median(values []float64) float64 {
	slices.Sort(values)
	return values[len(values)/2]
}
