// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package tune

import (
	"fmt"
	"slices"
)

// median is the median stopping rule.
type median struct{ grace float64 }

// leastOthers is the number of other trials that a median needs.
const leastOthers = 3

func (m median) judge(v *view) {
	for i := range v.jobs {
		j := &v.jobs[i]
		if j.State != Active || !j.counts() {
			continue
		}
		at := j.Curve[len(j.Curve)-1].Done
		if at < m.grace {
			continue
		}
		var others []float64
		for o := range v.jobs {
			if mean, ok := v.jobs[o].meanBy(at); ok && o != i {
				others = append(others, mean)
			}
		}
		if len(others) < leastOthers {
			continue
		}
		slices.Sort(others)
		n := len(others)
		middle := others[(n-1)/2]/2 + others[n/2]/2
		if v.best[i] > middle && i != v.leader {
			v.stop(i, fmt.Sprintf("its best of %d readings is worse than the median of %d other trials at %g iterations", len(j.Curve), n, at))
		}
	}
}

// meanBy returns the mean of the readings up to a number of iterations; ok is false
// if the trial has not reached it.
func (j *Job) meanBy(done float64) (mean float64, ok bool) {
	if !j.counts() || j.Curve[len(j.Curve)-1].Done < done && j.State != Finished {
		return 0, false
	}
	n := 0.0
	for _, r := range j.Curve {
		if r.Done > done && n > 0 {
			break
		}
		n++
		mean += (r.Value - mean) / n
	}
	return mean, true
}

func (median) phases(v *view) []Phase { return toTheEnd{}.phases(v) }
