// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package themis

import (
	"github.com/fairway-gpu/fairway/sched"
)

// slowdowns is how much longer an iteration takes when GPUs are as far apart as a
// level, by level. It is a pointer, so jobs that share it can be recognised.
type slowdowns = *[sched.CrossRack + 1]float64

// The slowdowns of a model without observations. Those of a model that must be
// consolidated are VGG-16's: 1.289 on two servers (Themis, table 1) and 1.37 at
// random (Tiresias, figure 3). Others have the mean of what was published for
// models of that kind on two servers (1.00, 1.00 and 1.17), and as much again over
// racks.
var (
	sensitive   = [sched.CrossRack + 1]float64{1, 1, 1.14, 1.289, 1.37}
	insensitive = [sched.CrossRack + 1]float64{1, 1, 1, 1.06, SpreadSlowdown}
)

// SpreadSlowdown is the slowdown over racks of a model without observations that
// need not be consolidated.
const SpreadSlowdown = 1.12

func classOf(j *sched.Job) slowdowns {
	if j.Consolidate {
		return &sensitive
	}
	return &insensitive
}

// maxSlowdown bounds what is learned: a job that stands still while it restarts
// must not count as a slow model.
const maxSlowdown = 4

// learn returns what the running jobs of an app show about the slowdown of their
// model: the rate by their estimate over the reported rate, averaged by level. A
// level without observations follows its class in proportion to the observed ones.
// Only the present placements count, because a snapshot has no others.
func (r *round) learn(a *app) map[string]slowdowns {
	type sums struct {
		seen  [sched.CrossRack + 1]float64
		count [sched.CrossRack + 1]float64
		class slowdowns
	}
	var byModel map[string]*sums
	for _, j := range a.jobs {
		slow, level, ok := r.observed(j)
		if !ok {
			continue
		}
		if byModel == nil {
			byModel = map[string]*sums{}
		}
		m := byModel[j.Model]
		if m == nil {
			m = &sums{class: classOf(j.Job)}
			byModel[j.Model] = m
		}
		m.seen[level] += slow
		m.count[level]++
	}
	if byModel == nil {
		return nil
	}
	out := make(map[string]slowdowns, len(byModel))
	for model, m := range byModel {
		loss, expected := 0.0, 0.0
		for l := sched.SameMachine; l <= sched.CrossRack; l++ {
			loss += m.seen[l] - m.count[l]
			expected += m.count[l] * (m.class[l] - 1)
		}
		scale := 1.0
		if expected > 0 {
			scale = loss / expected
		}
		learned := *m.class
		widest := sched.NoLevel
		for l := sched.SameMachine; l <= sched.CrossRack; l++ {
			if m.count[l] > 0 {
				widest = l
			}
		}
		for l := sched.SameMachine; l <= sched.CrossRack; l++ {
			learned[l] = 1 + (m.class[l]-1)*scale
			if l > widest { // good scaling up to a level says nothing beyond it
				learned[l] = max(learned[l], m.class[l])
			}
			if m.count[l] > 0 {
				learned[l] = m.seen[l] / m.count[l]
			}
			learned[l] = min(max(learned[l], learned[l-1]), maxSlowdown)
		}
		out[model] = &learned
	}
	return out
}

// observed returns the slowdown of a running job where it is.
func (r *round) observed(j *job) (slow float64, level sched.Level, ok bool) {
	n := j.Placement.GPUs()
	if j.Phase != sched.Running || j.Rate <= 0 || j.Work <= 0 || j.Estimate <= 0 || n < 2 {
		return 0, 0, false
	}
	level = r.s.Cluster.Level(j.Placement)
	full := j.Work / j.Estimate.D().Seconds() * j.speed(n) / float64(j.GPUs)
	return min(max(1, full/j.Rate), maxSlowdown), level, level > sched.SameSlot
}
