// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package repro

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// The targets: the share of starts within the range, and the median error.
const (
	insideLeast, insideMost = 0.85, 0.95
	errorMost               = 0.2
	// fewCases is the number of starts below which a figure says little.
	fewCases = 20
)

// PrintForecast writes the experiment as Markdown.
func PrintForecast(w io.Writer, c ForecastConfig, rows []ForecastRow) {
	fmt.Fprintf(w, `# How well the expected start is calibrated

When a job begins to wait, its start is forecast as `+"`fairway explain`"+` does; when it starts,
the two are compared. The range should hold the start in %.0f to %.0f %% of cases. A forecast that
itself expects to be wrong by %.0f %% of the wait or more, in half of its futures, is told as a
*rough* range; any other as an *expected start*, whose median error should be below %.0f %% of the
wait. A figure of %d starts or more that misses a target is bold.

%s

    fairway repro forecast

Cluster %s, %d jobs in each workload%s; seeds %s%s. The constants of the forecast
were chosen on seeds %s. Of a recorded workload (`+"`--workload`"+`) other jobs are
taken for each seed; the times between their submissions are stretched so that the jobs need as much
GPU time as the cluster has.

- *known*: what agents report about running jobs, with what users estimate for the others
  (with the errors users make); users' estimates alone; or only how long past jobs ran. A run
  begins with no past at all.
- *of each seed*: the share within the range on the seed with the smallest and the one with the largest,
  of those with %d starts or more.
- *median error of all*: of expected starts and the middles of rough ranges together.
- *floor*: the same of a forecast that knows from which distribution the generator drew
  each run time, and what the jobs of a batch have in common, but not the run times; on the first
  %d seeds. Nobody knows that of a recorded workload.
- *run times known*: the same of a forecast that knows how long each job will run;
  *arrivals too*: of one that also knows which jobs will be submitted. What remains there is what
  the forecast gets wrong about the policy.
`, 100*insideLeast, 100*insideMost, 100*errorMost, 100*errorMost, fewCases, forecastSummary(rows), c.Cluster, c.Jobs, c.gapsText(), seedRange(c.Seeds), c.dearText(), chosenSeeds, fewCases, floorSeeds)
	printForecastTable(w, rows)
	printCoarse(w, rows)
	fmt.Fprint(w, `
## What it shows

Run times are what is not known: with the true ones the error is about 0 where the policy keeps an order,
as `+"`fifo`"+` does. Jobs of one busy day are early or late together: where a long job ends early,
many starts in a row come before their range. So the seeds differ, and few of them say little.
Under `+"`fairway`"+` few jobs wait: for minutes where it can resize others, else up to its longest
wait, which is foreseen to the second. What is not known there is when it will resize
others: that follows from what their agents will report, so the gradient noise scale of each job grows
at another rate in each future.

Outside bidders are not measured. Other policies are measured by `+"`--policy`"+`.
`)
}

func printForecastTable(w io.Writer, rows []ForecastRow) {
	fmt.Fprint(w, `
## With the policy played forward

| workload | policy | known | starts | no forecast | within the range | of each seed | expected starts | of these within the range | their median error | rough | of these within the range | median error of all | floor | run times known | arrivals too | width of the range |
|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|
`)
	for _, r := range rows {
		if r.Coarse {
			continue
		}
		cells := []string{r.Workload, "`" + r.Policy + "`", r.Known, fmt.Sprint(r.Cases), fmt.Sprint(r.None)}
		floor := "-"
		if r.FloorCases > 0 {
			floor = figure(r.Floor, false)
		}
		toldError := "-"
		if r.Told.Cases > 0 {
			toldError = figure(r.Told.Error, r.Told.Cases >= fewCases && r.Told.Error >= errorMost)
		}
		if r.Cases == 0 {
			cells = append(cells, strings.Split(strings.Repeat("-", 12), "")...)
		} else {
			cells = append(cells, within(r.Cases, r.Inside), r.eachSeed(),
				r.Told.of(r.Cases), within(r.Told.Cases, r.Told.Inside), toldError,
				r.Rough.of(r.Cases), within(r.Rough.Cases, r.Rough.Inside),
				figure(r.Error, false), floor, figure(r.RunTimes, false), figure(r.Oracle, false), waits(r.Width))
		}
		fmt.Fprintf(w, "| %s |\n", strings.Join(cells, " | "))
	}
}

// printCoarse writes what forecasts without the policy are worth.
func printCoarse(w io.Writer, rows []ForecastRow) {
	rows = slices.DeleteFunc(slices.Clone(rows), func(r ForecastRow) bool { return !r.Coarse || r.Cases == 0 })
	if len(rows) == 0 {
		return
	}
	fmt.Fprint(w, `
## Without the policy, on the same seeds

Where a policy takes more than 300 ms to be played forward, or more than 200 jobs wait or run, the
daemon lets the jobs ahead start one after the other instead, wherever GPUs are free, and calls the
answer rough. Under a policy that preempts, two of five jobs start sooner than that, at any moment, and
all by the time that the policy promises. The same starts, foreseen so:

| workload | policy | known | starts | no forecast | within the range | of each seed | median error | width of the range |
|---|---|---|---|---|---|---|---|---|
`)
	for _, r := range rows {
		fmt.Fprintf(w, "| %s | `%s` | %s | %d | %d | %s | %s | %s | %s |\n", r.Workload, r.Policy, r.Known, r.Cases, r.None,
			within(r.Cases, r.Inside), r.eachSeed(), figure(r.Error, false), waits(r.Width))
	}
}

func within(cases int, inside float64) string {
	if cases == 0 {
		return "-"
	}
	return figure(inside, cases >= fewCases && !calibrated(inside))
}

func (r ForecastRow) eachSeed() string {
	if r.Low > r.High {
		return "-"
	}
	return fmt.Sprintf("%.0f to %.0f %%", 100*r.Low, 100*r.High)
}

func (p forecastPart) of(all int) string {
	return fmt.Sprintf("%d (%.0f %%)", p.Cases, 100*float64(p.Cases)/float64(all))
}

func calibrated(inside float64) bool { return insideLeast <= inside && inside <= insideMost }

// forecastSummary says which targets are met.
func forecastSummary(rows []ForecastRow) string {
	var judged, inside, told, exact, cases, expected int
	for _, r := range rows {
		if r.Coarse {
			continue
		}
		cases, expected = cases+r.Cases, expected+r.Told.Cases
		if r.Cases >= fewCases {
			judged++
			inside += one(calibrated(r.Inside))
		}
		if r.Told.Cases >= fewCases {
			told++
			exact += one(r.Told.Error < errorMost)
		}
	}
	return fmt.Sprintf(`%d of %d rows with %d starts or more meet the target of the range; %.0f %% of
all starts got an expected start, and its median error is below %.0f %% in %d of %d rows with %d of them or more.`,
		inside, judged, fewCases, 100*float64(expected)/float64(max(1, cases)), 100*errorMost, exact, told, fewCases)
}

func one(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

// gapsText says how often jobs are submitted.
func (c ForecastConfig) gapsText() string {
	var out strings.Builder
	for _, kind := range slices.Sorted(maps.Keys(c.Gaps)) {
		if slices.Contains(c.Kinds, kind) {
			fmt.Fprintf(&out, ", those of `%s` every %.0f minutes on average", kind, c.Gaps[kind].Minutes())
		}
	}
	return out.String()
}

// dearText says with what the dear policies are measured.
func (c ForecastConfig) dearText() string {
	if len(c.Dear) == 0 {
		return ""
	}
	return fmt.Sprintf("; `%s`, whose\nsimulation takes longer, where agents report progress alone", strings.Join(c.Dear, "`, `"))
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
