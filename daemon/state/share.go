// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"fmt"
	"slices"
	"time"

	"github.com/fairway-gpu/fairway/api"
	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/goodput"
)

// A job's slowdown beside others is measured against its step time alone on its
// GPUs. Both come from its agent's reports. A report counts only if the company
// was the same at the previous one: a neighbour that came or went in between
// spoils the measurement.

// company is whether a job shared its GPUs at a report.
type company uint8

const (
	noReport company = iota
	alone
	beside // another job
)

// maxSteps bounds the kinds of steps kept for one job, maxUnits those of units of its
// work. fresh is the weight of a new value.
const (
	maxSteps = 64
	maxUnits = 32
	fresh    = 0.3
)

// companyOf returns whether others hold GPUs of a job too.
func (m *memory) companyOf(j *sched.Job) company {
	whole := !slices.ContainsFunc(j.Placement, func(s sched.Slice) bool { return s.Milli < sched.WholeGPU })
	if whole {
		return alone
	}
	for _, o := range m.state.Peek().Jobs {
		if o != j && o.ID != j.ID && overlap(o.Placement, j.Placement) {
			return beside
		}
	}
	return alone
}

func stepKind(gpuType string, s goodput.Sample) string {
	return fmt.Sprintf("%s/%d/%d/%d", gpuType, s.Nodes, s.GPUs, s.Local)
}

// measured updates the job's step time alone from a report.
func (x *entry) measured(now company, gpuType string, r *api.Record) {
	steady := x.Company == now && now == alone
	x.Company = now
	if !steady {
		return
	}
	mix := func(key string, v float64) {
		old, known := x.Steps[key]
		switch {
		case !(v > 0) || !known && len(x.Steps) >= maxSteps:
		case known:
			x.Steps[key] = old + fresh*(v-old)
		default:
			if x.Steps == nil {
				x.Steps = map[string]float64{}
			}
			x.Steps[key] = v
		}
	}
	if r.Training != nil {
		for _, s := range r.Training.Samples {
			mix(stepKind(gpuType, s), s.Step)
		}
	}
	if r.Event.Rate > 0 {
		x.mixUnit(goodput.StepTime{Type: gpuType, Nodes: len(x.Job.Placement), GPUs: x.Job.Placement.GPUs(), Batch: 1, Time: 1 / r.Event.Rate})
	}
}

// mixUnit updates the time of one unit of work.
func (x *entry) mixUnit(now goodput.StepTime) {
	i := x.unitOn(now)
	switch {
	case !(now.Time > 1e-12 && now.Time < 1e12) || i < 0 && len(x.Units) >= maxUnits:
	case i < 0:
		x.Units = append(slices.Clip(x.Units), now)
	default:
		x.Units = slices.Clone(x.Units)
		x.Units[i].Time += fresh * (now.Time - x.Units[i].Time)
	}
}

// unitOn returns the index of the time of a unit of work on the same placement; -1:
// there is none.
func (x *entry) unitOn(s goodput.StepTime) int {
	return slices.IndexFunc(x.Units, func(u goodput.StepTime) bool { return u.Type == s.Type && u.Nodes == s.Nodes && u.GPUs == s.GPUs })
}

// slowdown returns how many times longer a step takes beside others than alone, by
// a report; 0: unknown.
func (t *tx) slowdown(x *entry, r *api.AgentReport) float64 {
	now := t.mem.companyOf(x.Job)
	switch {
	case x.Company != now:
		return 0
	case now == alone && x.Job.Slowdown > 0:
		return 1 // its neighbours have left
	case now != beside:
		return 0
	}
	gpuType := t.mem.gpuType(x.Job.Placement)
	sum, n := 0.0, 0
	if r.Training != nil {
		for _, s := range r.Training.Samples {
			if base := x.Steps[stepKind(gpuType, s)]; base > 0 && s.Step > 0 {
				sum += s.Step / base
				n++
			}
		}
	}
	if n > 0 {
		return finite(sum / float64(n))
	}
	here := goodput.StepTime{Type: gpuType, Nodes: len(x.Job.Placement), GPUs: x.Job.Placement.GPUs()}
	if i := x.unitOn(here); i >= 0 && r.Rate > 0 {
		return finite(1 / r.Rate / x.Units[i].Time)
	}
	return 0
}

// gaugeUse is the measured GPU use of an attempt while no other job shared its
// GPUs. It is not stored; the attempt's exit is.
type gaugeUse struct {
	attempt, seen, n int
	util             float64
	memory           int64
	last             api.Use   // the last sample
	idle             time.Time // since when the GPUs do nothing; zero: they work
	told             bool      // that they are idle
}

// takeUse adds a sample of the GPUs to the use of the jobs on them.
func (b *Store) takeUse(use []*api.GPUUse) {
	const warmUp = 2 // samples in which a program loads and compiles
	for _, x := range b.mem.inOrder() {
		j := x.Job
		if len(j.Placement) != 1 || !b.up[api.AttemptID{Job: j.ID, Number: j.Starts}] || b.mem.companyOf(j) != alone {
			x.gauge.idle = time.Time{}
			continue
		}
		if x.gauge.attempt != j.Starts {
			x.gauge = gaugeUse{attempt: j.Starts}
		}
		if x.gauge.seen++; x.gauge.seen <= warmUp {
			continue
		}
		gpus := j.Placement[0].GPUs.Indexes()
		util, memory, complete := 0.0, int64(0), true
		for _, g := range gpus {
			if g >= len(use) || use[g] == nil {
				complete = false
				break
			}
			util += use[g].Util / float64(len(gpus))
			memory = max(memory, use[g].MemoryUsed)
		}
		x.gauge.memory = max(x.gauge.memory, memory)
		if complete {
			x.gauge.n++
			x.gauge.last = api.Use{Util: util, Memory: memory, Samples: 1}
			x.gauge.util += (util - x.gauge.util) / float64(x.gauge.n)
			if util >= idleUtil {
				x.gauge.idle = time.Time{}
			} else if x.gauge.idle.IsZero() {
				x.gauge.idle = b.now()
			}
		}
	}
}

// used returns the measured use of an attempt; nil: none.
func (x *entry) used(attempt int) *api.Use {
	if x.gauge.attempt != attempt || x.gauge.n == 0 {
		return nil
	}
	return &api.Use{Util: min(1, x.gauge.util), Memory: x.gauge.memory, Samples: x.gauge.n}
}
