// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package tune

import (
	"cmp"
	"math"
	"slices"
)

// view is an app as the rules see it: curves without invalid readings, less is
// better.
type view struct {
	App
	jobs    []Job     // copies, with cleaned curves
	best    []float64 // smallest value of each; +Inf: does not count
	leader  int       // trial with the best reading, the first on a tie; -1: no readings
	stops   map[int]string
	waits   []bool // until others have reached the same rung
	promote map[int]int
	// first are the jobs that get all the GPUs they can use, in this order; the
	// others share evenly.
	first []int
	done  bool
}

// look cleans the readings.
func (t *Tuner) look(a App) *view {
	v := &view{App: a, jobs: slices.Clone(a.Jobs), stops: map[int]string{}, promote: map[int]int{}, waits: make([]bool, len(a.Jobs)), best: make([]float64, len(a.Jobs)), leader: -1}
	for i := range v.jobs {
		j := &v.jobs[i]
		j.Demand, j.Rung = max(1, j.Demand), max(0, j.Rung)
		if !finite(j.Work) || j.Work < 0 {
			j.Work = 0
		}
		if !finite(j.Done) || j.Done < 0 {
			j.Done = 0
		}
		curve := make([]Reading, 0, len(j.Curve))
		for _, r := range j.Curve {
			if !finite(r.Value) || !finite(r.Done) || r.Done < 0 || len(curve) > 0 && r.Done <= curve[len(curve)-1].Done {
				continue
			}
			// An absurd value, but its sign is known; sums must not overflow.
			r.Value = max(-1e100, min(1e100, r.Value))
			if t.Goal == Maximise {
				r.Value = -r.Value
			}
			curve = append(curve, r)
		}
		j.Curve = curve
		if n := len(curve); n > 0 {
			j.Done = max(j.Done, curve[n-1].Done)
		}
		v.best[i] = math.Inf(1)
		if j.counts() {
			v.best[i] = slices.MinFunc(curve, func(a, b Reading) int { return cmp.Compare(a.Value, b.Value) }).Value
			if v.leader < 0 || v.best[i] < v.best[v.leader] {
				v.leader = i
			}
		}
	}
	return v
}

// counts reports whether the readings of the job count.
func (j *Job) counts() bool { return j.State != Failed && len(j.Curve) > 0 }

// bestBy returns the smallest value up to the first reading at or beyond a number of
// iterations; ok is false if the trial has not reached it. A finished trial keeps its
// last value.
func (j *Job) bestBy(done float64) (value float64, ok bool) {
	if !j.counts() {
		return 0, false
	}
	value = j.Curve[0].Value
	for _, r := range j.Curve {
		value = min(value, r.Value)
		if r.Done >= done {
			return value, true
		}
	}
	return value, j.State == Finished
}

// reached returns the first trial that meets the target; -1: none.
func (v *view) reached(target *float64) int {
	if target == nil {
		return -1
	}
	return slices.IndexFunc(v.best, func(best float64) bool { return best <= *target })
}

func (v *view) active(i int) bool {
	_, stopped := v.stops[i]
	return v.jobs[i].State == Active && !stopped
}

func (v *view) stop(i int, why string) {
	if v.active(i) {
		v.stops[i] = why
	}
}

// left returns how many trials may still be started.
func (v *view) left() int { return max(0, v.Trials-len(v.jobs)) }

// plan turns the decisions of the rule into a plan.
func (v *view) plan() Plan {
	p := Plan{Share: make([]int, len(v.jobs)), Best: v.leader, Done: v.done}
	active := 0
	var order []int
	for i := range v.jobs {
		if why, ok := v.stops[i]; ok {
			p.Stop = append(p.Stop, Stop{i, why})
		}
		if rung, ok := v.promote[i]; ok {
			p.Promote = append(p.Promote, Promotion{i, rung})
		}
		if v.active(i) {
			active++
			if !v.waits[i] {
				order = append(order, i)
			}
		}
	}
	slots := max(0, v.GPUs)
	if v.AtOnce > 0 {
		slots = min(slots, v.AtOnce)
	}
	v.divide(p.Share, order, slots)
	if !v.done {
		p.Start = max(0, min(v.left(), slots-len(order)))
		p.Done = active == 0 && v.left() == 0
	}
	return p
}

// divide shares the GPUs between at most slots jobs. Those with GPUs come first, to
// avoid restarts; then those with the most progress.
func (v *view) divide(share []int, order []int, slots int) {
	rank := make([]int, len(v.jobs))
	for i, job := range v.first {
		rank[job] = len(v.jobs) - i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		x, y := &v.jobs[a], &v.jobs[b]
		return cmp.Or(cmp.Compare(rank[b], rank[a]), cmp.Compare(min(1, y.Held), min(1, x.Held)),
			cmp.Compare(max(y.Rung, v.promote[b]), max(x.Rung, v.promote[a])), cmp.Compare(x.Number, y.Number))
	})
	order = order[:min(len(order), slots)]
	free := v.GPUs - len(order)
	for _, i := range order {
		share[i] = 1
	}
	for _, i := range order {
		if rank[i] > 0 {
			more := min(free, v.jobs[i].Demand-1)
			share[i] += more
			free -= more
		}
	}
	for given := true; given && free > 0; {
		given = false
		for _, i := range order {
			if free > 0 && share[i] < v.jobs[i].Demand {
				share[i]++
				free--
				given = true
			}
		}
	}
}

// together returns the phases of an app whose trials do not wait for each other: the
// active ones, by the longest remaining work, and those to come.
func (v *view) together(left func(i int) float64) []Phase {
	var now, later Phase
	for i := range v.jobs {
		j := &v.jobs[i]
		later.Iterations, later.Demand = max(later.Iterations, j.Work), max(later.Demand, j.Demand)
		if v.active(i) {
			now.Jobs++
			now.Iterations, now.Demand = max(now.Iterations, left(i)), max(now.Demand, j.Demand)
		}
	}
	later.Jobs = v.left()
	return []Phase{now, later}
}
