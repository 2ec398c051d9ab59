// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/goodput"
)

// Limits on what is kept of one job's reports.
const (
	maxPoints = 360
	// maxSamples bounds the samples of different placement and batch size that are
	// kept for one GPU type.
	maxSamples = 500
)

func (x *entry) reported(r *api.Record, was *sched.Job, gpuType string) {
	x.Complete = x.Complete || r.Complete
	if len(r.Links) > 0 {
		x.Links = r.Links
	}
	x.Reported = r.Event.Done
	if r.SaveFailed != "" || !r.Event.SaveFailed {
		x.SaveFailed = r.SaveFailed
	}
	if r.Restored != nil {
		x.Restored = was.Starts
		x.foundLess(was.CheckpointedWork - *r.Restored)
	}
	x.Shown = max(x.Shown, r.Event.Can)
	if r.Restored != nil && *r.Restored > 0 && was.Starts > 1 {
		x.Resumed = x.Shown
	}
	if r.Event.Rate > 0 {
		x.Rate, x.RateGPUs = r.Event.Rate, max(1, was.Placement.GPUs())
	}
	if r.Point != nil {
		x.Losses = x.withLoss(r.Point, r.Training)
		x.addPoint(*r.Point)
		if w := r.Point.Work; w > 0 {
			x.Work = w
		}
	}
	t := r.Training
	if t == nil {
		return
	}
	if len(t.Samples) > 0 && x.Task.Plans == nil { // what it measures under a plan is in its report
		if x.Profiles == nil {
			x.Profiles = map[string]*goodput.Profile{}
		}
		if x.Profiles[gpuType] == nil {
			x.Profiles[gpuType] = &goodput.Profile{}
		}
		addSamples(x.Profiles[gpuType], t.Samples)
	}
	last := *t
	last.Samples = nil
	x.Training = &last
}

// reports reports whether an agent of the job has reported its training.
func (x *entry) reports() bool { return x.Training != nil || len(x.Points) > 0 }

// stepped reports whether a report of the running attempt shows that it trains: it has
// more than it began with or, if it counts no work, something to say about it.
func (x *entry) stepped(r *api.Record) bool {
	began := x.Reported
	if r.Restored != nil {
		began = *r.Restored
	}
	p := r.Point
	return r.Event.Done > began || r.Event.Done == 0 && p != nil && (p.Loss != nil || len(p.Metrics) > 0)
}

// addSamples adds samples to a profile. When the profile is full, samples of a new
// kind are dropped, so that a job cannot exhaust the memory.
func addSamples(p *goodput.Profile, samples []goodput.Sample) {
	type kind struct{ nodes, gpus, local int }
	known := map[kind]bool{}
	for _, s := range p.Samples() {
		known[kind{s.Nodes, s.GPUs, s.Local}] = true
	}
	for _, s := range samples {
		k := kind{s.Nodes, s.GPUs, s.Local}
		if !known[k] && len(known) >= maxSamples {
			continue
		}
		// Samples are validated before they are recorded; one that the profile refuses
		// leaves the model unchanged.
		if p.Add(s) == nil {
			known[k] = true
		}
	}
}

// addPoint keeps at most maxPoints: when there are more, it drops every other
// point of the older half.
func (x *entry) addPoint(p api.Point) {
	x.Points = append(x.Points, p)
	if len(x.Points) <= maxPoints {
		return
	}
	kept := x.Points[:0]
	for i, q := range x.Points {
		if i >= maxPoints/2 || i%2 == 0 {
			kept = append(kept, q)
		}
	}
	x.Points = kept
}
