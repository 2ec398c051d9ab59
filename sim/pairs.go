// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"math"

	"github.com/fairway-gpu/fairway/policy/interfere"
	"github.com/fairway-gpu/fairway/policy/interfere/learn"
	"github.com/fairway-gpu/fairway/sched"
)

// pairTable is what was measured of pairs of jobs on a type of GPU in one mode.
type pairTable struct {
	slowdown map[[2]learn.Key]float64 // of the first, beside the second
	steps    map[learn.Key]float64    // seconds of a step alone
	off      []deviation
}

// deviation is how far a measurement is from the model.
type deviation struct {
	own, others float64 // utilisations
	ratio       float64 // measured over predicted slowdown
}

// nearest is how many measured pairs of similar utilisations a pair that was not
// measured is compared with.
const nearest = 10

// pairsOn returns the measured pairs of a GPU type; nil: there are none.
func (r *run) pairsOn(t sched.GPUType) *pairTable {
	if r.Sharing.Model != nil || !r.Sharing.Scatter {
		return nil
	}
	table, ok := r.pairs[t]
	if ok {
		return table
	}
	all, err := learn.Builtin(string(t))
	if err == nil && len(all) > 0 { // a test of package learn reads every table
		table = newPairTable(learn.OfMode(all, r.Sharing.Mode), r.sharingOn(t), r.Sharing.Mode)
	}
	if r.pairs == nil {
		r.pairs = map[sched.GPUType]*pairTable{}
	}
	r.pairs[t] = table
	return table
}

func newPairTable(pairs []learn.Pair, m *interfere.Model, mode interfere.Mode) *pairTable {
	t := &pairTable{slowdown: map[[2]learn.Key]float64{}, steps: map[learn.Key]float64{}}
	for _, p := range pairs {
		for i, s := range p.Sides {
			other := p.Sides[1-i]
			t.slowdown[[2]learn.Key{s.Key, other.Key}] = s.Slowdown
			t.steps[s.Key] = s.Load.Step
			mean := m.Slowdown(mode, s.Load, []interfere.Load{other.Load}).Mean
			t.off = append(t.off, deviation{s.Load.Util, other.Load.Util, s.Slowdown / mean})
		}
	}
	return t
}

// key names what a job trains on each of its GPUs.
func (w *Work) key() learn.Key { return learn.Key{Model: w.Model, Batch: w.BatchSize / max(1, w.GPUs)} }

// measured returns the measured slowdown of a job beside another.
func (t *pairTable) measured(own, other *Work) (float64, bool) {
	s, ok := t.slowdown[[2]learn.Key{own.key(), other.key()}]
	return s, ok
}

// ratioNear returns the deviation of one of the measured pairs with the most similar
// utilisations, drawn by a seed.
func (t *pairTable) ratioNear(own, others float64, seed uint64) float64 {
	var best [nearest]struct{ distance, ratio float64 }
	n := 0
	for _, d := range t.off {
		away := math.Hypot(d.own-own, d.others-others)
		if n == nearest && away >= best[n-1].distance {
			continue
		}
		n = min(n+1, nearest)
		i := n - 1
		for ; i > 0 && best[i-1].distance > away; i-- {
			best[i] = best[i-1]
		}
		best[i].distance, best[i].ratio = away, d.ratio
	}
	return best[mix(seed, uint64(n))>>32%uint64(n)].ratio
}
