// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package repro

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
)

// paperRho is the largest rho read off figures 9 and 10 of the Themis paper,
// on its two workloads.
var paperRho = map[string][2]float64{
	ours: {1.3, 2.2}, published: {1.3, 2.2}, "srsf": {1.8, 2.3}, "srtf": {2.0, 3.9}, "gandiva": {2.5, 2.9},
	"tiresias": {2.6, 4.3}, "optimus:original": {4.0, 3.2}, "slaq": {3.9, 3.8},
}

// Print writes the reproduction as Markdown. images is the folder of the plots,
// relative to the page.
func (t *Themis) Print(w io.Writer, images string) {
	t.printIntro(w)
	PrintClaims(w, t.Claims())
	t.printPolicies(w, images)
	t.printParts(w)
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
%d mixes of %d jobs (%d apps in all), seeds 1 to %[2]d: the largest rho is given for each
seed, in this order, other figures as means. Decisions once a minute; f = %[5]g and leases of %s
unless stated otherwise. The paper is "Themis: Fair and Efficient GPU Cluster Scheduling"
(NSDI'20); its figures are read off its charts, and no code of its authors is public, so that there
is no reference run. The mixes are small, so that the page can be made
in a quarter of an hour on two busy cores; larger ones (`+"`--jobs 3000`"+`) are more contended, and
other policies then fall further behind.

`+"`themis:paper`"+` is the auction as published: T_independent is the time on all GPUs times the
number of apps, every expired lease is on offer, a gang is spread rather than kept waiting, and
apps are believed. `+"`themis`"+` without a variant is ours, which differs in these points
(see "What carries the result"). `+"`themis:paper`"+` has the settings of the paper. On which mixes those of the
default were chosen is not recorded; take it that the seeds here were among them.

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

func (t *Themis) printParts(w io.Writer) {
	fmt.Fprint(w, `
## What carries the result

Each row differs in one respect from the default, above, or from the paper, below.

| policy | largest rho | mean rho | rho <= 1.2 | GPU time above well placed | placement score | avg JCT | restarts |
|---|---|---|---|---|---|---|---|
`)
	for _, o := range slices.Concat(t.Policies[:1], t.Parts, t.Policies[1:2]) {
		fmt.Fprintf(w, "| %s | %s | %.2f | %.0f %% | %+.1f %% | %.3f | %.2f h | %.0f |\n", o.label(), o.singly(maxRho), o.Over(meanRho).Mean,
			100*o.Within(incentive), 100*o.Over(overhead).Mean, o.Over(score).Mean, o.Over(meanJCT).Mean, o.Over(restarts).Mean)
	}
	above := func(policy string) float64 {
		return 100 * outcomeOf(slices.Concat(t.Policies, t.Parts), policy).Over(overhead).Mean
	}
	against := func(policy string) float64 {
		return 100 * (outcomeOf(t.Policies, published).Over(gpuHours).Mean/outcomeOf(t.Policies, policy).Over(gpuHours).Mean - 1)
	}
	fmt.Fprintf(w, `
The saving of GPU time comes mostly from one knob that is not the paper's, `+"`slowdown=1.05`"+`: a gang
that fits on one machine waits for one rather than be slowed by more than 5 %% by being spread. Given
to the paper's auction, it alone brings the GPU time from %+.1f %% above well placed to %+.1f %%; without
it the default goes from %+.1f %% to %+.1f %%. As published, the auction needs %+.1f %% of GPU time
against `+"`las`"+` and %+.1f %% against `+"`tiresias`"+`. What is offered decides how many restarts there
are, and the finish times (`+"`ideal`, `forecast`"+`) decide the largest rho.
`, above(published), above("themis:paper:slowdown=1.05"), above(ours), above("themis:slowdown=4"), against("las"), against("tiresias"))
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
			o.singly(maxRho), o.Over(meanRho).Mean, 100*o.Within(incentive), o.Over(jainRho).Mean,
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
			o.singly(maxRho), one, two, o.Over(meanRho).Mean, 100*o.Within(incentive), o.Over(jainRho).Mean,
			o.Over(gpuHours).Mean, 100*o.Over(overhead).Mean, o.Over(score).Mean, o.Over(meanJCT).Mean, o.Over(restarts).Mean)
	}
}

// singly prints a figure for each seed.
func (o Outcome) singly(figure func(Fairness) float64) string {
	out := make([]string, len(o.Runs))
	for i, f := range o.Runs {
		out[i] = fmt.Sprintf("%.2f", figure(f))
	}
	return strings.Join(out, ", ")
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
		fmt.Fprintf(w, "| %s | %s | %.2f | %.1f %% | %.2f | %+.1f %% | %.2f h |\n", o.label(), o.singly(maxRho),
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

| policy | f | 5 min | 10 min | 20 min | 40 min |
|---|---|---|---|---|---|
`, thinner)
	t.knobTable(w, maxRho, "%.2f", func(k paperKnob, i int) string { return fmt.Sprintf(" (%.1f)", k.maxRho[i]) })
	fmt.Fprint(w, `
GPU time above that of the same work well placed and without preemption; in brackets the
paper's increase over its f = 0:

| policy | f | 5 min | 10 min | 20 min | 40 min |
|---|---|---|---|---|---|
`)
	t.knobTable(w, percentOver, "%.1f %%", func(k paperKnob, i int) string {
		return fmt.Sprintf(" (%.0f)", 100*(k.gpuHours[i]/paperKnobs[0].gpuHours[i]-1))
	})
	fmt.Fprint(w, themisWhyF)
	for _, name := range []string{"themis-f-rho", "themis-f-gpu", "themis-paper-f-rho", "themis-paper-f-gpu"} {
		fmt.Fprintf(w, "\n![By f and lease](%s/%s.svg)\n", images, name)
	}
}

func (t *Themis) knobTable(w io.Writer, figure func(Fairness) float64, format string, paper func(paperKnob, int) string) {
	for _, k := range t.Knobs {
		if k.Lease == themisLeases[0] {
			fmt.Fprintf(w, "| `%s` | %g |", k.Of, k.F)
		}
		i := slices.Index(themisLeases, k.Lease)
		fmt.Fprintf(w, " "+format, k.Over(figure).Mean)
		for _, p := range paperKnobs {
			if p.f == k.F {
				fmt.Fprint(w, paper(p, i))
			}
		}
		fmt.Fprint(w, " |")
		if i == len(themisLeases)-1 {
			fmt.Fprintln(w)
		}
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

func (t *Themis) printNetwork(w io.Writer) {
	fmt.Fprint(w, `
## Network-intensive apps

The same apps with other models: all insensitive to placement, or all network-intensive.
The paper states, without figures, that the gap to other policies widens with the share of
network-intensive apps, and that with compute-bound apps only Themis and Tiresias are about
alike.

| models | policy | largest rho | GPU time above well placed | placement score |
|---|---|---|---|---|
`)
	for _, part := range []struct {
		name     string
		outcomes []Outcome
	}{{"compute-intensive", t.Network}, {"network-intensive", t.NetworkAll}} {
		for _, o := range part.outcomes {
			fmt.Fprintf(w, "| %s | %s | %s | %+.1f %% | %.3f |\n", part.name, o.label(), o.singly(maxRho), 100*o.Over(overhead).Mean, o.Over(score).Mean)
		}
	}
	rho := func(policy string) float64 { return outcomeOf(t.Network, policy).Over(maxRho).Mean }
	jobs := outcomeOf(t.Network, "tiresias").Over(Fairness.jobsPerApp).Mean
	fmt.Fprintf(w, themisWhyTiresias, rho("tiresias"), rho(published), rho(ours), jobs, outcomeOf(t.Network, "tiresias").worstOff(),
		rho("drf"), outcomeOf(t.Network, "drf").worstOff(), rho(whyTiresias[1]), rho(whyTiresias[0]))
}

// worstOff prints the number of jobs of the app with the largest rho, for each seed.
func (o Outcome) worstOff() string {
	out := make([]string, len(o.Runs))
	for i, f := range o.Runs {
		worst := slices.MaxFunc(f.Apps, func(a, b AppOutcome) int { return cmp.Compare(a.Rho, b.Rho) })
		out[i] = fmt.Sprint(worst.Jobs)
	}
	return strings.Join(out, ", ")
}

// themisWhyTiresias explains the table of models.
const themisWhyTiresias = `
With compute-bound apps only, Themis and Tiresias are not alike here: the largest rho is %.2f under
` + "`tiresias`" + `, %.2f under ` + "`themis:paper`" + ` and %.2f under ` + "`themis`" + ` (means over the seeds). The unit of
fairness decides that, not the network: ` + "`tiresias`" + ` goes by jobs, as its paper says, so that an app
gets a turn for each of its jobs. An app has %.0f jobs on average; the one with the largest rho has
%s (each seed) under ` + "`tiresias`" + `. ` + "`drf`" + `, which shares the GPUs equally between apps and knows
nothing else, comes to %.2f, and the largest rho is that of apps of %s jobs. We take it that the
paper's Tiresias counted the service of apps. Two other differences matter less: with the queues
of its authors instead of those of the Pollux paper it is %.2f, and placed as closely as there is
room %.2f.
`

// themisWhyF explains the table of f.
const themisWhyF = `
In the paper, f trades fairness for GPU time: the fewer apps bid, the worse the placements. By
default it does next to nothing here, for two reasons. With ` + "`offer=surplus`" + ` an app bids only for
what it needs to end in time, and only the leases that this takes are offered, from better-off apps:
there is little to compete for, however many bid. And with ` + "`slowdown=1.05`" + ` no gang is placed
badly, whoever bids, so there is no GPU time to trade. In ` + "`themis:paper`" + ` neither holds, and f acts
as in the paper up to 0.8. Beyond that it has no effect in these mixes: so few apps are present at
a time that f = 0.8 to 1 mean one or two bidders.
`

// themisNotes lists the differences from the paper.
const themisNotes = `
## What differs from the paper

- ` + "`themis:paper`" + ` follows the paper's formulas and auction. What the paper leaves open is as in
  the default: an app without GPUs counts as half a gang in a bid, fractions are rounded by
  chance, and leases that are renewed in place end after half a lease to a whole one. The
  comment of package ` + "`policy/themis`" + ` lists all of it.
- The paper's trace is not public. The mix is drawn from the distributions in its figures
  and text (` + "`fairway trace gen --kind themis`" + `) and runs in full: a search consists of the
  jobs that early stopping leaves, with the GPU time they had.
- Slowdowns by placement come from our model zoo, which names their sources.
- Jobs with a recorded length report no losses. ` + "`slaq`" + ` serves such jobs by fair share and
  ` + "`optimus:original`" + ` in order of submission, so both run without loss curves here.
- ` + "`drf`" + ` treats every app as a tenant; the paper argues against it without measuring it.
- ` + "`las`, `tiresias`, `srtf`, `srsf`" + ` order jobs, not apps, as their papers do.
`
