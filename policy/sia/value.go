// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package sia

import (
	"math"
	"slices"

	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/goodput"
	"github.com/fairway-gpu/fairway/sched/num"
)

// valueKey identifies a prediction. Reports are immutable, so the address suffices.
type valueKey struct {
	report      *goodput.Report
	kind        sched.GPUType
	gpus, nodes int
}

// values caches predictions, each of which costs a search over batch sizes. Those
// that a decision did not use are dropped with the next.
type values struct {
	now, last map[valueKey]float64
}

func (v *values) turn() { v.last, v.now = v.now, make(map[valueKey]float64, len(v.now)) }

// of returns the goodput of a report on a type that it has a model for.
func (v *values) of(key valueKey) float64 {
	if g, ok := v.now[key]; ok {
		return g
	}
	g, ok := v.last[key]
	if !ok {
		_, g, _ = key.report.Goodput(string(key.kind), goodput.Shape{Nodes: key.nodes, GPUs: key.gpus})
		if !(g > 0) || math.IsInf(g, 1) {
			g = 0
		}
	}
	v.now[key] = g
	return g
}

// goodput predicts the goodput of a job with an option: by the model for the type,
// if there is one; else by the model of the first type that has one, for as many
// replicas packed on its nodes, times the ratio of the job's speeds on both in the
// trials; else in proportion to the replicas, by the trials if there are any.
func (p *policy) goodput(j *job, o option, types []sched.GPUType, shapes []shape) float64 {
	if j.Perf == nil {
		return float64(o.gpus)
	}
	here := types[o.gpuType]
	replicas := o.gpus / j.Perf.Unit(string(here))
	value := func(t int) float64 {
		gpus := replicas * j.Perf.Unit(string(types[t]))
		return p.known.of(valueKey{j.Perf, types[t], gpus, num.CeilDiv(gpus, max(1, shapes[t].node))})
	}
	seen := slices.IndexFunc(types, func(t sched.GPUType) bool { return j.Perf.Models(string(t)) })
	switch {
	case j.Perf.Models(string(here)):
		return value(o.gpuType)
	case seen >= 0:
		return value(seen) * trial(j.Perf, here) / trial(j.Perf, types[seen])
	}
	return float64(replicas) * trial(j.Perf, here)
}

// trial returns the speed, in examples, of a job's smallest measured size on a type; 1
// if there is none.
func trial(r *goodput.Report, t sched.GPUType) float64 {
	size, speed := math.MaxInt, 1.0
	for _, s := range r.StepTimes {
		if s.Type == string(t) && s.Time > 0 && s.GPUs < size {
			size, speed = s.GPUs, float64(max(1, s.Batch))/s.Time
		}
	}
	return speed
}
