// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package repro

import (
	"fmt"
	"io"
	"math"
	"time"

	"github.com/fairway-gpu/fairway/sched/num"
	"github.com/fairway-gpu/fairway/sim"
)

// of returns a figure of each result.
func (r RecoveryRow) of(figure func(*sim.Result) float64) []float64 {
	out := make([]float64, len(r.Results))
	for i, res := range r.Results {
		out[i] = figure(res)
	}
	return out
}

func ettr(res *sim.Result) float64 { return res.Hardware.ETTR }

// scatter prints the mean of shares, and how far the seed is from it that is farthest.
func scatter(values []float64) string {
	mean, off := num.Mean(values), 0.0
	for _, v := range values {
		off = max(off, math.Abs(v-mean))
	}
	return fmt.Sprintf("%.2f ± %.2f %%", 100*mean, 100*off)
}

// Print writes the page.
func (r *Recovery) Print(w io.Writer, images string) {
	c := r.Config
	fmt.Fprintf(w, `# What failures cost, and what each part of the recovery saves

One job on %d GPUs (%d nodes of %d) trains for %d days on hardware that fails at rates from
public reports. The figure is the effective training time ratio (ETTR): the part of the time since
its start in which it made progress that was kept. That is ByteRobust's definition, productive by
wall-clock time, but stricter: a step that a slow node delays counts only as long as it would take
on healthy nodes. A figure is the mean of %d seeds, ± the distance of the seed farthest from it.

    fairway repro failures --out docs/reproduction

`, nodeGPUs*c.Nodes, c.Nodes, nodeGPUs, c.Days, len(c.Seeds))
	r.printParts(w, images)
	r.printTimes(w)
	r.printRates(w)
	r.printSpares(w)
	r.printBeside(w)
	r.printMix(w)
	fmt.Fprint(w, recoverySources)
	r.printAcross(w)
	fmt.Fprint(w, recoveryLimits)
	PrintClaims(w, r.Claims())
}

// printAcross shows what works across nodes.
func (r *Recovery) printAcross(w io.Writer) {
	fmt.Fprintf(w, `
With only what works across nodes (hangs and stragglers; a lost node is noticed in 1 min, and a gang started
anew in 3 min), ETTR is, by where checkpoints are:

| checkpoints | no spares | %d nodes kept free |
|---|---|---|
`, r.Across[1].Config.Spares)
	for i := 0; i < len(r.Across); i += 2 {
		fmt.Fprintf(w, "| %s | %s | %s |\n", r.Across[i].Name, scatter(r.Across[i].of(ettr)), scatter(r.Across[i+1].of(ettr)))
	}
	last := r.Across[len(r.Across)-1]
	lost := func(part func(sim.HardwareTimes) float64) float64 {
		return 100 * num.Mean(last.of(func(res *sim.Result) float64 { return part(res.Hardware.Parts()) }))
	}
	fmt.Fprintf(w, `
What is left in the last row, with spares: restarts %.2f %%, detection %.2f %%, saves %.2f %%, training done again
%.2f %%, waiting %.2f %%.
`, lost(func(t sim.HardwareTimes) float64 { return t.Restarting }), lost(func(t sim.HardwareTimes) float64 { return t.Undetected }),
		lost(func(t sim.HardwareTimes) float64 { return t.Saving }), lost(func(t sim.HardwareTimes) float64 { return t.Redone }),
		lost(func(t sim.HardwareTimes) float64 { return t.Waiting }))
}

func (r *Recovery) printParts(w io.Writer, images string) {
	fmt.Fprintf(w, `## Each part alone, and added to those before it

| part | what it changes | alone | with those before it | all but it |
|---|---|---|---|---|
| restart from disk | none of the parts; the job waits for the repair of a node | %s | | |
`, scatter(r.Disk.of(ettr)))
	for i, p := range r.Config.Parts() {
		fmt.Fprintf(w, "| %s | %s | %s | %s | %s |\n", p.Name, p.What,
			scatter(r.Alone[i].of(ettr)), scatter(r.With[i].of(ettr)), scatter(r.But[i].of(ettr)))
	}
	fmt.Fprintf(w, `
![Effective training time](%s/failures.svg)

Others report 97 %% (ByteRobust, 9,600 GPUs, three months), more than 90 %% (Llama 3, 16,384 GPUs;
MegaScale on 12,288, recalled) and 69 %% before, 95 %% after (DLRover, a 65B model on thousands of GPUs). Their
figures include what is not simulated here, above all changes of the code and rolled-back trainings.

Spares and the search for stragglers matter most. Checkpoints in memory help little while a lost node
takes them along: four of five failures do. Recovery in place and a second copy save much alone, but
either of them does most of what both do. Warm starts add nothing to recovery in place, which starts no
gang anew.
`, images)
}

// Charts returns the plots, by file name.
func (r *Recovery) Charts() map[string]Bars {
	chart := Bars{Title: "Effective training time, parts added from left to right", Y: "% of the time", MaxY: 100}
	names := []string{"from disk", "+ hangs", "+ stragglers", "+ warm starts", "+ memory", "+ second node", "+ in place", "+ spares"}
	for i, row := range append([]RecoveryRow{r.Disk}, r.With...) {
		values := row.of(func(res *sim.Result) float64 { return 100 * ettr(res) })
		chart.Bars = append(chart.Bars, Bar{Name: names[i], Value: num.Mean(values), Low: num.Quantile(values, 0), High: num.Quantile(values, 1)})
	}
	return map[string]Bars{"failures.svg": chart}
}

func (r *Recovery) printTimes(w io.Writer) {
	fmt.Fprint(w, `
## Where the time goes

Part of the time, mean of the seeds, with the parts added.

| | training | saving | undetected | redone | waiting for a node | restarting | slowed |
|---|---|---|---|---|---|---|---|
`)
	for _, row := range append([]RecoveryRow{r.Disk}, r.With...) {
		fmt.Fprintf(w, "| %s |", row.Name)
		for _, part := range []func(sim.HardwareTimes) float64{
			func(t sim.HardwareTimes) float64 { return t.Kept }, func(t sim.HardwareTimes) float64 { return t.Saving },
			func(t sim.HardwareTimes) float64 { return t.Undetected }, func(t sim.HardwareTimes) float64 { return t.Redone },
			func(t sim.HardwareTimes) float64 { return t.Waiting }, func(t sim.HardwareTimes) float64 { return t.Restarting },
			func(t sim.HardwareTimes) float64 { return t.Slowed },
		} {
			fmt.Fprintf(w, " %.2f %% |", 100*num.Mean(row.of(func(res *sim.Result) float64 { return part(res.Hardware.Parts()) })))
		}
		fmt.Fprintln(w)
	}
	count := func(of func(*sim.HardwareSummary) int) float64 {
		return num.Mean(r.With[len(r.With)-1].of(func(res *sim.Result) float64 { return float64(of(res.Hardware)) }))
	}
	fmt.Fprintf(w, "\nWith all parts, %.0f ranks and %.0f nodes are lost, %.0f ranks hang and %.0f nodes become slow (means).\n",
		count(func(h *sim.HardwareSummary) int { return h.Ranks }), count(func(h *sim.HardwareSummary) int { return h.Nodes }),
		count(func(h *sim.HardwareSummary) int { return h.Hangs }), count(func(h *sim.HardwareSummary) int { return h.Slow }))
}

func (r *Recovery) printRates(w io.Writer) {
	fmt.Fprint(w, `
## Other rates

All rates of failures multiplied; the number of spares stays.

| rates | restart from disk | all parts |
|---|---|---|
`)
	for i, by := range RateFactors {
		fmt.Fprintf(w, "| x %g | %s | %s |\n", by, scatter(r.Rates[2*i].of(ettr)), scatter(r.Rates[2*i+1].of(ettr)))
	}
}

func (r *Recovery) printSpares(w io.Writer) {
	c := r.Config
	fmt.Fprintf(w, `
## Where a spare pays

A spare costs its GPUs all the time. It gains the time that a gang stands still for want of a node.
Package `+"`policy/layer/spare`"+` prices it, by Erlang's formula: with the rate above, a job that needs all
nodes, and no other free node, this many spares gain the most:

| GPUs of the job | repair 1 h | 6 h | 24 h | 72 h |
|---|---|---|---|---|
`)
	h := sim.DefaultHardware()
	for _, nodes := range []int{8, 16, 32, 64, 128, 256, 512, 1200, 4096} {
		fmt.Fprintf(w, "| %d |", nodes*nodeGPUs)
		for _, hours := range []int{1, 6, 24, 72} {
			one := c.priced(h)
			one.Nodes, one.Gang, one.Repair = nodes, float64(nodes*nodeGPUs), time.Duration(hours)*time.Hour
			fmt.Fprintf(w, " %d |", one.Pays())
		}
		fmt.Fprintln(w)
	}
	price := c.priced(r.Spares[0].Config)
	fmt.Fprintf(w, `
The simulation agrees. All parts, repairs of %g h on average; the last column is the training that is
kept by the GPU time of all nodes, spares included. It is largest with %d spares by the price:

| spares | waiting, by the price | waiting | ETTR | of all GPUs |
|---|---|---|---|---|
`, SpareRepair.Hours(), price.Pays())
	for n, row := range r.Spares {
		fmt.Fprintf(w, "| %d | %.2f %% | %s | %s | %s |\n", n, 100*price.Still(n),
			scatter(row.of(func(res *sim.Result) float64 { return res.Hardware.Parts().Waiting })), scatter(row.of(ettr)), scatter(row.of(ofAll)))
	}
	brief, long := price, price
	brief.Wait, long.Wait = 10*time.Second, 10*time.Minute
	shrinks := r.Shrinks.of(func(res *sim.Result) float64 {
		return c.training().Seconds() / shrinkPart / res.Jobs[0].End
	})
	fmt.Fprintf(w, `
A job that can do without a node needs no spare: an elastic one, under `+"`fairway`"+`, with all parts
but spares and repairs of an hour, has an ETTR of %s and trains at %s of its
full speed (%d days). If a gang waits for 10 s before it shrinks, the price is %d spares; if for
10 min, %d (repairs of %g h).
`, scatter(r.Shrinks.of(ettr)), scatter(shrinks), c.Days/shrinkPart, brief.Pays(), long.Pays(), SpareRepair.Hours())
}

func (r *Recovery) printBeside(w io.Writer) {
	c := r.Config
	days := float64(c.Days)
	fmt.Fprintf(w, `
## A gang beside others

The layer `+"`@spare`"+` keeps as many nodes free as pay, by what it learns about outages during the run. A
gang that trains for %g days has all nodes but %g %%, and more jobs of 8 GPUs wait than the others can
take. All parts but spares, repairs of %g h on average. The last two columns are GPU time by that of all
nodes until the gang ends: what small jobs held, and that and the gang's training together.

| policy | ETTR of the gang | waiting for a node | small jobs | all |
|---|---|---|---|---|
`, days, 100*besidePart, SpareRepair.Hours())
	for _, row := range r.Beside {
		fmt.Fprintf(w, "| `%s` | %s | %s | %s | %s |\n", row.Name, scatter(row.of(bySize(nodeGPUs+1, math.MaxInt))),
			scatter(row.of(gangWaits)), scatter(row.of(smallShare)), scatter(row.of(func(res *sim.Result) float64 {
				return smallShare(res) + days*24*3600*float64(res.Jobs[0].GPUs)/untilGangEnds(res)
			})))
	}
}

// untilGangEnds is the GPU time of all nodes until the first job, the gang, ends.
func untilGangEnds(res *sim.Result) float64 { return res.Jobs[0].End * float64(res.Cluster.GPUs) }

// gangWaits is the part of its time that the gang waits for GPUs.
func gangWaits(res *sim.Result) float64 { return res.Jobs[0].Queued / res.Jobs[0].End }

// smallShare is the GPU time that the other jobs held until the gang ended.
func smallShare(res *sim.Result) float64 {
	held, end := 0.0, res.Jobs[0].End
	for _, j := range res.Jobs[1:] {
		for _, run := range j.Runs {
			held += float64(run.GPUs) * max(0, min(run.End, end)-run.Start)
		}
	}
	return held / untilGangEnds(res)
}

// ofAll is the training that is kept by the GPU time of all nodes.
func ofAll(res *sim.Result) float64 {
	return res.Hardware.Kept / (res.Jobs[0].End * float64(res.Cluster.GPUs))
}

func (r *Recovery) printMix(w io.Writer) {
	c := r.Config
	fmt.Fprintf(w, `
## A mix of jobs

%d jobs of 8 to 2,048 GPUs share the %d nodes at a load of %g, under `+"`%s`"+`. Run times are
log-normal with a median of 8 hours. ETTR by size, weighted by GPU time:

| | all | up to 64 GPUs | 128 to 512 | 1,024 and more |
|---|---|---|---|---|
`, c.Jobs, c.Nodes, mixLoad, c.Policy)
	for _, row := range r.Mix {
		fmt.Fprintf(w, "| %s | %s | %s | %s | %s |\n", row.Name, scatter(row.of(ettr)), scatter(row.of(bySize(1, 64))), scatter(row.of(bySize(65, 512))), scatter(row.of(bySize(513, math.MaxInt))))
	}
	before := r.Mix[len(r.Mix)-2]
	waiting := num.Mean(before.of(func(res *sim.Result) float64 { return res.Hardware.Waiting / res.Makespan }))
	spares := r.Mix[len(r.Mix)-1].Config.Spares
	fmt.Fprintf(w, `
Small jobs fail rarely, and lose most by saving to disk. There is nearly always a free node: without
spares, jobs wait for one on %.1f GPUs on average, and the %d spares take %d. So they do not pay here.
`, waiting, spares, spares*nodeGPUs)
}

// bySize returns the ETTR of jobs of that many GPUs.
func bySize(low, high int) func(*sim.Result) float64 {
	return func(res *sim.Result) float64 {
		kept, all := 0.0, 0.0
		for _, j := range res.Jobs {
			if j.GPUs >= low && j.GPUs <= high && j.End >= 0 {
				held := float64(j.GPUs) * (j.End - j.Start)
				all += held
				kept += held * j.ETTR
			}
		}
		if all == 0 {
			return 1
		}
		return kept / all
	}
}

// Claims returns what must hold.
func (r *Recovery) Claims() []Claim {
	all := r.With[len(r.With)-1].of(ettr)
	worst := num.Quantile(all, 0)
	last := r.Across[len(r.Across)-1]
	across := num.Mean(last.of(ettr))
	price := r.Config.priced(r.Spares[0].Config)
	best := 0
	for n, row := range r.Spares {
		if num.Mean(row.of(ofAll)) > num.Mean(r.Spares[best].of(ofAll)) {
			best = n
		}
	}
	return []Claim{
		{fmt.Sprintf("ETTR with all parts on %d GPUs, worst seed", nodeGPUs*r.Config.Nodes), "97 % or more", fmt.Sprintf("%.2f %%", 100*worst), worst >= 0.97},
		{fmt.Sprintf("ETTR with what works across nodes, parts of the model, %d spares, mean", last.Config.Spares), "97 % or more", fmt.Sprintf("%.2f %%", 100*across), across >= 0.97},
		{"spares that gain the most in the simulation", "within one of the price", fmt.Sprintf("%d, the price says %d", best, price.Pays()), abs(best-price.Pays()) <= 1},
	}
}

func abs(n int) int { return max(n, -n) }
