// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package experience

import (
	"math"
	"slices"

	"github.com/fairway-gpu/fairway/sched/goodput"
)

// guard counts measurements that contradict a prior.
type guard struct {
	off, gross float64 // factors
	left       int     // strikes left; 0: the prior is dropped
}

// see counts a measurement that is outside the expected range by a factor of 1 or
// more.
func (g *guard) see(factor float64) {
	switch {
	case factor > g.gross:
		g.left = 0
	case factor > g.off:
		g.left--
	}
}

// outside returns the factor by which x is outside a range of positive numbers; 1: it
// is inside.
func outside(x, low, high float64) float64 {
	switch {
	case x < low:
		return low / x
	case x > high:
		return x / high
	}
	return 1
}

// Check compares a new measurement of the job with what past jobs measured, and
// reports whether the prior is dropped, now or earlier. It must see every
// measurement, not the running mean, which hides a contradiction.
//
// model, if not nil, is fitted to the samples of the prior (Profile of an empty own
// profile). A step is compared with the prior's sample for the same placement and
// batch; if there is none, with the model; and without a model only the gradient time
// is compared, with the range that follows from the sample of the nearest local
// batch: it grows with the batch, but not faster. The exchange of gradients is not
// compared for kinds of placement (one node, or several) that past jobs did not have.
func (p *Prior) Check(gpuType string, s goodput.Sample, model *goodput.Params) (dropped bool) {
	if p.Dropped() {
		return true
	}
	past := p.record.Samples[gpuType]
	if len(past) == 0 || s.Validate() != nil {
		return false
	}
	if same, ok := sampleAt(past, s); ok {
		p.speed.see(outside(s.Step, same.Step, same.Step))
		return p.Dropped()
	}
	local := float64(s.Local)
	switch {
	case model == nil:
		low, high := gradRange(past, s.Local)
		p.speed.see(outside(s.Grad(), low, high))
	case slices.ContainsFunc(past, func(o goodput.Sample) bool { return exchange(o) == exchange(s) }):
		expected := model.Step(goodput.Shape{Nodes: s.Nodes, GPUs: s.GPUs}, local)
		p.speed.see(outside(s.Step, expected, expected))
	default:
		p.speed.see(outside(s.Grad(), model.Grad(local), model.Grad(local)))
	}
	return p.Dropped()
}

// CheckNoise compares a measured noise scale with that of past jobs. After too many
// contradictions only the prior's noise scale is dropped: the same model on other
// data computes just as fast.
func (p *Prior) CheckNoise(frac, measured float64) (dropped bool) {
	if past, ok := p.expectedNoise(frac); ok && !math.IsNaN(measured) {
		p.noise.see(outside(clip(measured), past, past))
	}
	return p.Dropped() || p.noise.left <= 0
}

// sampleAt returns the sample for the placement and batch of s.
func sampleAt(samples []goodput.Sample, s goodput.Sample) (goodput.Sample, bool) {
	i, ok := slices.BinarySearchFunc(samples, s, compareShape)
	if !ok {
		return goodput.Sample{}, false
	}
	return samples[i], true
}

// gradRange returns the bounds of the gradient time of a local batch, given at least
// one sample. A gradient has a constant part and one that grows with the batch: k
// times the batch takes between 1 and k times as long.
func gradRange(samples []goodput.Sample, local int) (low, high float64) {
	steps := func(s goodput.Sample) float64 { return math.Abs(math.Log2(float64(local) / float64(s.Local))) }
	near := samples[0]
	for _, s := range samples[1:] {
		if steps(s) < steps(near) {
			near = s
		}
	}
	grad := near.Grad()
	scaled := grad * float64(local) / float64(near.Local)
	return min(grad, scaled), max(grad, scaled)
}

// exchange returns the kind of gradient exchange: none, within a node, or between
// nodes.
func exchange(s goodput.Sample) int {
	switch {
	case s.GPUs == 1:
		return 0
	case s.Nodes == 1:
		return 1
	}
	return 2
}
