// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/fairway-gpu/fairway/lab/progress"
	"github.com/fairway-gpu/fairway/sim"
)

// printTable prints the comparison that ends a run.
func printTable(w io.Writer, runs []finishedRun) {
	first := runs[len(runs)-1].result // the first may be what happened, elsewhere
	told := string(first.Estimates)
	if first.Optimistic {
		told += "; optimistic"
	}
	fmt.Fprintf(w, "%s: %d jobs on %d nodes, %d GPUs; estimates: %s\n\n", first.Workload, first.Summary.Jobs, first.Cluster.Nodes, first.Cluster.GPUs, told)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "policy\tavg JCT\tp50\tp99\tavg wait\tmakespan\tavg rho\tmax rho\tGPUs held\trestarts\tfailed\tdecide p99\twall\t")
	for _, r := range runs {
		s := r.result
		cost := "-\t-"
		if r.timing != nil {
			cost = fmt.Sprintf("%.2f ms\t%.2f s", r.timing.DecideP99, r.timing.Wall)
		}
		rho := "-\t-" // of what happened: nobody knows
		if s.MaxRho > 0 {
			rho = fmt.Sprintf("%.2f\t%.2f", s.AvgRho, s.MaxRho)
		}
		held := s.GPUsHeld // a GPU held in part counts: of a GPU that one job has to itself, policies that share may give it a third
		if held == 0 {
			held = s.Allocation // what happened, where nothing was shared
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%.1f %%\t%d\t%d\t%s\t\n",
			s.Label(), human(s.AvgJCT), human(s.P50JCT), human(s.P99JCT), human(s.AvgWait), human(s.Makespan),
			rho, 100*held, s.Restarts, s.Failed, cost)
	}
	t.Flush()
	if s := first.Summary; s.Averaged > 0 && s.Averaged < s.Jobs {
		fmt.Fprintf(w, "\nTimes are averaged over the same %d jobs in every row: those that ended in all of them; %d of %d are left out. The other columns are of all jobs, over the whole of each run\n", s.Averaged, s.Jobs-s.Averaged, s.Jobs)
	}
	for _, r := range runs {
		if x := r.result.Search; x != nil {
			fmt.Fprintf(w, "\n%s: the search took %s and %.1f GPU hours for %d trials, %d of which it stopped early; the best reached %.1f %%: %s",
				r.result.Policy, human(x.Makespan), x.GPUSeconds/3600, x.Trials, x.Stopped, x.Best, x.Params)
		}
	}
	for _, r := range runs {
		if r.result.Unfinished == 0 {
			continue
		}
		fmt.Fprintf(w, "\n%s: %d of %d jobs have not ended", r.result.Policy, r.result.Unfinished, r.result.Summary.Jobs)
		if n := tooLarge(r.result); n > 0 {
			fmt.Fprintf(w, ", %d of them as they ask for more than the %d GPUs that there are", n, r.result.Cluster.GPUs)
		}
		if r.result.Averaged == 0 {
			fmt.Fprint(w, "; averages cover those that have")
		}
	}
	fmt.Fprintln(w)
}

// tooLarge counts the jobs that never started and ask for more than the whole cluster.
func tooLarge(r *sim.Result) int {
	n := 0
	for _, j := range r.Jobs {
		if j.Start < 0 && j.GPUs > r.Cluster.GPUs {
			n++
		}
	}
	return n
}

// showRun returns a callback that draws the progress of a simulation.
func showRun(b *progress.Bar, name string) func(sim.Progress) {
	return func(p sim.Progress) {
		b.Show(name, p.Ended, p.Jobs, fmt.Sprintf("%d/%d jobs, %s simulated, %d decisions", p.Ended, p.Jobs, human(p.Now.Seconds()), p.Decisions))
	}
}

// human prints seconds in the unit a person would choose.
func human(s float64) string {
	switch {
	case s < 0:
		return "-"
	case s < 120:
		return fmt.Sprintf("%.0f s", s)
	case s < 2*3600:
		return fmt.Sprintf("%.1f min", s/60)
	case s < 2*86400:
		return fmt.Sprintf("%.2f h", s/3600)
	}
	return fmt.Sprintf("%.1f d", s/86400)
}
