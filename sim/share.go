// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"slices"

	"github.com/fairway-gpu/fairway/policy/interfere"
	"github.com/fairway-gpu/fairway/sched"
)

// Sharing says how much jobs that share a GPU really slow each other down. Policies
// see the predicted utilisation; the truth follows from Work.TrueUtil.
type Sharing struct {
	// Model of the truth. Nil: that of each GPU type where it was measured, and the
	// published curve elsewhere.
	Model *interfere.Model
	Mode  interfere.Mode
	// Scatter makes the measured pairs of a GPU type the truth. Two jobs whose models
	// and batch sizes were measured together are slowed by what was measured. Others
	// are slowed as the model says, times the factor by which one of the measured
	// pairs with similar utilisations differs from it; in one run, the same group
	// always by the same factor. Where no pair was measured, or with a Model, the
	// factor is drawn from the model's scatter.
	Scatter bool
}

// published is the default of Config.Sharing: the published curve, without scatter.
func published() *Sharing { return &Sharing{Model: interfere.Published()} }

// trueUtil is the utilisation of a job's GPUs when it runs alone; if unknown,
// Philly's mean.
func (w *Work) trueUtil() float64 {
	switch {
	case w.TrueUtil > 0:
		return w.TrueUtil
	case w.GPUUtil > 0:
		return w.GPUUtil
	}
	return 0.52
}

// shared returns the slowdown of a job whose GPUs are shared: that of the slowest
// GPU, for which the others wait. shares says whether another job is on any of them.
func (r *run) shared(j *job) (slowdown float64, shares bool) {
	slowdown = 1
	for _, s := range j.setting.placement {
		for g := s.GPUs; g != 0; g &= g - 1 {
			others := r.beside(j, s.Node, g&-g)
			if len(others) == 0 {
				continue
			}
			shares = true
			slowdown = max(slowdown, r.slowed(j, others))
		}
	}
	return slowdown, shares
}

// beside returns the other jobs on a GPU, in order of submission.
func (r *run) beside(j *job, node int32, gpu sched.GPUSet) []*job {
	var others []*job
	for _, other := range r.neighbours.onNode[node] {
		if other == j {
			continue
		}
		for _, o := range other.setting.placement {
			if o.Node == node && o.GPUs&gpu != 0 {
				others = append(others, other)
			}
		}
	}
	slices.SortFunc(others, func(a, b *job) int { return a.result - b.result })
	return others
}

// slowed returns the true slowdown of a job that shares a GPU with others.
func (r *run) slowed(j *job, others []*job) float64 {
	seed := mix(r.Seed, uint64(j.result)+1)
	for _, other := range others {
		seed = mix(seed, uint64(other.result)+1)
	}
	slowdown, known := r.slowdowns[seed]
	if !known {
		var measured bool
		slowdown, measured = r.trueSlowdown(j, others, seed)
		r.record.usage.count(measured)
		if r.slowdowns == nil {
			r.slowdowns = map[uint64]float64{}
		}
		r.slowdowns[seed] = slowdown
	}
	return r.coordinated(j, others, slowdown, seed)
}

// trueSlowdown returns the slowdown of a job beside others: what was measured, if it was.
func (r *run) trueSlowdown(j *job, others []*job, seed uint64) (slowdown float64, measured bool) {
	if times, ok := r.slowedPair(j, others); ok {
		return max(1, times), true
	}
	own := interfere.Load{Util: j.work.trueUtil()}
	loads := make([]interfere.Load, len(others))
	busy := 0.0
	for i, other := range others {
		loads[i].Util = other.work.trueUtil()
		busy += loads[i].Util
	}
	m, mode, table := r.sharingOn(j.setting.gpuType), r.Sharing.Mode, r.pairsOn(j.setting.gpuType)
	switch {
	case !r.Sharing.Scatter:
		return m.Slowdown(mode, own, loads).Mean, false
	case table == nil:
		return m.Truth(mode, own, loads, seed), false
	}
	if len(others) == 1 {
		if s, ok := table.measured(j.work, others[0].work); ok {
			return max(1, s), true
		}
	}
	own.Step = table.steps[j.work.key()]
	for i, other := range others {
		loads[i].Step = table.steps[other.work.key()]
	}
	return max(1, m.Slowdown(mode, own, loads).Mean*table.ratioNear(own.Util, min(1, busy), seed)), false
}

// sharingOn returns the model of a GPU type.
func (r *run) sharingOn(t sched.GPUType) *interfere.Model {
	if r.Sharing.Model != nil {
		return r.Sharing.Model
	}
	m, ok := r.sharing[t]
	if !ok {
		var err error
		if m, err = interfere.Default(string(t)); err != nil {
			m = interfere.Published() // a test of package interfere reads every built-in model
		}
		if r.sharing == nil {
			r.sharing = map[sched.GPUType]*interfere.Model{}
		}
		r.sharing[t] = m
	}
	return m
}

// mix combines a seed and a number into a new seed.
func mix(seed, x uint64) uint64 {
	h := (seed ^ x) * 0x9e3779b97f4a7c15
	h ^= h >> 29
	return h * 0xbf58476d1ce4e5b9
}
