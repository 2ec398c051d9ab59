// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package repro

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/plan"
	"github.com/fairway-gpu/fairway/sim"
	"github.com/fairway-gpu/fairway/sim/profile"
	"github.com/fairway-gpu/fairway/sim/trace"
)

// The base workload of the Rubick artifact on its cluster: the reference's own scheduler
// there, by its simulator.
const (
	rubickWorkload = "workloads/workload-base.csv"
	rubickCluster  = "8x8"
	rubickRound    = time.Minute
	rubickChange   = 260 * time.Second // what a change of GPUs or plan costs
	rubickJCT      = 3638
	rubickMakespan = 58680
	rubickGoal     = 0.9 // of the reference's average JCT
)

var rubickPolicies = []string{"fairway", "fairway:wait=20m:turn=3h", "pollux", "sia", "fifo:backfill", "srtf"}

// rubickOthers replay what there is no reference for, and rubickSeeds are those of workloads
// made from the jobs of the base workload.
var (
	rubickOthers = []string{"fairway", "fairway:wait=20m:turn=3h", "pollux", "fifo:backfill"}
	rubickSeeds  = []uint64{1, 2}
)

// processStart is what a start costs besides reading a checkpoint, and copies are the bytes of
// a parameter in one: weights and moments.
const processStart, copies = 30 * time.Second, 12

// RubickReplay is a workload under several policies.
type RubickReplay struct {
	Name    string
	Results []*sim.Result
	Bound   float64 // seconds that no schedule ends before
}

// Rubick replays the base workload of the Rubick artifact: as its simulator charges changes,
// with what they cost by the checkpoints of a GPU, and two workloads made from its jobs.
func Rubick(data fs.FS, memory *PlanMemory, progress func(policy string)) ([]RubickReplay, error) {
	traces, err := fs.Sub(data, "traces")
	if err != nil {
		return nil, err
	}
	tables, err := profile.ReadPlans(traces)
	if err != nil {
		return nil, err
	}
	f, err := data.Open(rubickWorkload)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	base, _, err := trace.Read(f, trace.Options{Format: trace.Rubick, Name: "workload-base"})
	if err != nil {
		return nil, err
	}
	flat := func(plan.Model, int) time.Duration { return rubickChange }
	own, err := memory.loads()
	if err != nil {
		return nil, err
	}
	replays := []struct {
		name     string
		work     *sim.Workload
		load     func(plan.Model, int) time.Duration
		policies []string
	}{
		{"base", base, flat, rubickPolicies},
		{"base, own costs", base, own, rubickOthers},
	}
	for _, seed := range rubickSeeds {
		replays = append(replays, replays[0])
		r := &replays[len(replays)-1]
		r.name, r.work, r.policies = fmt.Sprintf("drawn, seed %d", seed), redraw(base, seed), rubickOthers
	}
	var out []RubickReplay
	for _, r := range replays {
		now := RubickReplay{Name: r.name, Bound: earliestEnd(r.work, tables, r.load)}
		for _, name := range r.policies {
			if progress != nil {
				progress(r.name + ": " + name)
			}
			cfg, err := configOf(name)
			if err != nil {
				return nil, err
			}
			if cfg.Cluster, err = sim.ParseCluster(rubickCluster, ""); err != nil {
				return nil, err
			}
			cfg.Plans, cfg.Interference = tables, 0
			cfg.Interval, cfg.Agent, cfg.Load = rubickRound, rubickRound, r.load
			res, _, err := sim.Run(cfg, r.work)
			if err != nil {
				return nil, fmt.Errorf("%s: %s: %w", r.name, name, err)
			}
			now.Results = append(now.Results, res)
		}
		out = append(out, now)
	}
	return out, nil
}

// loads returns what a start costs by the checkpoint that a GPU has saved and read: each of the
// fewest GPUs of a model does so with its part.
func (m *PlanMemory) loads() (func(plan.Model, int) time.Duration, error) {
	for _, t := range m.Trials {
		if c := t.Checkpoint; c != nil {
			return func(m plan.Model, fewest int) time.Duration {
				part := copies * m.Parameters / float64(fewest) / c.Bytes
				return processStart + time.Duration(part*(c.Save+c.Read)*float64(time.Second)).Round(time.Second)
			}, nil
		}
	}
	return nil, errors.New("no trial of the memory of plans has a checkpoint; want one that says how long it took")
}

// redraw returns a workload of as many jobs at the same times, each drawn from all of them.
func redraw(w *sim.Workload, seed uint64) *sim.Workload {
	out := *w
	out.Name, out.Work = fmt.Sprintf("%s-%d", w.Name, seed), slices.Clone(w.Work)
	draw := rand.New(rand.NewPCG(seed, 0))
	for i := range out.Work {
		at := out.Work[i].Submitted
		out.Work[i] = w.Work[draw.IntN(len(w.Work))]
		out.Work[i].Submitted, out.Work[i].ID = at, sched.JobID(fmt.Sprintf("%s-%d", out.Work[i].Model, i))
	}
	return &out
}

// earliestEnd returns a time before which no schedule of these tables ends: jobs keep all GPUs busy
// from some submission on, even if each is started once and at the size at which it needs the fewest
// GPU seconds.
func earliestEnd(w *sim.Workload, tables *profile.Plans, load func(plan.Model, int) time.Duration) (bound float64) {
	gpus := 0.0
	if c, err := sim.ParseCluster(rubickCluster, ""); err == nil {
		gpus = float64(c.GPUs())
	}
	work := 0.0 // GPU seconds of the jobs so far, from the last one backwards
	for _, job := range slices.Backward(w.Work) {
		m, ok := tables.Model(job.Model)
		if !ok {
			continue
		}
		least := math.Inf(1)
		for _, s := range m.Samples {
			least = min(least, (load(m.Model, s.At.GPUs).Seconds()+job.Steps*s.Step)*float64(s.At.GPUs))
		}
		work += least
		bound = max(bound, job.Submitted.Sub(w.Start).Seconds()+work/gpus)
	}
	return bound
}

// PrintRubick writes the comparison as a section of Markdown.
func PrintRubick(w io.Writer, replays []RubickReplay) {
	fmt.Fprintf(w, `
## The Rubick artifact's base workload

%d jobs on %s GPUs, rounds of %.0f s, %.0f s for each start and each change of GPUs or plan. The
reference is the artifact's own scheduler in its simulator; whether it charges the first start of a job
is not known, here it costs as much as any other. Policies with agents begin with the profiling above
and learn from the steps of all jobs of a model; `+"`fifo:backfill` and `srtf`"+` run each job under its
user's plan at the size it asked for. A step that was not measured on a placement is that of the model
fitted to all measurements. For the other workloads there is no reference. "own costs": a start takes %.0f s and, for each of the fewest
GPUs that the model runs on, a save and a read of its part of weights and moments at the speed of the H200 above. "drawn": at each
submission one of the jobs of the base workload, at random. "no sooner than": so long would the jobs from some submission on keep all GPUs busy
if each was started once, at the measured size at which it needs the fewest GPU seconds.

| workload | policy | avg JCT (s) | makespan (s) | against the reference | no sooner than (s) | restarts | starts measured, fitted | plan changes in place |
|---|---|---|---|---|---|---|---|---|
| base | reference | %d | %d | | %.0f | | | |
`, len(replays[0].Results[0].Jobs), rubickCluster, rubickRound.Seconds(), rubickChange.Seconds(), processStart.Seconds(), rubickJCT, rubickMakespan, replays[0].Bound)
	var jct, makespan []string
	for i, replay := range replays {
		for _, r := range replay.Results {
			against := ""
			if i == 0 {
				against = fmt.Sprintf("%+.1f %%, %+.1f %%", 100*(r.AvgJCT/rubickJCT-1), 100*(r.Makespan/rubickMakespan-1))
				if r.AvgJCT <= rubickGoal*rubickJCT {
					jct = append(jct, "`"+r.Label()+"`")
				}
				if r.Makespan <= rubickMakespan {
					makespan = append(makespan, "`"+r.Label()+"`")
				}
			}
			fmt.Fprintf(w, "| %s | `%s` | %.0f | %.0f | %s | %.0f | %d | %d, %d | %d |\n", replay.Name, r.Label(), r.AvgJCT, r.Makespan, against, replay.Bound,
				r.Restarts, r.Plans.Measured, r.Plans.Fitted, r.Plans.Changed)
		}
	}
	fmt.Fprintf(w, `
The goal is an average JCT of at most %.0f s, a tenth below the reference, and no longer makespan on the base workload. The first is
reached by: %s. The second: %s. The base workload was used to write rules of `+"`fairway`"+` for jobs with plans
(package policy/fairway); workloads drawn in the same way helped to choose among variants.
`, rubickGoal*rubickJCT, noneOr(jct), noneOr(makespan))
}

// noneOr lists names.
func noneOr(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}
