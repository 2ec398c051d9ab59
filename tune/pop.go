// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package tune

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// Class is POP's classification of a trial.
type Class uint8

// The classes.
const (
	Promising Class = iota // uncertain
	Good                   // gets all the GPUs it can use
	Poor                   // is stopped
)

// hopeless is the probability below which a trial is poor.
const hopeless = 0.05

// pop is the rule of HyperDrive.
type pop struct {
	grace, max float64
	target     *float64
}

// expectation is the predicted outcome of a trial.
type expectation struct {
	class      Class
	confidence float64 // to reach the goal
	left       float64 // iterations to reach it, or to the end
	time       float64 // the same in seconds of one GPU, or iterations if the time is unknown
}

// whole returns the total iterations of a trial; 0: unknown.
func (p pop) whole(j *Job) float64 {
	if p.max > 0 {
		return p.max
	}
	return j.Work
}

func (p pop) expectations(v *view) []expectation {
	out := make([]expectation, len(v.jobs))
	for i := range v.jobs {
		j := &v.jobs[i]
		o := &out[i]
		whole := p.whole(j)
		o.left = max(0, whole-j.Done)
		o.confidence = 0.5
		if v.active(i) && j.counts() {
			p.predict(v, i, o)
		}
		o.time = o.left * orDefault(j.IterTime, 1)
		if i == v.leader { // one trial has to win
			o.confidence = max(o.confidence, 0.5)
		}
		if o.confidence < hopeless && j.Done >= p.grace && j.State == Active {
			o.class = Poor
		}
	}
	p.reward(v, out)
	return out
}

// predict extrapolates the curve of one trial.
func (p pop) predict(v *view, i int, o *expectation) {
	j := &v.jobs[i]
	goal, ok := p.goal(v, i)
	whole := max(p.whole(j), j.Done)
	fs := extrapolate(j.Curve, whole)
	if !ok || fs == nil {
		return
	}
	if v.best[i] <= goal {
		o.confidence = 1
	} else {
		o.confidence = fs.below(goal, 1)
	}
	o.left = max(0, fs.when(goal, min(1, j.Done/whole))*whole-j.Done)
}

// goal returns the value that a trial has to reach: the target, or the best of the
// others.
func (p pop) goal(v *view, i int) (float64, bool) {
	if p.target != nil {
		return *p.target, true
	}
	best, ok := math.Inf(1), false
	for o := range v.jobs {
		if o != i && v.jobs[o].counts() {
			best, ok = min(best, v.best[o]), true
		}
	}
	return best, ok
}

// reward finds the good trials: those with a confidence of at least p, where p
// maximises the number of slots that are both wanted (by trials of that confidence)
// and deserved (a share p of all slots).
func (p pop) reward(v *view, out []expectation) {
	slots := float64(max(0, v.GPUs))
	if v.AtOnce > 0 {
		slots = min(slots, float64(v.AtOnce))
	}
	most, threshold := 0.0, math.Inf(1)
	for i := range out {
		if c := out[i].confidence; v.active(i) && out[i].class != Poor && v.jobs[i].counts() {
			desired := 0.0
			for o := range out {
				if v.active(o) && out[o].confidence >= c && v.jobs[o].counts() {
					desired++
				}
			}
			if used := min(desired, slots*c); used > most || used == most && c > threshold {
				most, threshold = used, c
			}
		}
	}
	for i := range out {
		if v.active(i) && out[i].class != Poor && v.jobs[i].counts() && out[i].confidence >= max(threshold, 0.5) {
			out[i].class = Good
		}
	}
}

func (p pop) judge(v *view) {
	all := p.expectations(v)
	for i, o := range all {
		switch {
		case o.class == Poor:
			goal := "to beat the best so far"
			if p.target != nil {
				goal = "to reach the target"
			}
			v.stop(i, fmt.Sprintf("has a chance of %.1f %% %s, by its curve of %d readings", 100*o.confidence, goal, len(v.jobs[i].Curve)))
		case o.class == Good && v.active(i):
			v.first = append(v.first, i)
		}
	}
	slices.SortStableFunc(v.first, func(a, b int) int { return cmp.Compare(all[a].time, all[b].time) })
}

func (p pop) phases(v *view) []Phase {
	all := p.expectations(v)
	out := v.together(func(i int) float64 {
		if all[i].class == Poor {
			return 0
		}
		return all[i].left
	})
	if p.max > 0 {
		out[1].Iterations = p.max
	}
	return out
}
