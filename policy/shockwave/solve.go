// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package shockwave

import (
	"container/heap"
	"math"
	"slices"

	"github.com/fairway-gpu/fairway/sched/place"
)

// problem is to divide the GPU-rounds of a window.
type problem struct {
	jobs     []job
	window   int
	capacity int // GPU-rounds
	makespan float64
}

// solve returns the rounds of each job.
func (p problem) solve() []int {
	now := longest(p.jobs, nil)
	best, most := make([]int, len(p.jobs)), math.Inf(-1)
	const bounds = 4
	for i := 0; i <= bounds; i++ {
		rounds, ok := p.within(now - float64(i*p.window)/bounds)
		if !ok {
			break // tighter bounds do not fit either
		}
		if v := p.value(rounds, now); v > most {
			best, most = rounds, v
		}
	}
	return best
}

// value returns the value of a plan, given the longest time left before it.
func (p problem) value(rounds []int, now float64) float64 {
	sum := 0.0
	for k := range p.jobs {
		sum += p.jobs[k].value(rounds[k])
	}
	if now <= 0 {
		return sum
	}
	return sum/float64(len(p.jobs)) - p.makespan*longest(p.jobs, rounds)/now
}

// within returns the best plan in which no job has more than a bound left, as far
// as the window allows; ok is false if there are too few GPUs for it.
func (p problem) within(bound float64) (rounds []int, ok bool) {
	rounds = make([]int, len(p.jobs))
	used := 0
	for k := range p.jobs {
		rounds[k] = p.jobs[k].least(bound, p.window)
		used += rounds[k] * p.jobs[k].gpus
	}
	if used > p.capacity {
		return nil, false
	}
	if p.all() <= p.capacity {
		for k := range p.jobs {
			rounds[k] = p.jobs[k].most(p.window)
		}
		return rounds, true
	}
	p.bisect(rounds)
	p.finish(rounds)
	return rounds, true
}

// all returns the GPU-rounds that the jobs could use.
func (p problem) all() int {
	sum := 0
	for k := range p.jobs {
		sum += p.jobs[k].most(p.window) * p.jobs[k].gpus
	}
	return sum
}

// gain returns the value per GPU of one more round for a job.
func (p problem) gain(k, rounds int) float64 {
	x := &p.jobs[k]
	if rounds >= x.most(p.window) {
		return 0
	}
	return (x.value(rounds+1) - x.value(rounds)) / float64(x.gpus)
}

// bisect adds to the jobs' rounds those that are worth a price at which all of them
// fit, a price that is nearly too low.
func (p problem) bisect(rounds []int) {
	low, high := -60.0, 60.0 // logarithms of the price
	base := slices.Clone(rounds)
	try := make([]int, len(rounds))
	for range 24 {
		mid := (low + high) / 2
		price, used := math.Exp(mid), 0
		for k := range p.jobs {
			try[k] = p.worth(k, base[k], price)
			used += try[k] * p.jobs[k].gpus
		}
		if used > p.capacity {
			low = mid
			continue
		}
		high = mid
		copy(rounds, try)
	}
}

// worth returns the number of a job's rounds, starting from a number, whose gain is
// at least a price. A whole round gains enough as long as log((a+n+1)/(a+n)), by
// value, is at least the price of its GPUs over the job's weight; the last one may
// be partial.
func (p problem) worth(k, from int, price float64) int {
	x := &p.jobs[k]
	most := x.most(p.window)
	if from >= most {
		return from
	}
	a := x.done + begun/(1-begun)*(x.done+x.left)
	n := 1/math.Expm1(price*float64(x.gpus)/x.weight) - a + 1
	whole := min(most, int(x.left))
	if n < float64(whole) {
		return max(from, int(max(0, n)))
	}
	if most > whole && p.gain(k, whole) >= price {
		return most
	}
	return max(from, whole)
}

// finish hands out the rest round by round.
func (p problem) finish(rounds []int) {
	left := p.capacity
	var offers place.Offers
	for k := range p.jobs {
		left -= rounds[k] * p.jobs[k].gpus
		if g := p.gain(k, rounds[k]); g > 0 {
			offers = append(offers, place.Offer{Gain: g, Job: k})
		}
	}
	heap.Init(&offers)
	for left > 0 && len(offers) > 0 {
		o := &offers[0]
		if p.jobs[o.Job].gpus > left {
			heap.Pop(&offers)
			continue
		}
		rounds[o.Job]++
		left -= p.jobs[o.Job].gpus
		if o.Gain = p.gain(o.Job, rounds[o.Job]); o.Gain > 0 {
			heap.Fix(&offers, 0)
		} else {
			heap.Pop(&offers)
		}
	}
}
