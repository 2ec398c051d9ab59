// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package repro

import (
	"fmt"
	"io"
	"time"
)

// paperRho is the largest rho read off figures 9 and 10 of the Themis paper,
// on its two workloads.
var paperRho = map[string][2]float64{
	"themis": {1.3, 2.2}, "srsf": {1.8, 2.3}, "srtf": {2.0, 3.9}, "gandiva": {2.5, 2.9},
	"tiresias": {2.6, 4.3}, "optimus:original": {4.0, 3.2}, "slaq": {3.9, 3.8},
}

// Print writes the reproduction as Markdown. images is the folder of the plots,
// relative to the page.
func (t *Themis) Print(w io.Writer, images string) {
	t.printIntro(w)
	PrintClaims(w, t.Claims())
	t.printPolicies(w, images)
	t.printEstimated(w)
	t.printContended(w, images)
	t.printKnobs(w, images)
	t.printErrors(w)
	t.printLies(w)
	t.printNetwork(w)
	t.printExchange(w, images)
	fmt.Fprint(w, themisNotes)
}

func (t *Themis) printIntro(w io.Writer) {
	apps := 0
	for _, f := range t.Policies[0].Runs {
		apps += len(f.Apps)
	}
	fmt.Fprintf(w, `# Themis: finish-time fairness by auction

Apps of one job (10 %%) and searches of up to 100 jobs (90 %%), 40 %% of them with
network-intensive models, on %d GPUs with four levels of locality: 16 machines of
two NVLink islands of 4 GPUs, 32 machines of two islands of 2, in racks of 32 GPUs.
%d mixes of %d jobs (%d apps in all); figures are means over the mixes, ranges in
brackets. Decisions once a minute; f = %g and leases of %s unless stated otherwise.
The paper is "Themis: Fair and Efficient GPU Cluster Scheduling" (NSDI'20); its
figures are read off its charts.

    fairway repro themis --out docs/reproduction

rho is the time from an app's submission to the end of its last job, over the time
it would take alone on an equal share of the cluster, 1/N of the GPUs with N the
mean number of apps during its life. The simulator measures it, whatever the policy
estimates.

As in the paper, apps know how much work they have left: policies get the true run times
(`+"`--estimates exact`"+`), and those that use them are marked as oracles. Results with worse
estimates follow below.
`, themisGPUs, t.Config.Seeds, t.Config.Jobs, apps, themisF, minutes(themisLease))
}

func (t *Themis) printPolicies(w io.Writer, images string) {
	fmt.Fprintf(w, `
## Every policy on the mix

All policies do the same work. "Above well placed" compares its GPU time with that on the
best placement without preemption. The placement score is the mean of 1/S over the GPU time
held, excluding restarts, where S is the slowdown by placement and neighbours. The paper's
two columns are its workloads 1 and 2.

| policy | largest rho | the paper: 1 | 2 | mean rho | rho <= %.1f | Jain's index | GPU time | above well placed | placement score | avg JCT | restarts |
|---|---|---|---|---|---|---|---|---|---|---|---|
`, incentive)
	printOutcomes(w, t.Policies)
	fmt.Fprintf(w, "\n![Distribution of rho](%s/themis-rho.svg)\n\n![Jain's index](%s/themis-jain.svg)\n", images, images)
}

func (t *Themis) printEstimated(w io.Writer) {
	fmt.Fprint(w, `
## Without exact run times

The same mixes with other estimates. `+"`user`"+`: the user's estimate, a round number that is too
high by the factors that studies of such estimates report. `+"`history`"+`: the mean of the last two
jobs of the same app, user or model, the default of `+"`fairway sim`"+`. `+"`none`"+`: no estimate.
Policies that do not use estimates are unchanged.

| policy | estimates | largest rho | mean rho | rho <= 1.2 | Jain's index | GPU time above well placed | avg JCT | restarts |
|---|---|---|---|---|---|---|---|---|
`)
	for _, o := range t.Estimated {
		fmt.Fprintf(w, "| %s | %s | %s | %.2f | %.0f %% | %.2f | %+.1f %% | %.2f h | %.0f |\n", o.label(), o.Estimates,
			ranged(o.Over(maxRho)), o.Over(meanRho).Mean, 100*o.Within(incentive), o.Over(jainRho).Mean,
			100*o.Over(overhead).Mean, o.Over(meanJCT).Mean, o.Over(restarts).Mean)
	}
}

func printOutcomes(w io.Writer, outcomes []Outcome) {
	for _, o := range outcomes {
		one, two := "-", "-"
		if p, ok := paperRho[o.Policy]; ok {
			one, two = fmt.Sprintf("~%.1f", p[0]), fmt.Sprintf("~%.1f", p[1])
		}
		fmt.Fprintf(w, "| %s | %s | %s | %s | %.2f | %.0f %% | %.2f | %.0f h | %+.1f %% | %.3f | %.2f h | %.0f |\n", o.label(),
			ranged(o.Over(maxRho)), one, two, o.Over(meanRho).Mean, 100*o.Within(incentive), o.Over(jainRho).Mean,
			o.Over(gpuHours).Mean, 100*o.Over(overhead).Mean, o.Over(score).Mean, o.Over(meanJCT).Mean, o.Over(restarts).Mean)
	}
}

func ranged(s Span) string { return fmt.Sprintf("%.2f (%.2f to %.2f)", s.Mean, s.Low, s.High) }

func (t *Themis) printContended(w io.Writer, images string) {
	fmt.Fprintf(w, `
## Full contention

The same apps arrive faster: while they arrive they need %d times the GPU time of the
cluster, so nearly all of them are present at once.

| policy | largest rho | mean rho | rho <= %.1f | Jain's index | above well placed | avg JCT |
|---|---|---|---|---|---|---|
`, fullLoad, incentive)
	for _, o := range t.Contended {
		fmt.Fprintf(w, "| %s | %s | %.2f | %.1f %% | %.2f | %+.1f %% | %.2f h |\n", o.label(), ranged(o.Over(maxRho)),
			o.Over(meanRho).Mean, 100*o.Within(incentive), o.Over(jainRho).Mean, 100*o.Over(overhead).Mean, o.Over(meanJCT).Mean)
	}
	fmt.Fprintf(w, "\n![Distribution of rho at full contention](%s/themis-rho-contended.svg)\n", images)
}

func (t *Themis) printKnobs(w io.Writer, images string) {
	fmt.Fprintf(w, `
## f and the lease

The worst-off fraction 1-f of the apps bids. To save time, every app keeps one job in %d, on
a cluster smaller by the same factor. Largest rho, with the paper's (figure 19, another
workload) in brackets:

| f | 5 min | 10 min | 20 min | 40 min |
|---|---|---|---|---|
`, thinner)
	t.knobTable(w, maxRho, "%.2f", func(k paperKnob, i int) string { return fmt.Sprintf(" (%.1f)", k.maxRho[i]) })
	fmt.Fprint(w, `
GPU time above that of the same work well placed and without preemption; in brackets the
paper's increase over its f = 0:

| f | 5 min | 10 min | 20 min | 40 min |
|---|---|---|---|---|
`)
	t.knobTable(w, percentOver, "%.1f %%", func(k paperKnob, i int) string {
		return fmt.Sprintf(" (%.0f)", 100*(k.gpuHours[i]/paperKnobs[0].gpuHours[i]-1))
	})
	for _, name := range []string{"f-rho", "f-gpu", "lease-rho", "lease-gpu"} {
		fmt.Fprintf(w, "\n![By f and lease](%s/themis-%s.svg)\n", images, name)
	}
}

func (t *Themis) knobTable(w io.Writer, figure func(Fairness) float64, format string, paper func(paperKnob, int) string) {
	for _, f := range themisFs {
		fmt.Fprintf(w, "| %g |", f)
		for i, lease := range themisLeases {
			fmt.Fprintf(w, " "+format, t.knob(f, lease).Over(figure).Mean)
			for _, k := range paperKnobs {
				if k.f == f {
					fmt.Fprint(w, paper(k, i))
				}
			}
			fmt.Fprint(w, " |")
		}
		fmt.Fprintln(w)
	}
}

func (t *Themis) printErrors(w io.Writer) {
	fmt.Fprintf(w, `
## Errors in estimates

Every estimated rho, in bids and to find the worst-off apps, is multiplied by a new factor
drawn uniformly from 1-e to 1+e. Each mix runs with %d seeds, which also decide leftovers
and fractions: the range at e = 0 is due to chance alone. The paper reports about 10.8 %%
at 20 %%.

| e | largest rho | change | GPU time above well placed |
|---|---|---|---|
`, errorDraws)
	for _, e := range t.Errors {
		fmt.Fprintf(w, "| %.0f %% | %s | %+.1f %% | %+.1f %% |\n", 100*e.Error, ranged(e.Over(maxRho)), 100*t.drift(e), 100*e.Over(overhead).Mean)
	}
}

func (t *Themis) printLies(w io.Writer) {
	fmt.Fprintf(w, `
## Apps that lie

%d smaller mixes: one job in %d of every app, on 1/%d of the cluster, arriving twice as
fast. In each mix every app in turn is the only one that lies: for its whole life it
multiplies every rho that it reports by the factor. Means over all lies; ± is the standard
error, with mixes taken as independent.

In the auction itself the factor changes nothing, because the product does not depend on
scale. It acts through the filter, which chooses the worst-off apps by the rho they report.
Believed (`+"`audit=false`"+`, as in the paper): the arbiter accepts what apps report. Audited (the
default): the arbiter takes no app to be worse off than it computes from the estimates and
the progress of jobs.

| claim | | lies | liar's time | liar's rho | shorter by > 1 %% | longer by > 1 %% |
|---|---|---|---|---|---|---|
`, t.Config.LieSeeds, thinner, thinner)
	for _, l := range t.Lies {
		fmt.Fprintf(w, "| %g times | %s | %d | %+.2f %% ± %.2f | %+.2f %% | %.0f %% | %.0f %% |\n",
			l.Claim, l.how(), l.Lies, 100*l.Time, 100*l.Error, 100*l.Rho, 100*l.Gained, 100*l.Lost)
	}
}

func (t *Themis) printNetwork(w io.Writer) {
	fmt.Fprint(w, `
## Network-intensive apps

The same apps with other models: all insensitive to placement, or all network-intensive.
The paper states, without figures, that the gap to other policies widens with the share of
network-intensive apps.

| models | policy | largest rho | GPU time above well placed | placement score |
|---|---|---|---|---|
`)
	for _, part := range []struct {
		name     string
		outcomes []Outcome
	}{{"compute-intensive", t.Network}, {"network-intensive", t.NetworkAll}} {
		for _, o := range part.outcomes {
			fmt.Fprintf(w, "| %s | %s | %s | %+.1f %% | %.3f |\n", part.name, o.label(), ranged(o.Over(maxRho)), 100*o.Over(overhead).Mean, o.Over(score).Mean)
		}
	}
}

func (t *Themis) printExchange(w io.Writer, images string) {
	e := t.Exchange
	if e.Apps[0] == "" {
		return
	}
	fmt.Fprintf(w, `
## Two apps that trade

The two apps that exchanged the most GPUs, among those of the first mix at full contention
that last less than %.0f hours: %s and %s. Time starts when the first of them
arrives.

![GPUs held by two apps](%s/themis-exchange.svg)
`, (maxLife * time.Second).Hours(), e.Apps[0], e.Apps[1], images)
}

// themisNotes lists the differences from the paper.
const themisNotes = `
## What differs from the paper

- The paper's trace is not public. The mix is drawn from the distributions in its figures
  and text (` + "`fairway trace gen --kind themis`" + `) and runs in full: a search consists of the
  jobs that early stopping leaves, with the GPU time they had.
- Slowdowns by placement come from our model zoo, which names their sources.
- Jobs with a recorded length report no losses. ` + "`slaq`" + ` serves such jobs by fair share and
  ` + "`optimus:original`" + ` in order of submission, so both run without loss curves here.
- ` + "`drf`" + ` treats every app as a tenant; the paper argues against it without measuring it.
- ` + "`las`, `tiresias`, `srtf`, `srsf`" + ` order jobs, not apps, as their papers do.
`
