// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package repro

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/fairway-gpu/fairway/sim"
)

// Charts returns the plots, by file name.
func (f *Fragments) Charts() map[string]Bars {
	wait := Bars{Title: "Gangs above 8 GPUs: mean delay by fragmentation", Y: "minutes"}
	spread := Bars{Title: "GPU time of gangs on more servers than they need", Y: "%"}
	for _, r := range f.Runs {
		large := phillySizes[len(phillySizes)-1]
		d := r.Delay(large.name, large.least, large.most)
		wait.Bars = append(wait.Bars, Bar{Name: r.Name, Value: d.Mean / 60})
		spread.Bars = append(spread.Bars, Bar{Name: r.Name, Value: 100 * r.Spread()})
	}
	return map[string]Bars{"philly-fragments-wait.svg": wait, "philly-fragments-spread.svg": spread}
}

// Markdown writes the experiment as a section of a page, with the plots in the
// folder images.
func (f *Fragments) Markdown(w io.Writer, images string) error {
	var b strings.Builder
	fmt.Fprintf(&b, `
## Reducing fragmentation

%d Philly-like jobs (seed %d, load %.2f) on the same %d GPUs (%s). Delay is the time
that gangs waited before their first start although their virtual cluster's quota covered
them or there were idle GPUs to borrow: for GPUs close to each other, for any GPUs, or in
back-off after a failed attempt. The mean is over all gangs of the size. p90 is the whole
wait of the gangs for which delay was the larger part of it; their number is in brackets.
Policies know exact run times (`+"`--estimates exact`"+`); those that use them are oracles.

| policy | 2-4 GPUs: mean, p90 (gangs) | 5-8 | >8 | longest wait of a gang >8 |
|---|---|---|---|---|
`, f.Config.Jobs, f.Config.Seed, f.Config.Load, f.GPUs, f.Config.Cluster)
	for _, r := range f.Runs {
		fmt.Fprintf(&b, "| %s: %s", label(r.Policy, r.Result.Oracle), r.Meaning)
		var last Delay
		for _, s := range phillySizes {
			last = r.Delay(s.name, s.least, s.most)
			fmt.Fprintf(&b, " | %.2f min, %.0f min (%d)", last.Mean/60, last.P90/60, last.Delayed)
		}
		fmt.Fprintf(&b, " | %.1f h |\n", last.Longest/3600)
	}
	b.WriteString(`
The cost: spread is the share of the gangs' GPU time on more servers than they need, lost is
GPU time in restarts and failed attempts. The last columns are from the ledger: trades taken,
their expected cost and gain in GPU-hours, and trades refused.

| policy | avg JCT | p90 JCT | makespan | spread | moves | preemptions | GPU-h held | GPU-h lost | trades | cost | gain | refused |
|---|---|---|---|---|---|---|---|---|---|---|---|---|
`)
	for _, r := range f.Runs {
		var sum sim.LedgerSum
		if r.Result.Ledger != nil {
			for _, s := range r.Result.Ledger.Layers {
				sum.Taken += s.Taken
				sum.Cost += s.Cost
				sum.Gain += s.Gain
				sum.Refused += s.Refused
			}
		}
		fmt.Fprintf(&b, "| %s | %.2f h | %.2f h | %.1f d | %.1f %% | %d | %d | %.0f | %.1f | %d | %.1f | %.0f | %d |\n", label(r.Policy, r.Result.Oracle),
			r.Result.AvgJCT/3600, r.Result.P90JCT/3600, r.Result.Makespan/86400, 100*r.Spread(), r.Result.Moved, r.Result.Preempted,
			r.Result.GPUSeconds/3600, r.Result.LostGPUs/3600, sum.Taken, sum.Cost/3600, sum.Gain/3600, sum.Refused)
	}
	fmt.Fprintf(&b, "\n![Delay by fragmentation](%s/philly-fragments-wait.svg)\n\n![Spread gangs](%s/philly-fragments-spread.svg)\n", images, images)
	_, err := io.WriteString(w, b.String())
	return err
}

// PrintFragmentsSeeds compares the delay of large gangs, the spread and the JCT
// with other seeds, to show the effect of chance.
func PrintFragmentsSeeds(w io.Writer, others []*Fragments) {
	fmt.Fprintf(w, `
The same with seeds %d to %d, means and standard deviations; the layers were tuned on the first
seed, before these runs. The paper has no such comparison.

| policy | mean delay of gangs above 8 GPUs | share of the gangs' GPU time that was spread | average JCT | the same against `+"`philly`"+` |
|---|---|---|---|---|
`, others[0].Config.Seed, others[len(others)-1].Config.Seed)
	large := phillySizes[len(phillySizes)-1]
	published := slices.IndexFunc(others[0].Runs, func(r FragmentsRun) bool { return r.Policy == "philly" })
	for i, first := range others[0].Runs {
		var delays, spreads, jcts, changes []float64
		for _, f := range others {
			r := f.Runs[i]
			delays = append(delays, r.Delay(large.name, large.least, large.most).Mean/60)
			spreads = append(spreads, 100*r.Spread())
			jcts = append(jcts, r.Result.AvgJCT/3600)
			changes = append(changes, 100*(r.Result.AvgJCT/f.Runs[published].Result.AvgJCT-1))
		}
		delay, spread, jct, change := meanOf(delays), meanOf(spreads), meanOf(jcts), meanOf(changes)
		fmt.Fprintf(w, "| %s | %.1f ± %.1f min | %.1f ± %.1f %% | %.2f ± %.2f h | %+.1f ± %.1f %% |\n", label(first.Policy, first.Result.Oracle),
			delay.Mean, delay.Spread, spread.Mean, spread.Spread, jct.Mean, jct.Spread, change.Mean, change.Spread)
	}
}
