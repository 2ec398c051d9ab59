// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package repro

import (
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"math"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/fairway-gpu/fairway/policy"
	"github.com/fairway-gpu/fairway/profile"
	"github.com/fairway-gpu/fairway/sim"
	"github.com/fairway-gpu/fairway/trace"
	"github.com/fairway-gpu/fairway/zoo"
)

// maxSummary bounds the size of a file with reference results.
const maxSummary = 16 << 20

// realisticJCT is the average JCT in seconds that the reference simulator gives
// for Tiresias on the realistic workloads. They are not among its shipped
// results; these are from running it.
var realisticJCT = map[string]float64{"workload-1": 6565.3, "workload-3": 7297.2, "workload-6": 7731.1}

// TiresiasRow compares one workload.
type TiresiasRow struct {
	Folder, Workload string
	Jobs             int
	Reference, Ours  float64 // average JCT in seconds
	// PerJob is the mean over jobs of |ours - reference| / reference, and Same
	// the number of jobs within 1 %; only where the reference has single jobs.
	PerJob float64
	Same   int
	HasJob bool
	Wall   time.Duration
}

// Error returns how far our average is off.
func (r TiresiasRow) Error() float64 { return r.Ours/r.Reference - 1 }

// tiresiasSets are the folders of workloads and of the reference's results.
var tiresiasSets = []struct{ workloads, results string }{
	{"workloads-0.5", "results-jobload/tiresias-0.5"},
	{"workloads", "results-jobload/tiresias-1.0"},
	{"workloads-1.5", "results-jobload/tiresias-1.5"},
	{"workloads-2.0", "results-jobload/tiresias-2.0"},
	{"workloads-realistic", ""},
}

// Tiresias replays every workload of a Pollux artifact under tiresias, with the
// measured profiles, 60 s rounds and 16 nodes of 4 GPUs, and compares the
// average JCT with the reference simulator's. elapsed is a stopwatch.
func Tiresias(data fs.FS, elapsed func() time.Duration) ([]TiresiasRow, error) {
	traces, err := fs.Sub(data, "traces")
	if err != nil {
		return nil, err
	}
	tables, err := profile.Read(traces)
	if err != nil {
		return nil, fmt.Errorf("read profiles: %w", err)
	}
	z, err := zoo.Builtin()
	if err != nil {
		return nil, err
	}
	var rows []TiresiasRow
	for _, set := range tiresiasSets {
		files, err := fs.Glob(data, set.workloads+"/workload-*.csv")
		if err != nil {
			return nil, err
		}
		slices.Sort(files)
		reference, err := readReference(data, set.results)
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			row := TiresiasRow{Folder: set.workloads, Workload: strings.TrimSuffix(path.Base(file), ".csv")}
			before := elapsed()
			res, err := replay(data, file, tables, z)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", file, err)
			}
			row.Wall = elapsed() - before
			row.Jobs, row.Ours = len(res.Jobs), res.AvgJCT
			row.compare(res, reference[row.Workload])
			rows = append(rows, row)
		}
	}
	if len(rows) == 0 {
		return nil, fmt.Errorf("no workloads*/workload-N.csv in the data folder; want the layout of the Pollux artifact")
	}
	return rows, nil
}

func readReference(data fs.FS, folder string) (map[string]map[string]float64, error) {
	if folder == "" {
		return nil, nil
	}
	name := path.Join(folder, "summary.json")
	f, err := data.Open(name)
	if err != nil {
		return nil, fmt.Errorf("read reference results: %w", err)
	}
	defer f.Close()
	var summary struct {
		JCTs map[string]map[string]float64 `json:"jcts"`
	}
	if err := json.NewDecoder(io.LimitReader(f, maxSummary)).Decode(&summary); err != nil {
		return nil, fmt.Errorf("read reference results %s: %w", name, err)
	}
	return summary.JCTs, nil
}

func replay(data fs.FS, file string, tables *profile.Tables, z *zoo.Zoo) (*sim.Result, error) {
	f, err := data.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	w, _, err := trace.Read(f, trace.Options{Format: "pollux", Name: path.Base(file)})
	if err != nil {
		return nil, err
	}
	cluster, err := sim.ParseCluster("16x4", "t4")
	if err != nil {
		return nil, err
	}
	p, err := policy.Builtin().New("tiresias")
	if err != nil {
		return nil, err
	}
	res, _, err := sim.Run(sim.Config{
		Cluster: cluster, Policy: p, Name: "tiresias", Zoo: z, Profiles: tables, Interval: time.Minute,
	}, w)
	return res, err
}

// compare sets the reference beside our result.
func (r *TiresiasRow) compare(res *sim.Result, jobs map[string]float64) {
	if jobs == nil {
		r.Reference = realisticJCT[r.Workload]
		return
	}
	r.HasJob = true
	for i := range res.Jobs {
		j := &res.Jobs[i]
		want := jobs[string(j.ID)]
		r.Reference += want / float64(len(res.Jobs))
		off := math.Abs(j.JCT-want) / want
		r.PerJob += off / float64(len(res.Jobs))
		if off <= 0.01 {
			r.Same++
		}
	}
}

// PrintTiresias writes the comparison as Markdown.
func PrintTiresias(w io.Writer, rows []TiresiasRow) {
	fmt.Fprint(w, `# Tiresias against the reference simulator

Our simulator with measured profiles, 60 s rounds, 16 nodes of 4 T4 GPUs, policy
`+"`tiresias`"+` with its defaults (two queues, 16 GPU-hours, no promotion), beside the
simulator of the Pollux artifact (OSDI'21) on its own workloads. The
reference's figures for single jobs are its shipped results; those of the
realistic workloads come from running it.

    fairway repro tiresias --data POLLUX_ARTIFACT

| workload | jobs | reference avg JCT (s) | ours (s) | off | jobs within 1 % | mean off per job |
|---|---|---|---|---|---|---|
`)
	worst := 0.0
	var wall time.Duration
	for _, r := range rows {
		same, per := "-", "-"
		if r.HasJob {
			same = fmt.Sprintf("%d", r.Same)
			per = fmt.Sprintf("%.1f %%", 100*r.PerJob)
		}
		fmt.Fprintf(w, "| %s/%s | %d | %.1f | %.1f | %+.2f %% | %s | %s |\n",
			r.Folder, r.Workload, r.Jobs, r.Reference, r.Ours, 100*r.Error(), same, per)
		worst = max(worst, math.Abs(r.Error()))
		wall += r.Wall
	}
	fmt.Fprintf(w, "\nLargest difference of an average: %.2f %%.\n", 100*worst)
}
