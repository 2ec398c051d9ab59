// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package repro

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/fairway-gpu/fairway/policy/interfere"
	"github.com/fairway-gpu/fairway/sim"
	"github.com/fairway-gpu/fairway/sim/trace"
)

// plainShares are the shares of jobs without agents.
var plainShares = []float64{0, 0.25, 0.5, 0.75, 1}

// plainRivals are the policies that the flagship must match at each share.
var plainRivals = []string{"fifo:backfill", "tiresias", polluxPolicy}

func (f *flagship) plainPart(p *FlagshipPart) error {
	specs := append(plainRivals[:len(plainRivals):len(plainRivals)], f.Policy)
	p.About = fmt.Sprintf("160 jobs of the Pollux mix on %s, a share of which are scripts without agents that cannot save their work; no policy may stop them. Means over %d seeds.", polluxCluster, len(f.seeds()))
	p.Commands = []string{fmt.Sprintf("fairway sim --workload gen:pollux:160 --cluster %s --policy %s --plain SHARE --seed S", polluxCluster, strings.Join(specs, ","))}
	p.Head = []string{"without agents", "policy", "avg JCT", "each seed", "stops of jobs without agents"}
	lines := make([]Line, len(specs))
	for _, share := range plainShares {
		means, stops := make([]float64, len(specs)), make([]int, len(specs))
		results, err := f.each(f.seeded(generated(trace.KindPollux, 160), setting{cluster: polluxCluster, plain: share}), specs...)
		if err != nil {
			return err
		}
		for i, spec := range specs {
			each := inSeconds()
			for _, res := range results {
				each.add(res[i].AvgJCT, 0)
				means[i] += res[i].AvgJCT / float64(len(results))
				stops[i] += plainStops(res[i])
			}
			p.row(fmt.Sprintf("%.0f %%", 100*share), label(spec, false), hours(means[i]), each.list(each.ours)+" s", stops[i])
			lines[i].Name = spec
			lines[i].Points = append(lines[i].Points, [2]float64{100 * share, means[i] / 3600})
		}
		p.claim(plainClaims(share, specs, means, stops)...)
	}
	p.plot = Chart{Title: "Average JCT as fewer jobs have agents", X: "jobs without agents, %", Y: "hours", Lines: lines}
	return nil
}

// plainClaims compares the last policy with the best of the others.
func plainClaims(share float64, specs []string, means []float64, stops []int) []Claim {
	last := len(specs) - 1
	best := 0
	for i := range last {
		if means[i] < means[best] {
			best = i
		}
	}
	a := inSeconds()
	a.add(means[last], means[best])
	return []Claim{
		a.atMost(fmt.Sprintf("%.0f %% without agents: average JCT over that of the best other, `%s`", 100*share, specs[best]), a.mean(), 1.03),
		{fmt.Sprintf("%.0f %% without agents: stops that lose their work", 100*share), "none", fmt.Sprint(stops[last]), stops[last] == 0},
	}
}

// plainStops counts the preemptions and moves of jobs that cannot save their work.
func plainStops(res *sim.Result) (n int) {
	for i := range res.Jobs {
		if j := &res.Jobs[i]; j.Plain {
			n += j.Preemptions + j.Moves
		}
	}
	return n
}

func (f *flagship) siaPart(p *FlagshipPart) error {
	p.About = "The workloads and measured tables of the Sia artifact on its cluster of three GPU types, with the conventions of its simulator."
	p.Commands = []string{fmt.Sprintf("fairway sim --workload SIA/workloads/FAMILY/workload-N.csv --format pollux --policy %s,sia --cluster %s --profiles SIA/traces --optimistic", f.Policy, siaCluster)}
	places, err := f.files("sia", "workloads/*/workload-*.csv", "pollux", setting{cluster: siaCluster, tables: "sia", optimistic: true})
	if err != nil {
		return err
	}
	results, err := f.compare(p, places, "sia", f.Policy)
	if err != nil {
		return err
	}
	jct := inSeconds()
	for _, res := range results {
		jct.add(res[1].AvgJCT, res[0].AvgJCT)
	}
	p.claim(jct.atMost("Sia's mixed cluster: average JCT over that of `sia`, mean", jct.mean(), 0.9))
	return nil
}

const themisRho = 1.2

func (f *flagship) themisPart(p *FlagshipPart) error {
	const jobs = 1000
	p.About = fmt.Sprintf("Searches of up to 100 jobs on the 256 GPUs of [themis.md](themis.md); %d jobs, %d seeds. With exact run times, as the paper's apps know the work they have left, and with what a live system knows.", jobs/max(1, f.Scale), len(f.seeds()))
	for _, known := range []sim.Estimates{sim.Exact, sim.History} {
		rho, jct := &against{unit: 1, digits: 2}, inHours()
		rows := FlagshipPart{}
		results, err := f.compare(&rows, f.seeded(generated(trace.KindThemis, jobs), setting{cluster: themisMix, estimates: known}), "themis", f.Policy)
		if err != nil {
			return err
		}
		for _, res := range results {
			rho.add(res[1].MaxRho, res[0].MaxRho)
			jct.add(res[1].AvgJCT, res[0].AvgJCT)
		}
		for _, row := range rows.Rows {
			p.row(row[0], string(known), row[1], row[2], row[4], row[5], row[6])
		}
		largest := 0.0
		for _, x := range rho.ours {
			largest = max(largest, x)
		}
		p.claim(
			Claim{fmt.Sprintf("Themis mix, estimates %s: largest rho, each seed", known), fmt.Sprintf("%.1f or less", themisRho), fmt.Sprintf("%s (`themis` %s)", rho.list(rho.ours), rho.list(rho.theirs)), largest <= themisRho},
			jct.atMost(fmt.Sprintf("Themis mix, estimates %s: average JCT over that of `themis`, mean", known), jct.mean(), 1),
		)
	}
	p.Head = []string{"workload", "estimates", "policy", "avg JCT", "makespan", "largest rho", "restarts"}
	return nil
}

func (f *flagship) sharingPart(p *FlagshipPart) error {
	light := trace.Gen{Kind: trace.KindHorus, Jobs: 2000, Load: 16, Longest: 24 * time.Hour, Error: 0.133}
	p.About = fmt.Sprintf("A backlog of %d jobs that leave GPUs half idle, on a quarter of the cluster of [horus.md](horus.md), 256 GPUs: policies predict slowdowns from one half of the measured pairs, jobs are slowed by the other. Slowed beyond the promise is the part of the shared time in which a job was slowed by more than a factor of %.2f.", light.Jobs/max(1, f.Scale), interfere.DefaultLimit)
	p.Head = []string{"workload", "policy", "avg JCT", "p99", "makespan", "GPU utilisation", "time shared", "mean slowdown", "beyond the promise"}
	jct, span, over := inHours(), inHours(), &against{unit: 0.01, digits: 2, name: " %"}
	specs, places := []string{exclusive, "horus+", f.Policy}, f.seeded(source{gen: light}, setting{cluster: lightMix})
	results, err := f.each(places, specs...)
	if err != nil {
		return err
	}
	for i, at := range places {
		for j, res := range results[i] {
			s := cmp.Or(res.Sharing, &sim.SharingSummary{Slowdown: 1})
			p.row(at.name(), label(specs[j], res.Oracle), hours(res.AvgJCT), hours(res.P99JCT), hours(res.Makespan), fmt.Sprintf("%.1f %%", 100*res.GPUUtil),
				fmt.Sprintf("%.1f %%", 100*s.Part), fmt.Sprintf("%.3f", s.Slowdown), fmt.Sprintf("%.2f %%", 100*s.Over))
		}
		plus, ours := results[i][1], results[i][2]
		jct.add(ours.AvgJCT, plus.AvgJCT)
		span.add(ours.Makespan, plus.Makespan)
		over.add(beyond(ours), beyond(plus))
	}
	p.claim(
		jct.atMost("light mix: average JCT over that of `horus+`, mean", jct.mean(), 1),
		span.atMost("light mix: makespan over that of `horus+`, mean", span.mean(), 1),
		Claim{"light mix: shared time slowed beyond the promise, each seed", "none", fmt.Sprintf("%s %% (`horus+` %s %%)", over.list(over.ours), over.list(over.theirs)), sum(over.ours) == 0},
	)
	return nil
}

// beyond is the part of the shared time in which jobs were slowed beyond the limit.
func beyond(res *sim.Result) float64 {
	if res.Sharing == nil {
		return 0
	}
	return res.Sharing.Over
}

func sum(x []float64) (sum float64) {
	for _, v := range x {
		sum += v
	}
	return sum
}
