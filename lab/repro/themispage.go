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
	t.printHonest(w)
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
brackets. Decisions once a minute; f = %g and leases of %s unless said otherwise.
The paper is "Themis: Fair and Efficient GPU Cluster Scheduling" (NSDI'20); its
figures are read off its charts.

    fairway repro themis --out docs/reproduction

rho is the time from an app's submission to the end of its last job, over the time
it would take alone on an equal share of the cluster, 1/N of the GPUs with N the
mean number of apps during its life. The simulator measures it, whatever the policy
believes.

As in the paper, apps know how much work they have left: policies are told the true
run times (`+"`--estimates exact`"+`), and those that use them are marked as oracles. How they
fare with less is below.
`, themisGPUs, t.Config.Seeds, t.Config.Jobs, apps, themisF, minutes(themisLease))
}

func (t *Themis) printPolicies(w io.Writer, images string) {
	fmt.Fprintf(w, `
## Every policy on the mix

GPU time is that for the same work, beside what the work takes well placed and never
stopped. The placement score is the mean of 1/S, S the slowdown by placement and by
neighbours, over the GPU time held, restarts left out. The paper's two columns are its
workloads 1 and 2.

| policy | largest rho | the paper: 1 | 2 | mean rho | rho <= %.1f | Jain's index | GPU time | above well placed | placement score | avg JCT | restarts |
|---|---|---|---|---|---|---|---|---|---|---|---|
`, incentive)
	printOutcomes(w, t.Policies)
	fmt.Fprintf(w, "\n![Distribution of rho](%s/themis-rho.svg)\n\n![Jain's index](%s/themis-jain.svg)\n", images, images)
}

func (t *Themis) printHonest(w io.Writer) {
	fmt.Fprint(w, `
## Without the truth

The same mixes, but nobody is told how long a job will run. `+"`user`"+`: its user's estimate, a
round number that is too high by the factors that studies of such estimates found.
`+"`history`"+`: the mean of the last two jobs of the same app, user or model, which is the
default of `+"`fairway sim`"+`. `+"`none`"+`: nothing. Policies that do not use estimates fare as above.

| policy | estimates | largest rho | mean rho | rho <= 1.2 | Jain's index | GPU time above well placed | avg JCT | restarts |
|---|---|---|---|---|---|---|---|---|
`)
	for _, o := range t.Honest {
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

The same apps, but closer together: while they come they bring %d times the GPU time
that the cluster has, so that nearly all of them are there at once.

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

The worst-off part 1-f of the apps bids. For time's sake the same apps with one job in
%d, on as much of the cluster. Largest rho, the paper's (figure 19, other workload) in
brackets:

| f | 5 min | 10 min | 20 min | 40 min |
|---|---|---|---|---|
`, thinner)
	t.knobTable(w, maxRho, "%.2f", func(k paperKnob, i int) string { return fmt.Sprintf(" (%.1f)", k.maxRho[i]) })
	fmt.Fprint(w, `
GPU time above what the work takes well placed and never stopped; in brackets the
paper's above its f = 0:

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
## Estimates that are wrong

Every rho that is estimated, for bids and to find the worst-off apps, is off by a
factor drawn evenly from 1-e to 1+e, anew each time. %d draws for each mix, which
also decide about leftovers and fractions: the range at e = 0 is that of luck alone.
The paper: about 10.8 %% at 20 %%.

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

%d smaller mixes: one job in %d of every app, on a %dth of the cluster, twice as close
together. In each mix every app is once the only liar: it says that every rho is so
many times what it has found, for its whole life. Means over all lies; ± is the
standard error, with mixes taken as independent.

In the auction such a factor changes nothing: the product is free of scale. It works
through the filter, where the worst-off apps are chosen by what they say. Believed
(`+"`audit=false`"+`, which is what the paper describes) the app is asked, and its word is taken.
Audited (the default) the arbiter takes no app to be worse off than it finds itself, from
the estimates and the progress of jobs.

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

The same apps with other models: all of them indifferent to where they run, and all of
them network-intensive. The paper says in words that the gap to others widens with
the share of network-intensive apps.

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

Of all pairs of apps of the first mix at full contention that live for less than %.0f
hours, the two between which most GPUs went back and forth: %s and %s. Time counts
from when the first of them came.

![GPUs held by two apps](%s/themis-exchange.svg)
`, (mostLife * time.Second).Hours(), e.Apps[0], e.Apps[1], images)
}

// themisNotes is what differs from the paper.
const themisNotes = `
## What differs from the paper

- The paper's trace is not public. The mix is drawn from the distributions that its
  figures and text give (` + "`fairway trace gen --kind themis`" + `), and ran in full: the jobs of
  a search are those that its early stopping leaves, with the GPU time they had.
- Slowdowns by placement are those of our model zoo, with their sources there.
- Jobs with a recorded length report no losses. ` + "`slaq`" + ` serves such jobs by fair
  share, ` + "`optimus:original`" + ` in order of submission: both stand here for what they do
  without loss curves.
- ` + "`drf`" + ` takes every app for a tenant; the paper argues against it and does not measure it.
- ` + "`las`, `tiresias`, `srtf`, `srsf`" + ` order jobs, not apps, as their papers do.
`
