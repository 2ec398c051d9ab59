// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package optimus

import (
	"slices"

	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/goodput"
)

// fit is what the original form derives from a report.
type fit struct {
	report  *goodput.Report // immutable, so its address identifies its content
	gpuType sched.GPUType   // whose step times were used; "": all

	known bool // the speed is known
	speed Speed
	left  float64 // steps to convergence
}

// fits caches the fits of jobs.
type fits map[sched.JobID]*fit

// prune clears the cache when most of it belongs to jobs that have ended.
func (f fits) prune(jobs int) {
	if len(f) > 2*jobs+100 {
		clear(f)
	}
}

// of returns the fit of a job that has reported.
func (f fits) of(s *sched.Snapshot, j *sched.Job) *fit {
	var t sched.GPUType
	if j.Phase == sched.Running {
		t = s.Cluster.Nodes[j.Placement[0].Node].Type
	}
	old := f[j.ID]
	if old != nil && old.report == j.Perf && old.gpuType == t {
		return old
	}
	next := &fit{report: j.Perf, gpuType: t}
	switch next.speed, next.known = FitSpeed(samples(j.Perf, t)); {
	case !next.known:
	case old != nil && old.known && sameLosses(old.report, j.Perf): // much cheaper than a fit
		next.left = old.left
	default:
		next.left = stepsLeft(j.Perf)
	}
	f[j.ID] = next
	return next
}

func sameLosses(a, b *goodput.Report) bool {
	return a.Stop == b.Stop && slices.Equal(a.Losses, b.Losses)
}

// samples returns the measured step times on a GPU type, or on all types if there
// are none.
func samples(r *goodput.Report, t sched.GPUType) []Sample {
	all := !slices.ContainsFunc(r.StepTimes, func(x goodput.StepTime) bool { return x.Type == string(t) && !x.Borrowed })
	out := make([]Sample, 0, len(r.StepTimes))
	for _, x := range r.StepTimes {
		if (all || x.Type == string(t)) && !x.Borrowed {
			out = append(out, Sample{Workers: x.GPUs, StepTime: x.Time})
		}
	}
	return out
}

// stepsLeft returns the steps from the last loss to the end: to convergence, if there
// is a rule for it. A job with too few losses for a curve is assumed to converge as
// soon as its rule allows.
func stepsLeft(r *goodput.Report) float64 {
	done := 0.0
	for _, p := range r.Losses {
		done = max(done, p.Step)
	}
	stop := r.Stop
	end, rule := float64(stop.Epochs)*stop.Epoch, stop.Fall > 0 && stop.Epoch > 0
	if rule {
		if loss, ok := FitLoss(r.Losses); ok {
			end = loss.Steps(stop)
		}
	}
	if stop.Steps > 0 && (!rule || stop.Steps < end) {
		end = stop.Steps
	}
	return end - done
}
