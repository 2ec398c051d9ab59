// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package repro

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/fairway-gpu/fairway/policy"
	"github.com/fairway-gpu/fairway/sim"
	"github.com/fairway-gpu/fairway/sim/trace"
)

// MixedConfig is the experiment on a cluster of several GPU types.
type MixedConfig struct {
	Cluster string // in the form of sim.ParseCluster
	Jobs    int
	Largest []int // sizes of the largest gang
	Seeds   []uint64
	// Progress, if set, is called when a run begins.
	Progress func(policy string, largest int, seed uint64)
}

// DefaultMixed is a cluster of three generations. Its seeds were not used to
// choose the default settings of any policy.
func DefaultMixed() MixedConfig {
	return MixedConfig{Cluster: "6x4:t4+3x8:rtx+2x8:a100", Jobs: 160, Largest: []int{8, 16}, Seeds: []uint64{7, 8, 9, 10, 11}}
}

// MixedRun is a policy on the mixed cluster: means over the seeds, by largest
// gang.
type MixedRun struct {
	Policy  string
	ByType  bool      // it knows that GPU types differ in speed
	Adapts  bool      // its jobs adapt their batch sizes
	JCT     []float64 // seconds
	Spread  []float64 // standard deviation of it over the seeds
	MaxRho  []float64
	Restart []float64 // restarts
	// Exact is the JCT with true run times and speeds; nil if the policy does not
	// use them. An oracle always plans with them.
	Exact  []float64
	Oracle bool
}

// byType are the policies that plan with the speed of each type.
var byType = []string{"fairway", "gavel", "gavel:ftf", "gavel:makespan", "gavel:cost", "gavel:sjf", "gavel:throughput", "gavel:fifo", "gavel:hierarchical", "gavel:allox", "sia"}

// Mixed runs every policy of the table, and the variants that plan by type.
func Mixed(c MixedConfig) ([]MixedRun, error) {
	specs := policy.Builtin().Names()
	for _, s := range byType {
		if !slices.Contains(specs, s) {
			specs = append(specs, s)
		}
	}
	var out []MixedRun
	for _, spec := range specs {
		about := policy.Builtin().About(spec)
		run := MixedRun{Policy: spec, ByType: slices.Contains(byType, spec), Adapts: about.Agents && !about.Losses, Oracle: about.Oracle}
		for _, largest := range c.Largest {
			m, err := c.means(spec, largest, sim.History)
			if err != nil {
				return nil, err
			}
			run.JCT, run.MaxRho, run.Restart = append(run.JCT, m.jct), append(run.MaxRho, m.rho), append(run.Restart, m.restarts)
			run.Spread = append(run.Spread, m.spread)
			if !run.ByType && !about.Estimates && !about.Losses {
				continue
			}
			if m, err = c.means(spec, largest, sim.Exact); err != nil {
				return nil, err
			}
			run.Exact = append(run.Exact, m.jct)
		}
		out = append(out, run)
	}
	slices.SortStableFunc(out, func(a, b MixedRun) int { return cmp.Compare(a.JCT[0], b.JCT[0]) })
	return out, nil
}

// mixedMeans are means over the seeds, and the standard deviation of the JCT.
type mixedMeans struct{ jct, spread, rho, restarts float64 }

func (c MixedConfig) means(spec string, largest int, e sim.Estimates) (m mixedMeans, err error) {
	var all []float64
	for _, seed := range c.Seeds {
		if c.Progress != nil {
			c.Progress(spec, largest, seed)
		}
		w, err := trace.Generate(trace.Gen{Kind: trace.KindPollux, Jobs: c.Jobs, GPUs: largest, Seed: seed, Span: 8 * time.Hour})
		if err != nil {
			return m, err
		}
		res, err := simulate(spec, c.Cluster, w, func(c *sim.Config) { c.Estimates = e })
		if err != nil {
			return m, fmt.Errorf("%s: %w", spec, err)
		}
		n := float64(len(c.Seeds))
		m.rho, m.restarts = m.rho+res.MaxRho/n, m.restarts+float64(res.Restarts)/n
		all = append(all, res.AvgJCT)
	}
	jct := meanOf(all)
	m.jct, m.spread = jct.Mean, jct.Spread
	return m, nil
}

// PrintMixed writes the experiment as Markdown.
func PrintMixed(w io.Writer, c MixedConfig, runs []MixedRun) {
	fmt.Fprintf(w, `# A cluster of several GPU types

%d jobs of the Pollux paper's mix, submitted within 8 hours, on %s, under every
built-in policy; means over %d seeds (%d to %d), the average JCT with its standard deviation between
them. No default setting was chosen by these seeds; of `+"`fairway`"+`, which came later, that is not
recorded.
The speeds of the models on each type are fits of published measurements (sim/zoo/README.md).

    fairway repro mixed --out docs/reproduction/mixed.md

Policies know what a live system knows (`+"`--estimates history`"+`): run times from past jobs of the
same model, and speeds that the job's agent has measured. A policy that plans by type assumes
that a type on which the job has not run is faster or slower by the same factor as for other
models; other policies treat all types as equal. Jobs adapt their batch sizes under %s
only; others run them as submitted. The columns "exact" show the same policy as an oracle
(`+"`--estimates exact`"+`): it knows every true run time and, from submission, the true speed of
every job on one GPU of each type. A dash means that the policy uses neither.

| policy | plans by type |`, c.Jobs, c.Cluster, len(c.Seeds), slices.Min(c.Seeds), slices.Max(c.Seeds), adapting(runs))
	for _, n := range c.Largest {
		fmt.Fprintf(w, " gangs of up to %d: avg JCT | exact | max rho | restarts |", n)
	}
	fmt.Fprint(w, "\n|---|---|")
	for range c.Largest {
		fmt.Fprint(w, "---|---|---|---|")
	}
	for _, r := range runs {
		plans := ""
		if r.ByType {
			plans = "yes"
		}
		fmt.Fprintf(w, "\n| %s | %s |", label(r.Policy, r.Oracle), plans)
		for i := range c.Largest {
			exact := "-"
			if r.Exact != nil {
				exact = fmt.Sprintf("%.1f min", r.Exact[i]/60)
			}
			fmt.Fprintf(w, " %.1f ± %.1f min | %s | %.1f | %.0f |", r.JCT[i]/60, r.Spread[i]/60, exact, r.MaxRho[i], r.Restart[i])
		}
	}
	fmt.Fprintf(w, "\n\n%s\n", mixedVerdict(c, runs))
}

// adapting names the policies whose jobs adapt their batch sizes.
func adapting(runs []MixedRun) string {
	var names []string
	for _, r := range runs {
		if r.Adapts {
			names = append(names, "`"+r.Policy+"`")
		}
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// mixedVerdict compares the policies that plan by type with the best of the others.
func mixedVerdict(c MixedConfig, runs []MixedRun) string {
	text := ""
	for i, n := range c.Largest {
		blind, rigid := MixedRun{}, MixedRun{}
		for _, r := range runs {
			if r.ByType {
				continue
			}
			if blind.Policy == "" || r.JCT[i] < blind.JCT[i] {
				blind = r
			}
			if !r.Adapts && (rigid.Policy == "" || r.JCT[i] < rigid.JCT[i]) {
				rigid = r
			}
		}
		text += fmt.Sprintf("Gangs of up to %d: the best policy that treats all types as equal is `%s` (%.1f min), and `%s` (%.1f min) without tuning batch sizes. Against these two:", n, blind.Policy, blind.JCT[i]/60, rigid.Policy, rigid.JCT[i]/60)
		for _, r := range runs {
			if r.ByType {
				text += fmt.Sprintf(" `%s` %+.0f %% and %+.0f %%.", r.Policy, 100*(r.JCT[i]/blind.JCT[i]-1), 100*(r.JCT[i]/rigid.JCT[i]-1))
			}
		}
		text += "\n"
	}
	return text
}
