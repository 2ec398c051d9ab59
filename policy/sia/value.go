// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package sia

import (
	"math"

	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/goodput"
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
// if there is one; else by the model of another type, the one it runs on first,
// times the ratio of its speeds on both in the trials at submission; else in
// proportion to the GPUs, by the trials if there are any.
func (p *policy) goodput(j *job, o option, types []sched.GPUType, x shape) float64 {
	if j.Perf == nil {
		return float64(o.gpus)
	}
	here := types[o.gpuType]
	key := valueKey{j.Perf, here, o.gpus, max(1, (o.gpus+x.node-1)/max(1, x.node))}
	if _, ok := j.Perf.Params[string(here)]; ok {
		return p.known.of(key)
	}
	if seen, ok := j.seen(types); ok {
		key.kind = seen
		return p.known.of(key) * trial(j.Perf, here) / trial(j.Perf, seen)
	}
	return float64(o.gpus) * trial(j.Perf, here)
}

// seen returns a type that the job has a model for: where it runs, or the first of
// the cluster's.
func (j *job) seen(types []sched.GPUType) (sched.GPUType, bool) {
	if j.on >= 0 {
		if _, ok := j.Perf.Params[string(types[j.on])]; ok {
			return types[j.on], true
		}
	}
	for _, t := range types {
		if _, ok := j.Perf.Params[string(t)]; ok {
			return t, true
		}
	}
	return "", false
}

// trial returns the speed of a job's smallest measured size on a type; 1 if there
// is none.
func trial(r *goodput.Report, t sched.GPUType) float64 {
	size, speed := math.MaxInt, 1.0
	for _, s := range r.StepTimes {
		if s.Type == string(t) && s.Time > 0 && s.GPUs < size {
			size, speed = s.GPUs, 1/s.Time
		}
	}
	return speed
}
