// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package repro

import (
	"fmt"
	"io"
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
utilisations (`+"`docs/interference.md`"+`). Means over %d seed(s); decisions every five minutes.

`, c.Jobs, c.Longest.Hours(), c.Load, 100*h.MeanUtil, c.Error, len(c.Seeds))
	printShareRows(w, h.Main)
	h.printHits(w)
	fmt.Fprintf(w, "\n![utilisation](%s/horus-utilisation.svg)\n\n![makespan](%s/horus-makespan.svg)\n\n%s\n", images, images, h.verdict())
	fmt.Fprintf(w, `### A mix with little to share

%.0f %% of the jobs are light; the mean utilisation is %.0f %%. One seed.

`, 100*c.Heavy, 100*h.HeavyUtil)
	printShareRows(w, h.HeavyMix)
	fmt.Fprint(w, `
### Prediction errors

The same mix with other errors of predicted utilisation. One seed.

| RMSLE | policy | utilisation | makespan | mean wait | slowdown while sharing | time slowed by more than 15 % |
|---|---|---|---|---|---|---|
`)
	for _, e := range horusErrors {
		for _, r := range h.Errors[e] {
			fmt.Fprintf(w, "| %.2f | `%s` | %.1f %% | %.1f h | %.1f h | %.3f | %.0f %% |\n", e, r.Policy, 100*r.Util, r.Makespan/3600, r.AvgWait/3600, r.Slowdown, 100*r.Over)
		}
	}
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
		fmt.Fprintf(w, "| `%s` | %.1f %% | %.1f %% | %.1f h | %.2f h | %.2f h | %.1f h | %.2f h | %.2f h | %.1f h | %.0f %% | %.3f | %.0f %% | %.0f |\n",
			r.Policy, 100*r.Util, 100*r.Held, r.Makespan/3600, r.AvgWait/3600, r.P50Wait/3600, r.P90Wait/3600,
			r.AvgJCT/3600, r.P50JCT/3600, r.P90JCT/3600, 100*r.Together, r.Slowdown, 100*r.Over, r.Restarts)
	}
}

// Gains returns the relative change of utilisation, makespan and mean wait against
// exclusive FIFO, on the main mix.
func (h *HorusShare) Gains(spec string) (util, makespan, wait float64) {
	base, r := row(h.Main, exclusive), row(h.Main, spec)
	return r.Util/base.Util - 1, r.Makespan/base.Makespan - 1, r.AvgWait/base.AvgWait - 1
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
		text += fmt.Sprintf("| `%s` | %+.0f %% | %+.0f %% | %+.0f %% |\n", spec, 100*util, 100*makespan, 100*wait)
	}
	return text + "\nThe utilisation of a GPU is that of its jobs when alone, less their slowdown by sharing and placement. The work thus fixes the total busy time, and utilisation and makespan show the same gain. `horus:slowdown=0` is the paper's rule, the cost alone; `horus` adds our bound on the predicted slowdown of every job. `antman` has the coordinator of its paper, with the effect that the paper measured; with `coordinator=false` it has what our executors have. `fifo`, `antman` and `tiresias` place a gang on any free GPUs and lose speed; the others wait for one node.\n"
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
