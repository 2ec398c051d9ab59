// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package repro

import (
	"fmt"
	"io"
	"slices"
)

// Print writes the experiment as Markdown, with its plots in a folder.
func (h *HorusShare) Print(w io.Writer, images string) {
	c := h.Config
	fmt.Fprintf(w, `## Sharing GPUs: 1,024 GPUs, a backlog of %d jobs

4 racks of 32 nodes of 8 GPUs with 32 GB each. Jobs of 1 to 8 GPUs (72 %% use one) train models
with the utilisation and memory that we measured alone on an H200
(lab/profiling/data/h200-solo.csv). Run times are Philly's, capped at %.0f h. The jobs need %.0f
times the GPU time available while they arrive. Four in five are light; mean utilisation,
weighted by GPU time, is %.0f %% (Philly: 52 %%). Policies see predictions with an RMSLE of
%.3g, and exact run times (`+"`--estimates exact`"+`), which are used only to reserve GPUs for jobs
that have waited for hours. Policies predict slowdowns with a model fitted to one half of our
measured pairs, and jobs are slowed by the other half: as measured where two jobs were measured
together, else by the model times the error that it has for a measured pair of similar
utilisations (`+"`docs/interference.md`"+`). Decisions every five minutes.

Figures are means over %d seeds, ± the standard deviation between them. The mix, its load and
the limit of 15 %% were fixed before these runs; with which of the seeds in view is not recorded,
except that seed 1 was looked at often.

`, c.Jobs, c.Longest.Hours(), c.Load, 100*h.MeanUtil, c.Error, len(c.Seeds))
	printShareRows(w, h.Main)
	h.printHits(w)
	fmt.Fprintf(w, "\n![utilisation](%s/horus-utilisation.svg)\n\n![makespan](%s/horus-makespan.svg)\n\n%s\n", images, images, h.verdict())
	fmt.Fprintf(w, `### A mix with little to share

%.0f %% of the jobs are light; the mean utilisation is %.0f %%.

`, 100*c.Heavy, 100*h.HeavyUtil)
	printShareRows(w, h.HeavyMix)
	fmt.Fprint(w, `
### Prediction errors

The first mix with other errors of predicted utilisation.

| RMSLE | policy | utilisation | makespan | mean wait | slowdown while sharing | time slowed by more than 15 % |
|---|---|---|---|---|---|---|
`)
	errors := append(slices.Clone(otherErrors), c.Error)
	slices.Sort(errors)
	for _, e := range errors {
		rows := h.Errors[e]
		if e == c.Error {
			rows = h.Main
		}
		for _, spec := range predictors {
			r := row(rows, spec)
			util, makespan, wait := r.headline()
			fmt.Fprintf(w, "| %.3g | `%s` | %s | %s | %s | %.3f | %.0f %% |\n", e, spec, util, makespan, wait, r.Slowdown, 100*r.Over)
		}
	}
}

// headline is the figures that are given with their spread: utilisation, makespan and
// mean wait.
func (r HorusShareRow) headline() (util, makespan, wait string) {
	u := r.over(func(r HorusShareRow) float64 { return 100 * r.Util })
	m := r.over(func(r HorusShareRow) float64 { return r.Makespan / 3600 })
	t := r.over(func(r HorusShareRow) float64 { return r.AvgWait / 3600 })
	return fmt.Sprintf("%.1f ± %.1f %%", u.Mean, u.Spread), fmt.Sprintf("%.1f ± %.1f h", m.Mean, m.Spread), fmt.Sprintf("%.2f ± %.2f h", t.Mean, t.Spread)
}

// printHits says how often a slowdown was a measured one.
func (h *HorusShare) printHits(w io.Writer) {
	r := row(h.Main, "horus")
	fmt.Fprintf(w, "\nUnder `horus`, %.0f of %.0f slowdowns of a job in new company were measured ones.\n", r.Measured, r.Measured+r.Modelled)
}

func printShareRows(w io.Writer, rows []HorusShareRow) {
	fmt.Fprint(w, `| policy | GPU utilisation | GPUs held | makespan | wait: mean | median | p90 | JCT: mean | median | p90 | time shared | slowdown while sharing | above 15 % | restarts |
|---|---|---|---|---|---|---|---|---|---|---|---|---|---|
`)
	for _, r := range rows {
		util, makespan, wait := r.headline()
		jct := r.over(func(r HorusShareRow) float64 { return r.AvgJCT / 3600 })
		fmt.Fprintf(w, "| `%s` | %s | %.1f %% | %s | %s | %.2f h | %.1f h | %.2f ± %.2f h | %.2f h | %.1f h | %.0f %% | %.3f | %.0f %% | %.0f |\n",
			r.Policy, util, 100*r.Held, makespan, wait, r.P50Wait/3600, r.P90Wait/3600,
			jct.Mean, jct.Spread, r.P50JCT/3600, r.P90JCT/3600, 100*r.Together, r.Slowdown, 100*r.Over, r.Restarts)
	}
}

// Gains returns the relative change of utilisation, makespan and mean wait against
// exclusive FIFO on the main mix, seed by seed, in percent.
func (h *HorusShare) Gains(spec string) (util, makespan, wait Mean) {
	base, r := row(h.Main, exclusive), row(h.Main, spec)
	var all [3][]float64
	for i, b := range base.Seeds {
		s := r.Seeds[i]
		for k, ratio := range []float64{s.Util / b.Util, s.Makespan / b.Makespan, s.AvgWait / b.AvgWait} {
			all[k] = append(all[k], 100*(ratio-1))
		}
	}
	return meanOf(all[0]), meanOf(all[1]), meanOf(all[2])
}

// verdict compares our figures with the paper's.
func (h *HorusShare) verdict() string {
	text := fmt.Sprintf(`Compared with exclusive FIFO (`+"`%s`"+`), next to what the paper reports over its baselines:

| | utilisation | makespan | mean wait |
|---|---|---|---|
| the paper | +32 to +61.5 %% | -23.7 to -30.7 %% | down to -68.3 %% |
`, exclusive)
	for _, spec := range []string{"horus", "horus+", exclusive + "@share"} {
		util, makespan, wait := h.Gains(spec)
		text += fmt.Sprintf("| `%s` | %+.0f ± %.0f %% | %+.0f ± %.0f %% | %+.0f ± %.0f %% |\n", spec,
			util.Mean, util.Spread, makespan.Mean, makespan.Spread, wait.Mean, wait.Spread)
	}
	return text + "\nThe utilisation of a GPU is that of its jobs when alone, less their slowdown by sharing and placement. The work thus fixes the total busy time, and utilisation and makespan show the same gain. It grows with the backlog (`--jobs 8000`), so that how close it is to the paper's says little. `horus:slowdown=0` is the paper's rule, the cost alone; `horus` adds our bound on the predicted slowdown of every job. `antman` has the coordinator of its paper, with the effect that the paper measured; with `coordinator=false` it has what our executors have. `fifo`, `antman` and `tiresias` place a gang on any free GPUs and lose speed; the others wait for one node.\n"
}

// Charts returns the plots by file name.
func (h *HorusShare) Charts() map[string]Bars {
	util := Bars{Title: "GPU utilisation, 1,024 GPUs", Y: "mean utilisation of all GPUs, %"}
	makespan := Bars{Title: "Makespan, 1,024 GPUs", Y: "hours"}
	for _, r := range h.Main {
		name := shortPolicy(r.Policy)
		util.Bars = append(util.Bars, Bar{Name: name, Value: 100 * r.Util})
		makespan.Bars = append(makespan.Bars, Bar{Name: name, Value: r.Makespan / 3600})
	}
	return map[string]Bars{"horus-utilisation.svg": util, "horus-makespan.svg": makespan}
}

// shortPolicy returns a name that fits below a bar.
func shortPolicy(spec string) string {
	switch spec {
	case exclusive:
		return "exclusive"
	case exclusive + "@share":
		return "excl+share"
	case "packing:gandiva":
		return "pack:gdv"
	case "antman:coordinator=false":
		return "am, no coord"
	case "horus:slowdown=0":
		return "cost only"
	case "tiresias@share":
		return "tir+share"
	}
	return spec
}
