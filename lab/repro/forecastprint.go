// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package repro

import (
	"fmt"
	"io"
	"math"
)

// The targets: the share of starts within the range, and the median error.
const (
	insideLeast, insideMost = 0.85, 0.95
	errorMost               = 0.2
	// fewCases is the number of starts below which a row says little.
	fewCases = 20
)

// PrintForecast writes the experiment as Markdown.
func PrintForecast(w io.Writer, c ForecastConfig, rows []ForecastRow) {
	fmt.Fprintf(w, `# How well the expected start is calibrated

When a job begins to wait, its start is forecast as `+"`fairway explain`"+` does; when it starts,
the two are compared. The range should hold the start in %.0f to %.0f %% of cases, and the median
error should be below %.0f %% of the wait. Where a row of %d starts or more misses a target, the
figure is bold.

%s

    fairway repro forecast

Cluster %s, %d jobs in each workload, the generated ones within %s. The constants of the
forecast were chosen on seeds from 21 on of the generated workloads, those of the table are %s;
nothing was chosen on the other seeds, %s. Of a recorded workload, other jobs are taken for each seed;
the times between their submissions are stretched so that the jobs need as much GPU time as the
cluster has.

- *known*: what agents report about running jobs, with what users estimate for the others
  (with the errors users make); users' estimates alone; or only how long past jobs ran. A run
  begins with no past at all.
- *other seeds*: within the range, on seeds that nothing was chosen on.
- *uncorrected*: within the range that the simulations give, before it is corrected by how
  good the earlier forecasts of the same run were.
- *floor*: the median error of a forecast that knows from which distribution the generator drew
  each run time, and what the jobs of a batch have in common, but not the run times; it draws
  from that, given what is known of the job so far. On a few seeds another forecast may be
  luckier; over many, none that does not know the future should be much better.
- *run times known*: the median error of a forecast that knows how long each job will run;
  *arrivals too*: of one that also knows which jobs will be submitted. What remains there is what
  the forecast gets wrong about the policy.

| workload | policy | known | starts | no forecast | within the range | other seeds | uncorrected | median error | floor | run times known | arrivals too | width of the range |
|---|---|---|---|---|---|---|---|---|---|---|---|---|
`, 100*insideLeast, 100*insideMost, 100*errorMost, fewCases, forecastSummary(rows), c.Cluster, c.Jobs, c.Span, seedRange(c.Seeds), seedRange(c.Others))
	for _, r := range rows {
		if r.Cases == 0 {
			fmt.Fprintf(w, "| %s | `%s` | %s | 0 | %d | - | - | - | - | - | - | - | - |\n", r.Workload, r.Policy, r.Known, r.None)
			continue
		}
		judge, other, floor := r.Cases >= fewCases, "-", figure(r.Floor, false)
		if math.IsInf(r.Floor, 1) {
			floor = "-"
		}
		if r.OtherCases > 0 {
			other = fmt.Sprintf("%s of %d", figure(r.Other, r.OtherCases >= fewCases && !calibrated(r.Other)), r.OtherCases)
		}
		fmt.Fprintf(w, "| %s | `%s` | %s | %d | %d | %s | %s | %s | %s | %s | %s | %s | %s |\n", r.Workload, r.Policy, r.Known, r.Cases, r.None,
			figure(r.Inside, judge && !calibrated(r.Inside)), other, figure(r.Raw, false),
			figure(r.Error, judge && r.Error >= errorMost), floor, figure(r.RunTimes, false), figure(r.Oracle, false), waits(r.Width))
	}
	fmt.Fprint(w, `
The error is mostly what not knowing run times costs: with the true ones it is about 0 where the
policy keeps an order, as `+"`fifo`"+` does. Jobs of one busy hour are early or late together: where a long job
ends early, many starts in a row come before their range. So rows of a few seeds scatter widely,
and the range of one seed alone may hold between two thirds and all of its starts.

Recorded workloads are added by `+"`--workload`"+`, without a floor: nobody knows how they came
about. The daemon looks ahead for fewer decisions than this experiment, to answer quickly. Where
a policy takes more than 300 ms to be played forward, or more than 200 jobs wait or run, it gives
a rough estimate and says so; that is not measured here, nor are outside bidders. Other policies,
`+"`fairway` and `pollux`"+` among them, are measured by `+"`--policy`"+`; their figures are not on this
page.
`)
}

func calibrated(inside float64) bool { return insideLeast <= inside && inside <= insideMost }

// forecastSummary says which targets are met.
func forecastSummary(rows []ForecastRow) string {
	var judged, inside, others, otherInside, exact, above int
	for _, r := range rows {
		if r.OtherCases >= fewCases {
			others++
			otherInside += one(calibrated(r.Other))
		}
		if r.Cases < fewCases {
			continue
		}
		judged++
		inside += one(calibrated(r.Inside))
		exact += one(r.Error < errorMost)
		above += one(r.Floor >= errorMost && !math.IsInf(r.Floor, 1))
	}
	return fmt.Sprintf(`Of %d rows with %d starts or more, %d meet the target of the range, and of %d rows on other
seeds %d. The median error is below %.0f %% in %d rows. In %d even a forecast that knows how run
times are drawn is off by more (the column *floor*).`,
		judged, fewCases, inside, others, otherInside, 100*errorMost, exact, above)
}

func one(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

func seedRange(seeds []uint64) string {
	switch len(seeds) {
	case 0:
		return "none here"
	case 1:
		return fmt.Sprint(seeds[0])
	}
	return fmt.Sprintf("%d to %d", seeds[0], seeds[len(seeds)-1])
}

func figure(v float64, bold bool) string {
	text := fmt.Sprintf("%.0f %%", 100*v)
	switch {
	case v > 100: // times the wait
		return "unbounded"
	case bold:
		return "**" + text + "**"
	}
	return text
}

func waits(v float64) string {
	if v > 100 {
		return "unbounded"
	}
	return fmt.Sprintf("%.1f waits", v)
}
