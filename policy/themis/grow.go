// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package themis

import (
	"cmp"
	"container/heap"
	"math"
	"slices"

	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/place"
)

// Elastic jobs start small and grow at the ends of their leases. GPUs that they win
// in an auction widen them; then idle GPUs are divided by the objective of the
// auction, the largest product of 1/rho, job by job. A running job is resized only if
// it gains more by that than the restart costs.

// growth returns how far an elastic job may grow at once: as far as its agent says, or
// else to its largest size.
func growth(j *sched.Job) int {
	if j.Perf != nil && j.Perf.MostGPUs > 0 {
		return j.Perf.MostGPUs
	}
	return j.MaxGPUs
}

// speed returns the speed of a job on a number of GPUs, well placed, in GPUs of the
// size it asked for. A job that has not measured how it scales is taken to do so in
// proportion.
func (j *job) speed(n int) float64 {
	if j.curve != nil && n != j.GPUs {
		if full := j.curve(j.GPUs); full > 0 {
			return float64(j.GPUs) * j.curve(n) / full
		}
	}
	return float64(n)
}

// short returns how many more GPUs a running job could use, if its lease has ended.
func (r *round) short(j *job) int {
	if n := j.Placement.GPUs(); j.expired && n < j.most && r.quota.Left(j.Job) > 0 && r.worth(j, n, j.speed(j.most)) {
		return j.most - n
	}
	return 0
}

// couldGrow reports whether a job could use more GPUs than it has in the plan.
func (r *round) couldGrow(j *job) bool {
	n := r.plan.Want[j.index].GPUs()
	return n > 0 && n < j.most && !j.Pinned() && r.worth(j, n, j.speed(j.most))
}

// worth reports whether a job with n GPUs gains enough by a speed to be restarted for
// it: within a lease, or before its end, more than the restart costs.
func (r *round) worth(j *job, n int, speed float64) bool {
	now := j.speed(n)
	return min(r.lease, j.left/now)*(1-now/speed) > restartCost
}

// widen grows running jobs of an app within what is left of its budget.
func (r *round) widen(a *app, b budget) {
	for _, j := range a.jobs {
		extra := 0
		for _, gpus := range b {
			extra += gpus
		}
		if !j.won || j.stays || !j.Elastic() || extra == 0 {
			continue
		}
		held := r.plan.Want[j.index].GPUs()
		need := j.LargestSize(min(j.most, held+extra)) - held
		if need <= 0 || !r.worth(j, held, j.speed(held+need)) {
			continue
		}
		for _, s := range b.nodes() {
			k := min(s.GPUs, need)
			if r.free.OnNode(s.Machine).Len() < k {
				r.evict(s.Machine, k)
			}
			b[s.Machine] -= k
			need -= k
		}
		r.resize(j, j.LargestSize(min(j.most, held+extra)), false)
	}
}

// resize gives a job that has GPUs in the plan more of them, as many as it finds up
// to a number.
func (r *round) resize(j *job, most int, tight bool) bool {
	old := r.plan.Want[j.index]
	find := place.Consolidated
	if tight || j.Consolidate {
		find = place.FewestNodes
	}
	mark := r.free.Mark()
	r.free.Release(j.Job, old)
	for n := min(most, r.quota.Left(j.Job)+old.GPUs()); ; n-- {
		if n = j.LargestSize(n); n <= old.GPUs() {
			break
		}
		before := r.free.Mark()
		p, ok := find(r.free, j.Job, n)
		if !ok {
			continue
		}
		slow := r.slow(group{size: n, slow: classOf(j.Job)}, r.s.Cluster.Level(p))
		if !tight {
			slow = sensitive[r.s.Cluster.Level(p)]
		}
		if !r.worth(j, old.GPUs(), j.speed(n)/slow) {
			r.free.Rollback(before)
			continue
		}
		r.quota.Add(j.Job, -old.GPUs())
		j.app.give(old)
		r.begin(j, p)
		return true
	}
	r.free.Rollback(mark)
	return false
}

// grow divides the GPUs that are still idle between the elastic jobs that start or
// whose lease has ended. What a job turns out to have no place for is divided again
// without it.
func (r *round) grow() {
	var jobs growers
	for _, a := range r.apps {
		for _, j := range a.jobs {
			if n := r.plan.Want[j.index].GPUs(); j.won && !j.stays && j.Elastic() && n < j.most {
				jobs = append(jobs, &grower{job: j})
			}
		}
	}
	for _, unit := range []int{max(1, r.s.Cluster.MaxGPUs()), 1} {
		left := slices.Clone(jobs)
		for again := true; again && r.free.Total() > 0; {
			r.divide(left, unit)
			all := len(left)
			left = slices.DeleteFunc(left, func(g *grower) bool {
				return g.n > r.plan.Want[g.index].GPUs() && !r.resize(g.job, g.n, unit > 1)
			})
			again = len(left) < all
		}
	}
}

// divide decides how far each job would grow if any idle GPU suited all of them.
func (r *round) divide(jobs growers, unit int) {
	for _, g := range jobs {
		g.n, g.unit = r.plan.Want[g.index].GPUs(), unit
		g.look()
	}
	queue := slices.Clone(jobs)
	heap.Init(&queue)
	for idle := r.free.Total(); len(queue) > 0 && idle > 0; {
		if g := queue[0]; g.gain > 0 && g.next-g.n <= idle {
			idle -= g.next - g.n
			g.n = g.next
			g.look()
			heap.Fix(&queue, 0)
		} else {
			heap.Pop(&queue)
		}
	}
}

// grower is a job that could grow.
type grower struct {
	*job
	n    int // GPUs it would have
	unit int // beyond this many they come in multiples of it
	next int
	gain float64 // of the logarithm of 1/rho by going from n to next, for each GPU
}

// look finds the next size, the one with the largest gain for each GPU: a job may
// gain by a second node only if it gets much of it.
func (g *grower) look() {
	g.gain = 0
	end := func(n int) float64 { return g.app.elapsed + g.left/g.speed(n) }
	for _, next := range []int{g.NextSize(g.n), g.unit, g.n + g.unit, 2 * g.n, g.most} {
		next = min(next, g.most)
		if next > g.unit {
			next -= next % g.unit
		}
		if next = g.LargestSize(next); next <= g.n {
			continue
		}
		if gain := math.Log(end(g.n)/end(next)) / float64(next-g.n); gain > g.gain {
			g.gain, g.next = gain, next
		}
	}
}

// growers is a heap, the largest gain first.
type growers []*grower

func (h growers) Len() int { return len(h) }
func (h growers) Less(a, b int) bool {
	return cmp.Or(cmp.Compare(h[b].gain, h[a].gain), cmp.Compare(h[a].Seq, h[b].Seq)) < 0
}
func (h growers) Swap(a, b int) { h[a], h[b] = h[b], h[a] }

// Push implements heap.Interface.
func (h *growers) Push(x any) { *h = append(*h, x.(*grower)) }

// Pop implements heap.Interface.
func (h *growers) Pop() any {
	old := *h
	g := old[len(old)-1]
	*h = old[:len(old)-1]
	return g
}
