// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package repro

import (
	"fmt"
	"io"
	"strings"

	"github.com/fairway-gpu/fairway/sim/trace"
)

// sharesOf returns the share of fragmentation of a size over the seeds in which gangs
// waited, and the number of waits over all.
func (o PhillyOutcome) sharesOf(size int, count func(PhillyCounts) []Causes) (share, waits Mean) {
	var shares, all []float64
	for _, s := range o.Seeds {
		c := count(s)[size]
		all = append(all, float64(c.All()))
		if c.All() > 0 {
			shares = append(shares, 100*c.Share())
		}
	}
	return meanOf(shares), meanOf(all)
}

func first(c PhillyCounts) []Causes { return c.First }
func every(c PhillyCounts) []Causes { return c.Every }

// cells prints shares and numbers of waits of every size.
func (o PhillyOutcome) cells(count func(PhillyCounts) []Causes) string {
	var b strings.Builder
	for i := range phillySizes {
		share, waits := o.sharesOf(i, count)
		if waits.Mean == 0 {
			b.WriteString(" - of 0 |")
			continue
		}
		fmt.Fprintf(&b, " %.0f ± %.0f %% of %.0f ± %.0f |", share.Mean, share.Spread, waits.Mean, waits.Spread)
	}
	return b.String()
}

// paperCells are those of the paper.
func paperCells() string {
	var b strings.Builder
	for _, s := range phillySizes {
		fmt.Fprintf(&b, " %.1f %% of %d |", 100*Causes{s.fairShare, s.fragments}.Share(), s.fairShare+s.fragments)
	}
	return b.String()
}

// Print writes the experiment as Markdown.
func (p *Philly) Print(w io.Writer) {
	p.printIntro(w)
	p.printCount(w)
	p.printRegimes(w)
}

func (p *Philly) printIntro(w io.Writer) {
	var theirs, quota, reasons []string
	last := p.Regimes[len(p.Regimes)-1]
	for i, s := range phillySizes {
		theirs = append(theirs, fmt.Sprintf("%.0f", 100*Causes{s.fairShare, s.fragments}.Share()))
		share, _ := last.sharesOf(i, every)
		quota = append(quota, fmt.Sprintf("%.0f ± %.0f", share.Mean, share.Spread))
		share, _ = last.sharesOf(i, first)
		reasons = append(reasons, fmt.Sprintf("%.0f ± %.0f", share.Mean, share.Spread))
	}
	fmt.Fprintf(w, `# Why jobs wait: Philly's finding

**The paper's shares cannot be had from public data:** it finds that fragmentation, not fair share, causes
%s %% of the waits of gangs of 2-4, 5-8 and more than 8 GPUs. In the regime that is closer to its
description it causes %s %% by the reasons of the policy, and %s %% if each
wait of a virtual cluster that is out of quota counts as fair share, as the paper's words say.

%d workloads of %d Philly-like jobs (seeds 1 to %[4]d), on %[6]d GPUs (%[7]s) under `+"`philly`"+`: virtual
clusters with quotas and borrowing, gangs with time-out and back-off, locality relaxed step by
step. Figures are means and standard deviations over the seeds. The load was chosen on one larger
workload of seed 1, knowing what it does to the shares: the fuller the cluster, the more waits are for
fair share. Nothing else was tuned to them; the workloads are fitted to the public trace (sim/trace).
The study published its trace and not its scheduler, so that there is no reference run.

    fairway repro philly --out docs/reproduction

`, strings.Join(theirs, ", "), strings.Join(reasons, ", "), strings.Join(quota, ", "), p.Config.Seeds, p.Config.Jobs, p.GPUs, p.Config.Cluster)
}

func (p *Philly) printCount(w io.Writer) {
	fmt.Fprint(w, `## What the paper counts

Table 2 of the paper (ATC'19) has more waits than there are gangs. The public trace has more jobs
than the study (117,325 and 96,260); the size and run time of 109,524 of them are known.

| GPUs | waits in the paper | gangs in the public trace | that ran for a minute | failed attempts (table 7) |
|---|---|---|---|---|
`)
	failed := trace.FailedAttempts()
	for i, s := range phillySizes {
		attempts := []string{fmt.Sprint(failed[1]), fmt.Sprintf("%d, with those of >8", failed[2]), ""}[i]
		fmt.Fprintf(w, "| %s | %d | %d | %d | %s |\n", s.name, s.fairShare+s.fragments, s.jobs, s.ran, attempts)
	}
	large, most := phillySizes[1], phillySizes[2]
	fmt.Fprintf(w, `
If gangs of more than 4 GPUs had waited before each of their attempts, that would be %d waits at
most; the paper counts %d. It must count a wait more than once, perhaps at each time-out of a
gang, so its numbers cannot be compared with ours, only its shares. If no job had waited, the public
jobs would have used %.0f %% of the GPUs on the 74 busy days. That leaves little to wait for: fewer
GPUs were available to them than the %d of the published list, or they are not all jobs.
`, large.jobs+most.jobs+failed[2], large.fairShare+large.fragments+most.fairShare+most.fragments, 100*publicUse, p.GPUs)
}

func (p *Philly) printRegimes(w io.Writer) {
	fmt.Fprint(w, `
## What gangs wait for

The share of the waits that fragmentation causes, and their number. The first line of a regime
counts every wait of more than a minute (before the first start, after a failed attempt and after a
preemption) by the quota, as the paper defines it and a log shows it: a wait is for fair share if,
for most of it, the virtual cluster's quota did not cover the gang beside the jobs that ran. The
second line, which is what this page used to count, takes first waits by the reason of the policy.
Virtual clusters borrow, so that it is fair share only if fewer GPUs are idle than the gang needs.

| regime | load | 2-4 GPUs | 5-8 | >8 |
|---|---|---|---|---|
`)
	fmt.Fprintf(w, "| the paper | - |%s\n", paperCells())
	for _, o := range p.Regimes {
		fmt.Fprintf(w, "| `%s`: %s | %.2f |%s\n", o.Policy, o.Meaning, o.Load, o.cells(every))
		fmt.Fprintf(w, "| - first waits, by its reasons | %.2f |%s\n", o.Load, o.cells(first))
	}
	last := p.Regimes[len(p.Regimes)-1]
	rises, larger := last.finding()
	fmt.Fprintf(w, `
The finding itself, in the second regime: the share of fragmentation rises with the size of gangs in
%d of %d seeds, and it is the larger cause for gangs above 8 GPUs in %d.
`, rises, len(last.Seeds), larger)
}

// finding returns in how many seeds the share of fragmentation rises with the size of gangs,
// and in how many it is the larger cause for the largest.
func (o PhillyOutcome) finding() (rises, larger int) {
	for _, s := range o.Seeds {
		few, some, many := s.Every[0], s.Every[1], s.Every[2]
		if few.Share() <= some.Share() && some.Share() <= many.Share() && many.All() > 0 {
			rises++
		}
		if many.Share() > 0.5 {
			larger++
		}
	}
	return rises, larger
}
