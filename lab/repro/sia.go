// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package repro

import (
	"fmt"
	"io"
	"io/fs"
	"slices"
	"time"

	"github.com/fairway-gpu/fairway/sim"
	"github.com/fairway-gpu/fairway/sim/profile"
	"github.com/fairway-gpu/fairway/sim/trace"
)

// siaCluster is the default cluster of the Sia artifact's simulator, types in its
// order: it projects from the first type that a job has run on.
const siaCluster = "6x4:aws+2x8:dgx-ext+3x8:rtx"

// siaRuns are the runs that are compared with the artifact's simulator: policy,
// workload, rounds, and the average JCT, p99 and makespan in seconds (0: unknown) of a
// run of its code, or of a second implementation of it in Python, with SciPy's solver
// of integer programs and its L-BFGS-B. That one was written after reading the code;
// it shares no code with ours and is not in this repository.
var siaRuns = []SiaRow{
	{Policy: "gavel:throughput", Workload: "saturn/workload-1", Interval: 6 * time.Minute, Reference: [3]float64{6474, 78362, 98586}},
	{Policy: "sia", Workload: "saturn/workload-1", Interval: time.Minute, Reference: [3]float64{2125, 30598, 48596}, Second: true},
	{Policy: "gavel:throughput", Workload: "philly/workload-2", Interval: 6 * time.Minute},
	{Policy: "sia", Workload: "philly/workload-2", Interval: time.Minute, Reference: [3]float64{2656, 33973, 49509}, Second: true},
}

// siaOverGavel is the average JCT of Sia over that of Gavel in the reference, on a
// workload of the philly family that we do not have.
const siaOverGavel = 0.33

// SiaRow compares one run with the Sia artifact's simulator.
type SiaRow struct {
	Policy, Workload string
	Interval         time.Duration
	Reference, Ours  [3]float64 // average JCT, p99 and makespan in seconds
	Second           bool       // Reference is of the second implementation
	Restarts         int
}

// Sia replays the workloads of the Sia artifact on its cluster with its tables. data
// has its layout: traces/MODEL/*.csv and workloads/FAMILY/workload-N.csv. If policies
// are given, only these are run.
func Sia(data fs.FS, progress func(policy, workload string), policies ...string) ([]SiaRow, error) {
	traces, err := fs.Sub(data, "traces")
	if err != nil {
		return nil, err
	}
	tables, err := profile.Read(traces)
	if err != nil {
		return nil, err
	}
	rows := slices.Clone(siaRuns)
	for i := range rows {
		if len(policies) > 0 && !slices.Contains(policies, rows[i].Policy) {
			continue
		}
		if progress != nil {
			progress(rows[i].Policy, rows[i].Workload)
		}
		if err := rows[i].run(data, tables); err != nil {
			return nil, fmt.Errorf("%s on %s: %w", rows[i].Policy, rows[i].Workload, err)
		}
	}
	return rows, nil
}

// run simulates with the reference's settings.
func (r *SiaRow) run(data fs.FS, tables *profile.Tables) error {
	f, err := data.Open("workloads/" + r.Workload + ".csv")
	if err != nil {
		return err
	}
	defer f.Close()
	w, _, err := trace.Read(f, trace.Options{Format: "pollux", Name: r.Workload})
	if err != nil {
		return err
	}
	cfg, err := configOf(r.Policy)
	if err != nil {
		return err
	}
	if cfg.Cluster, err = sim.ParseCluster(siaCluster, ""); err != nil {
		return err
	}
	cfg.Profiles, cfg.Interval, cfg.Agent = tables, r.Interval, r.Interval
	cfg.Interference, cfg.Estimates, cfg.Optimistic = 0, sim.Exact, true
	res, _, err := sim.Run(cfg, w)
	if err != nil {
		return err
	}
	r.Ours, r.Restarts = [3]float64{res.AvgJCT, res.P99JCT, res.Makespan}, res.Restarts
	return nil
}

// PrintSia writes the comparison as a section of Markdown.
func PrintSia(w io.Writer, rows []SiaRow) {
	fmt.Fprintf(w, `
## Against the Sia artifact's simulator

The artifact's tables, two of its workloads, and its cluster %s, with the conventions of its
simulator (`+"`--profiles`, `--optimistic`"+`): rounds of 60 s for sia (p = -0.5) and of 6 minutes for gavel; training is
slower than the tables say by its calibration factors; starts take 15 to 250 s by model; a move
to GPUs of the same shape takes no time; a new job's speed is unknown until it has run; the
policy believes that a batch size may grow up to the submitted one, agents raise it up to the
model's. The artifact's code was run for gavel. For sia, the figures marked * are those of a second
implementation in Python, written after reading the artifact's code, which solves the integer
programs and fits the models with SciPy; it is not in this repository.

    fairway repro mixed --data SIA_ARTIFACT --out docs/reproduction/mixed.md

| policy | workload | reference: avg JCT, p99, makespan (s) | ours (s) | difference of avg JCT | restarts |
|---|---|---|---|---|---|
`, siaCluster)
	for _, r := range rows {
		reference, off := "not run", ""
		if r.Reference[0] > 0 {
			reference = fmt.Sprintf("%.0f, %.0f, %.0f", r.Reference[0], r.Reference[1], r.Reference[2])
			if r.Second {
				reference += " *"
			}
			off = fmt.Sprintf("%+.1f %%", 100*(r.Ours[0]/r.Reference[0]-1))
		}
		fmt.Fprintf(w, "| `%s` | %s | %s | %.0f, %.0f, %.0f | %s | %d |\n", r.Policy, r.Workload, reference, r.Ours[0], r.Ours[1], r.Ours[2], off, r.Restarts)
	}
	for i := 0; i+1 < len(rows); i += 2 {
		fmt.Fprintf(w, "\nOn %s, the average JCT of `sia` is %.2f of that of `gavel:throughput`.", rows[i].Workload, rows[i+1].Ours[0]/rows[i].Ours[0])
	}
	fmt.Fprintf(w, " The reference has %.2f on another workload of the philly family.\n", siaOverGavel)
}
