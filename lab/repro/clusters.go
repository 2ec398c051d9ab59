// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package repro

import (
	"fmt"
	"io"
	"runtime"

	"github.com/fairway-gpu/fairway/sched/federate"
	"github.com/fairway-gpu/fairway/sim/federation"
)

// ClustersConfig is the experiment with several clusters and a choice among them.
type ClustersConfig struct {
	Jobs, Clusters, Nodes int
	Loads                 []float64
	Workers               int
	Progress              func(part string, done, all int)
}

// DefaultClusters is ten clusters of 10,000 GPUs.
func DefaultClusters() ClustersConfig {
	return ClustersConfig{Jobs: 1_000_000, Clusters: 10, Nodes: 1250, Loads: []float64{0.9, 0.95}, Workers: runtime.NumCPU()}
}

// What the experiment keeps fixed.
const (
	clustersSwing = 0.5
	clustersError = 0.5
	clustersEvery = 60.0
	clustersLook  = 200
	largeGang     = 64
)

// ClustersRow is one way to run the jobs of one load. Waits are averages, in seconds.
type ClustersRow struct {
	Load         float64
	Name         string
	Wait         float64
	PerGPU       float64 // a gang of 64 counts 64 times
	Gangs        float64 // of largeGang GPUs or more
	Median, Late float64 // Late: 99 of 100 wait no longer
	Moves        int
}

// Clusters plays the same jobs on one cluster and on several.
func Clusters(c ClustersConfig) ([]ClustersRow, error) {
	type way struct {
		name string
		federation.Config
	}
	several := federation.Config{Clusters: c.Clusters, Nodes: c.Nodes, Rule: federate.Default, Seed: 1}
	with := func(change func(*federation.Config)) federation.Config {
		out := several
		change(&out)
		return out
	}
	ways := []way{
		{"one cluster", federation.Config{Clusters: 1, Nodes: c.Clusters * c.Nodes}},
		{"earliest start, with moves", with(func(f *federation.Config) { f.Every, f.Look = clustersEvery, clustersLook })},
		{"earliest start", several},
		{"round robin", with(func(f *federation.Config) { f.Dispatch = federation.RoundRobin })},
		{"random", with(func(f *federation.Config) { f.Dispatch = federation.Random })},
	}
	rows := make([]ClustersRow, len(c.Loads)*len(ways))
	works := make([][]federation.Job, len(c.Loads))
	for i, load := range c.Loads {
		var err error
		works[i], err = federation.Load{Jobs: c.Jobs, GPUs: c.Clusters * c.Nodes * 8, Load: load, Swing: clustersSwing, Error: clustersError, Seed: 1}.Generate()
		if err != nil {
			return nil, err
		}
	}
	err := each("clusters", c.Workers, len(rows), c.Progress, func(i int) error {
		w, jobs := ways[i%len(ways)], works[i/len(ways)]
		r, err := federation.Run(w.Config, jobs)
		if err != nil {
			return err
		}
		rows[i] = ClustersRow{Load: c.Loads[i/len(ways)], Name: w.name, Wait: r.Mean(jobs, 1), PerGPU: r.PerGPU(jobs),
			Gangs: r.Mean(jobs, largeGang), Median: r.Quantile(0.5), Late: r.Quantile(0.99), Moves: r.Moves}
		return nil
	})
	return rows, err
}

// PrintClusters writes the page.
func PrintClusters(w io.Writer, c ClustersConfig, rows []ClustersRow) {
	fmt.Fprintf(w, `# Several clusters against one

%d clusters of %d GPUs each, and %d jobs. Each job goes to the cluster with the earliest expected
start ([how](../clusters.md)), and each cluster schedules on its own. How much longer do jobs wait
than on one cluster of all %d GPUs?

    fairway repro clusters

`, c.Clusters, c.Nodes*8, c.Jobs, c.Clusters*c.Nodes*8)
	fmt.Fprintln(w, "| load | choice | average wait | against one cluster | per GPU | against one cluster | gangs of 64 and more | median | 99 of 100 within | moves |")
	fmt.Fprintln(w, "|---|---|---|---|---|---|---|---|---|---|")
	var one ClustersRow
	for _, r := range rows {
		if r.Load != one.Load {
			one = r // the first of each load
		}
		fmt.Fprintf(w, "| %.2f | %s | %.0f s | %+.0f %% | %.0f s | %+.0f %% | %.0f s | %.0f s | %.0f s | %d |\n", r.Load, r.Name,
			r.Wait, 100*(r.Wait/one.Wait-1), r.PerGPU, 100*(r.PerGPU/one.PerGPU-1), r.Gangs, r.Median, r.Late, r.Moves)
	}
	fmt.Fprintf(w, `
"per GPU" counts a job as often as it asks for GPUs.

- **The jobs** are rigid: half ask for one GPU, one of ten for several nodes of 8, up to 512 GPUs. Run times
  are lognormal with a median of 40 minutes. Submissions rise by %.0f %% at noon and fall by as much at
  midnight. Run times are known with an error of a factor of %.2f (one standard deviation). One workload of
  each load, with the same seed.
- **Each cluster** is first in, first out with EASY backfilling, as `+"`fifo:backfill`"+` does it, with gangs on
  whole nodes. The simulator for this is a lean one, `+"`sim/federation`"+`; a test holds it against `+"`fairway sim`"+`
  on one cluster: average waits differ by less than 10 %%, and nine of ten jobs start in the same second.
- **The expected start** is coarser than what a daemon says: now, if the job may start now, else the work
  that waits, divided by the GPUs, and the time until the job's own GPUs come free by what is known of run times.
- **Moves** are tried every minute, for the first %d jobs of each queue. A job moves if it then starts at
  least %s and %.0f %% of its wait earlier. It goes to the end of the other queue.

A small job finds a gap in one of the clusters, and so overtakes gangs that wait in all of them. On one
cluster the same job stands behind them. That is why the average wait can be far below that of one cluster
while gangs, and so the average GPU, wait longer: a cluster of a tenth of the size takes longer to empty as
many nodes.
`, 100*clustersSwing, 1.65, clustersLook, federate.Default.Least, 100*federate.Default.Part)
}
