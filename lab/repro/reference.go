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

	"github.com/fairway-gpu/fairway/sim"
	"github.com/fairway-gpu/fairway/sim/profile"
	"github.com/fairway-gpu/fairway/sim/trace"
)

// maxSummary bounds the size of a file with reference results.
const maxSummary = 16 << 20

// realisticJCT is the average JCT in seconds that the reference simulator gives
// on the realistic workloads, by policy and workload. The artifact does not
// contain these results; we ran its simulator.
var realisticJCT = map[string]map[string]float64{
	"tiresias": {"workload-1": 6565.3, "workload-3": 7297.2, "workload-6": 7731.1},
	"optimus":  {"workload-1": 5635.3, "workload-3": 8100.3, "workload-6": 6685.3},
}

// ReferenceTiresias is Tiresias as in the reference simulator, which scatters every job.
const ReferenceTiresias = "tiresias:placement=most-free"

// ReferenceRow compares one policy on one workload.
type ReferenceRow struct {
	Policy           string
	Folder, Workload string
	Jobs             int
	Reference, Ours  float64 // average JCT in seconds; Reference 0: unknown
	// PerJob is the mean over jobs of |ours - reference| / reference, and Same
	// the number of jobs within 1 %; only if the reference has per-job results.
	PerJob float64
	Same   int
	HasJob bool
	Result *sim.Result
	Wall   time.Duration
}

// Error returns the relative error of our average.
func (r ReferenceRow) Error() float64 { return r.Ours/r.Reference - 1 }

// loads are the folders of workloads, and the suffixes of the folders with the
// reference's results.
var loads = []struct{ workloads, results string }{
	{"workloads-0.5", "0.5"},
	{"workloads", "1.0"},
	{"workloads-1.5", "1.5"},
	{"workloads-2.0", "2.0"},
	{"workloads-realistic", ""},
}

// Artifact is the Pollux artifact: measured profiles, workloads, and the
// results of its simulator.
type Artifact struct {
	data   fs.FS
	tables *profile.Tables
}

// OpenArtifact reads the profiles of a Pollux artifact.
func OpenArtifact(data fs.FS) (*Artifact, error) {
	traces, err := fs.Sub(data, "traces")
	if err != nil {
		return nil, err
	}
	tables, err := profile.Read(traces)
	if err != nil {
		return nil, fmt.Errorf("read profiles: %w", err)
	}
	return &Artifact{data, tables}, nil
}

// Compare replays every workload under the policy, with the measured profiles,
// 60 s rounds and 16 nodes of 4 GPUs, and compares the average JCT with the
// reference simulator's. elapsed is a stopwatch. If folders are given, only their
// workloads are replayed.
func (a *Artifact) Compare(spec string, elapsed func() time.Duration, folders ...string) ([]ReferenceRow, error) {
	name, _, _ := strings.Cut(spec, ":")
	var rows []ReferenceRow
	for _, load := range loads {
		if len(folders) > 0 && !slices.Contains(folders, load.workloads) {
			continue
		}
		files, err := fs.Glob(a.data, load.workloads+"/workload-*.csv")
		if err != nil {
			return nil, err
		}
		slices.Sort(files)
		reference, err := a.results(name, load.results)
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			row := ReferenceRow{Policy: spec, Folder: load.workloads, Workload: strings.TrimSuffix(path.Base(file), ".csv")}
			before := elapsed()
			if row.Result, err = a.Replay(Run{Workload: file, Policy: spec}); err != nil {
				return nil, fmt.Errorf("%s: %w", file, err)
			}
			row.Wall = elapsed() - before
			row.Jobs, row.Ours = len(row.Result.Jobs), row.Result.AvgJCT
			row.compare(name, reference[row.Workload])
			rows = append(rows, row)
		}
	}
	if len(rows) == 0 {
		return nil, fmt.Errorf("no workloads*/workload-N.csv in the data folder; want the layout of the Pollux artifact")
	}
	return rows, nil
}

func (a *Artifact) results(policy, load string) (map[string]map[string]float64, error) {
	if load == "" {
		return nil, nil
	}
	return a.summary(fmt.Sprintf("results-jobload/%s-%s", policy, load))
}

// summary reads the artifact's results: JCT in seconds by workload and job.
func (a *Artifact) summary(folder string) (map[string]map[string]float64, error) {
	name := folder + "/summary.json"
	f, err := a.data.Open(name)
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

// Run is one replay of a workload of the artifact.
type Run struct {
	Workload     string // file in the artifact
	Policy       string
	Interval     time.Duration // 0: 60 s
	Interference float64
	Noise        float64 // of what agents measure
	Full         bool    // without the reference's simplifications
	Checkpoint   time.Duration
	Watch        func(sim.Watched)
}

// Replay simulates one run with the reference's settings.
func (a *Artifact) Replay(r Run) (*sim.Result, error) {
	f, err := a.data.Open(r.Workload)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	w, _, err := trace.Read(f, trace.Options{Format: "pollux", Name: path.Base(r.Workload)})
	if err != nil {
		return nil, err
	}
	return a.simulate(r, w)
}

func (a *Artifact) simulate(r Run, w *sim.Workload) (*sim.Result, error) {
	cluster, err := sim.ParseCluster("16x4", "t4")
	if err != nil {
		return nil, err
	}
	cfg, err := configOf(r.Policy)
	if err != nil {
		return nil, err
	}
	if r.Interval == 0 {
		r.Interval = time.Minute
	}
	cfg.Cluster, cfg.Profiles, cfg.Interval, cfg.Agent = cluster, a.tables, r.Interval, r.Interval
	cfg.Interference, cfg.Noise, cfg.Watch, cfg.Checkpoint = r.Interference, r.Noise, r.Watch, r.Checkpoint
	cfg.Estimates, cfg.Optimistic = sim.Exact, !r.Full // as in the reference
	res, _, err := sim.Run(cfg, w)
	return res, err
}

// compare adds the reference's figures.
func (r *ReferenceRow) compare(policy string, jobs map[string]float64) {
	if jobs == nil {
		r.Reference = realisticJCT[policy][r.Workload]
		return
	}
	r.HasJob = true
	for i := range r.Result.Jobs {
		j := &r.Result.Jobs[i]
		want := jobs[string(j.ID)]
		r.Reference += want / float64(r.Jobs)
		off := math.Abs(j.JCT-want) / want
		r.PerJob += off / float64(r.Jobs)
		if off <= 0.01 {
			r.Same++
		}
	}
}

// PrintTiresias writes the comparison as Markdown.
func PrintTiresias(w io.Writer, rows []ReferenceRow) {
	fmt.Fprint(w, `# Tiresias against the reference simulator

Our simulator with measured profiles, 60 s rounds, 16 nodes of 4 T4 GPUs and policy
`+"`tiresias:placement=most-free`"+` (two queues, 16 GPU-hours, no promotion), compared with the
simulator of the Pollux artifact (OSDI'21) on the artifact's workloads. The reference figures
are the results that the artifact contains; for the realistic workloads we ran its
simulator. `+"`tiresias`"+` uses no estimates of run times. As in the reference, every start costs
30 s and no preemption loses work (`+"`--optimistic`"+`); [pollux.md](pollux.md) says what changes otherwise.
The reference scatters every job over the nodes with the most free GPUs. By default
`+"`tiresias`"+` consolidates ncf, as the paper's profiler would, which changes an average by up to
0.5 %.

    fairway repro tiresias --data POLLUX_ARTIFACT

| workload | jobs | reference avg JCT (s) | ours (s) | difference | jobs within 1 % | mean difference per job |
|---|---|---|---|---|---|---|
`)
	worst := 0.0
	for _, r := range rows {
		same, per := "-", "-"
		if r.HasJob {
			same = fmt.Sprintf("%d", r.Same)
			per = fmt.Sprintf("%.1f %%", 100*r.PerJob)
		}
		fmt.Fprintf(w, "| %s/%s | %d | %.1f | %.1f | %+.2f %% | %s | %s |\n",
			r.Folder, r.Workload, r.Jobs, r.Reference, r.Ours, 100*r.Error(), same, per)
		worst = max(worst, math.Abs(r.Error()))
	}
	fmt.Fprintf(w, "\nLargest difference of an average JCT: %.2f %%.\n", 100*worst)
}
