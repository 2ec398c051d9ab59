// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package carbyne

import (
	"cmp"
	"math"
	"slices"

	"github.com/fairway-gpu/fairway/policy/filling"
	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/place"
)

// offer is what jobs give up in one decision, and who receives it.
type offer struct {
	*policy
	*filling.Filling
	s    *sched.Snapshot
	ends ends
	size place.Sizes
	// patient are the jobs that DRF has reached and that need nothing now.
	patient []bool
}

// order lets the jobs that DRF has reached give up what they do not need, gives it
// to others, and returns all competing jobs in the order of placement.
func (o *offer) order(reached []int) []int {
	var order, left []int
	for _, i := range reached {
		j := o.s.Jobs[i]
		n := o.need(o.s, j, o.ends[i])
		o.Take(j, n-size(j))
		o.size[i], o.patient[i] = n, n == 0
		if n > 0 {
			order = append(order, i)
		}
		if n < size(j) {
			left = append(left, i)
		}
	}
	left = append(left, o.Passed...)
	slices.SortFunc(left, func(a, b int) int {
		x, y := o.s.Jobs[a], o.s.Jobs[b]
		return cmp.Or(cmp.Compare(o.remaining(x), o.remaining(y)), cmp.Compare(x.Seq, y.Seq))
	})
	for at, i := range left {
		if !o.top(i) {
			if o.s.Jobs[i].Ready(o.s.Now) {
				return o.add(order, left[:at], o.pack(left[at:]))
			}
		}
	}
	return o.add(order, left)
}

// add appends jobs that are not in the order yet: those that gave up a part already
// are.
func (o *offer) add(order []int, more ...[]int) []int {
	there := make([]bool, len(o.s.Jobs))
	for _, i := range order {
		there[i] = true
	}
	for _, jobs := range more {
		for _, i := range jobs {
			if !there[i] {
				order = append(order, i)
			}
		}
	}
	return order
}

// top gives a job what it lacks, if that much is left.
func (o *offer) top(i int) bool {
	j := o.s.Jobs[i]
	more := size(j) - o.size[i]
	if !o.Fits(j, more) {
		return false
	}
	o.Take(j, more)
	o.size[i] += more
	return true
}

// pack gives what is left to the best-suited jobs, and returns all jobs in that
// order.
func (o *offer) pack(jobs []int) []int {
	score := make(map[int]float64, len(jobs))
	for _, i := range jobs {
		for r, need := range filling.Needs(o.s.Jobs[i], size(o.s.Jobs[i])-o.size[i]) {
			if o.Total[r] > 0 {
				score[i] += need / o.Total[r] * o.Left[r] / o.Total[r]
			}
		}
	}
	packed := slices.Clone(jobs)
	slices.SortStableFunc(packed, func(a, b int) int { return cmp.Compare(score[b], score[a]) })
	for _, i := range packed {
		o.top(i)
	}
	return packed
}

// remaining returns the run time a job still needs, in seconds.
func (o *offer) remaining(j *sched.Job) float64 {
	left, ok := j.Remaining(o.s.Now)
	if !ok {
		return math.Inf(1)
	}
	return left.Seconds()
}
