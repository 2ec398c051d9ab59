// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"cmp"
	"slices"
	"time"

	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sim"
)

// Recorded is the label of what really happened, in a comparison of policies.
const Recorded = "as it was"

// recorded measures what happened to the jobs of the workload, as the simulator does.
// Fairness is left out: it needs the truth about jobs that have not ended.
func (c *history) recorded(p *Past, included []*jobHistory) *sim.Result {
	res := &sim.Result{
		Summary: sim.Summary{
			Policy: Recorded, Workload: p.Workload.Name, Jobs: len(included),
			Decisions: int(c.decided), Delays: []sim.Delay{},
		},
		Series: []sim.Point{},
	}
	own, err := c.cluster()
	if err != nil {
		own = p.Cluster
	}
	res.Cluster = sim.ClusterShape{Nodes: len(own.Nodes), GPUs: own.GPUs(), Racks: len(own.Racks), Types: own.Types}
	for _, s := range included {
		res.Jobs = append(res.Jobs, s.result(p.Workload.Start, c.end))
	}
	res.Summarise(c.end.Sub(p.Workload.Start).Seconds())
	res.Series = series(res.Jobs)
	return res
}

func (s *jobHistory) result(start, end time.Time) sim.JobResult {
	at := func(t time.Time) float64 { return t.Sub(start).Seconds() }
	app := s.spec.App
	if app == "" {
		app = sched.AppID(s.spec.ID)
	}
	r := sim.JobResult{
		ID: s.spec.ID, App: app, Tenant: s.spec.Tenant, Model: s.spec.Model, GPUs: s.spec.GPUs,
		Submit: at(s.spec.Submitted), Start: -1, End: -1, JCT: -1, Outcome: s.phase,
		Restarts: max(0, s.starts-1), Preemptions: s.preempts, Moves: s.moves, Failures: len(s.failures),
	}
	if s.phase == sched.Failed {
		r.Failures-- // the last attempt is the end of the job
	}
	for _, run := range s.runs {
		held := run.to.Sub(run.from).Seconds()
		r.Ran += held
		r.GPUSeconds += held * float64(run.milli) / sched.WholeGPU
		r.Runs = append(r.Runs, sim.Segment{Start: at(run.from), End: at(run.to), GPUs: run.gpus, Nodes: run.nodes})
	}
	last := end
	if s.phase.Ended() {
		last = s.ended
		r.End = at(last)
		r.JCT = r.End - r.Submit
	} else if n := len(s.runs); n > 0 && s.runs[n-1].to.Equal(end) {
		r.Outcome = sched.Running
	}
	r.Queued = at(last) - r.Submit - r.Ran
	r.Wait = at(last) - r.Submit
	if len(s.runs) > 0 {
		r.Start = at(s.runs[0].from)
		r.Wait = r.Start - r.Submit
	}
	return r
}

// series computes the state of the cluster over time from the runs of jobs.
func series(jobs []sim.JobResult) []sim.Point {
	var changes []sim.Point
	for _, j := range jobs {
		changes = append(changes, sim.Point{T: j.Submit, Queued: 1, QueuedGPUs: j.GPUs})
		for _, r := range j.Runs {
			changes = append(changes,
				sim.Point{T: r.Start, Used: r.GPUs, Running: 1, Queued: -1, QueuedGPUs: -j.GPUs},
				sim.Point{T: r.End, Used: -r.GPUs, Running: -1, Queued: 1, QueuedGPUs: j.GPUs})
		}
		if j.End >= 0 {
			changes = append(changes, sim.Point{T: j.End, Queued: -1, QueuedGPUs: -j.GPUs})
		}
	}
	slices.SortStableFunc(changes, func(a, b sim.Point) int { return cmp.Compare(a.T, b.T) })
	out := []sim.Point{}
	var now sim.Point
	for i, c := range changes {
		now.T = c.T
		now.Used += c.Used
		now.Running += c.Running
		now.Queued += c.Queued
		now.QueuedGPUs += c.QueuedGPUs
		if i+1 == len(changes) || changes[i+1].T > c.T {
			out = append(out, now)
		}
	}
	return thin(out)
}

// mostPoints bounds the length of the series.
const mostPoints = 8192

func thin(points []sim.Point) []sim.Point {
	if len(points) <= mostPoints {
		return points
	}
	stride := (len(points) + mostPoints - 1) / mostPoints
	var out []sim.Point
	for i := 0; i < len(points); i += stride {
		out = append(out, points[i])
	}
	return append(out, points[len(points)-1])
}
