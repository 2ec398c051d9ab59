// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package repro

import (
	"fmt"
	"io"
	"strings"
)

// Print writes the page as Markdown.
func (f *Flagship) Print(w io.Writer, images string) {
	fmt.Fprintf(w, flagshipIntro, f.Config.Policy, max(1, f.Config.Seeds))
	var claims []Claim
	var missing []string
	for _, p := range f.Parts {
		claims = append(claims, p.Claims...)
		for _, why := range p.NotRun {
			missing = append(missing, fmt.Sprintf("%s: not run: %s", p.Name, why))
		}
	}
	PrintClaims(w, claims)
	if len(missing) > 0 {
		fmt.Fprintf(w, "\n- %s\n", strings.Join(missing, "\n- "))
	}
	fmt.Fprint(w, flagshipTried, flagshipElsewhere)
	for _, p := range f.Parts {
		p.print(w)
		if p.plot != nil {
			fmt.Fprintf(w, "\n![%s](%s/%s)\n", strings.ToLower(p.Title), images, p.plotName())
		}
	}
}

func (p *FlagshipPart) print(w io.Writer) {
	if len(p.Rows) == 0 {
		return
	}
	fmt.Fprintf(w, "\n## %s\n\n%s\n\n    fairway repro flagship --only %s\n", p.Title, wrap(p.About, 95), p.Name)
	for _, c := range p.Commands {
		fmt.Fprintf(w, "    %s\n", c)
	}
	fmt.Fprintf(w, "\n| %s |\n|%s\n", strings.Join(p.Head, " | "), strings.Repeat("---|", len(p.Head)))
	for _, row := range p.Rows {
		fmt.Fprintf(w, "| %s |\n", strings.Join(row, " | "))
	}
}

// wrap breaks a paragraph into lines.
func wrap(text string, width int) string {
	var out strings.Builder
	column := 0
	for i, word := range strings.Fields(text) {
		switch {
		case i == 0:
		case column+1+len(word) > width:
			out.WriteByte('\n')
			column = 0
		default:
			out.WriteByte(' ')
			column++
		}
		out.WriteString(word)
		column += len(word)
	}
	return out.String()
}

// Charts returns the plots by file name.
func (f *Flagship) Charts() map[string]Plot {
	charts := map[string]Plot{}
	for _, p := range f.Parts {
		if p.plot != nil {
			charts[p.plotName()] = p.plot
		}
	}
	return charts
}

func (p *FlagshipPart) plotName() string { return "flagship-" + p.Name + ".svg" }

const flagshipIntro = "# What `%[1]s` must show\n" + `
The policy that is left on by default has to be good on every kind of workload. Each row of
the table is a target, what the policy gives, and whether it holds; figures in brackets are
those of both sides, workload by workload. Ratios are means over the workloads or the worst
of them, as stated. A part of the page, or all:

    fairway repro flagship --only pollux,rho --pollux POLLUX_ARTIFACT/simulator
    fairway repro flagship --pollux POLLUX_ARTIFACT/simulator --sia SIA_ARTIFACT/sia-simulator --shockwave SHOCKWAVE_ARTIFACT/scheduler --gavel GAVEL/scheduler --out docs/reproduction

No run tells a policy true run times, unless it says "exact": estimates are from the history of
similar jobs, and a policy that plans with exact ones is marked as an oracle. As in
` + "`fairway sim`" + ` without flags, other policies decide in rounds of 60 s; ` + "`fairway`" + ` decides at every
event, and its new jobs start from what past ones measured.

Generated workloads have %[2]d seeds (` + "`--seeds %[2]d`" + `).
`

// flagshipTried is prose: the figures are those of its commands at the time of writing.
const flagshipTried = `
What was tried for targets that are missed, on the three workloads (at the time of writing):

    fairway repro flagship --only pollux --policy POLICY --pollux POLLUX_ARTIFACT/simulator

| policy | average JCT over the reference's, mean | p99 over ` + "`pollux`" + `, worst | makespan, worst | largest rho |
|---|---|---|---|---|
| ` + "`fairway`" + ` | 0.830 | 1.037 | 1.077 | 1.56 |
| ` + "`fairway:rank=1`" + ` | 0.848 | 1.048 | 1.057 | 1.70 |
| ` + "`fairway:rank=1.5`" + ` | 0.836 | 1.061 | 1.089 | 1.57 |
| ` + "`fairway:power=0.7`" + ` | 0.844 | 1.172 | 1.095 | 1.57 |
| ` + "`fairway:apart=false`" + ` | 0.829 | 1.056 | 1.068 | 1.56 |
| ` + "`fairway:seed=2`" + ` | 0.836 | 0.996 | 1.074 | 1.56 |
| ` + "`fairway:seed=3`" + ` | 0.842 | 1.049 | 1.074 | 1.56 |
| ` + "`fairway:seed=4`" + ` | 0.839 | 1.075 | 1.073 | 1.70 |
| ` + "`fairway:seed=5`" + ` | 0.842 | 1.037 | 1.071 | 1.70 |

The seed of the search alone moves the average by 0.01, and the default one is the best of these five, whose mean
is 0.838: smaller differences say nothing. None of the others is better on average by more than a thousandth. A lower
rank favours long jobs more, which shortens the makespan and lengthens the average: one target costs the other.

What is left of the makespan is a few long jobs of similar length that remain after the last submission: of
ImageNet for more than half of the time, or of YOLOv3. Nearly all GPUs are busy; the shortest of these jobs has most of
them and the longest the fewest. The last one is then alone with most of its training to do, when its batch is still too small
to make use of all GPUs. For the average that is right. Rules that give the longest more, once no job has come for a while or at
all times, shortened the makespan by a few percent at most and lengthened the average by nearly as much; they were dropped.

The rule for jobs of unknown length would lengthen the average by 3 to 4 % if it held for all jobs; where finished
jobs kept to what they had announced, it does not.
`

const flagshipElsewhere = `
Two targets are not simulated: how long a decision takes ([performance.md](../performance.md)), and how
twelve models share an H200, which is measured on one ([gpu-run.md](../gpu-run.md)).
`
