// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package shockwave

import (
	"container/heap"
	"math"
	"slices"

	"github.com/fairway-gpu/fairway/sched/place"
)

// begun is the fraction of its work that a new job is assumed to have done: the
// logarithm of zero is not finite.
const begun = 0.01

// value returns the value of a job's progress after n rounds.
func (x *job) value(n int) float64 {
	done := 1.0
	if x.left > 0 {
		done = x.progress + (1-x.progress)*min(1, float64(n)/x.left)
	}
	return x.weight * math.Log(begun+(1-begun)*done)
}

// least returns the fewest rounds with which a job has at most that much left, and not
// fewer than it must have.
func (x *job) least(bound float64) int {
	return min(x.most, max(x.must, int(math.Ceil(x.left-bound))))
}

// exact finds the best division that gives no job fewer rounds, if there is little to
// choose from: for each job in turn and each number of GPU-rounds, the best of what
// the jobs so far can make of them.
func (p *problem) exact(rounds []int) bool {
	left, choices := p.capacity, 0
	for k := range p.jobs {
		left -= rounds[k] * p.jobs[k].gpus
		choices += p.jobs[k].most - rounds[k]
	}
	if (choices+len(p.jobs))*(left+1) > exactSteps {
		return false
	}
	best := make([]float64, left+1)
	more := make([][]int16, len(p.jobs)) // rounds beyond the fewest, by GPU-rounds
	for k := range p.jobs {
		x := &p.jobs[k]
		next := make([]float64, left+1)
		more[k] = make([]int16, left+1)
		for c := range next {
			next[c] = math.Inf(-1)
			for n := 0; rounds[k]+n <= x.most && n*x.gpus <= c; n++ {
				if v := best[c-n*x.gpus] + x.value(rounds[k]+n); v > next[c] {
					next[c], more[k][c] = v, int16(n)
				}
			}
		}
		best = next
	}
	for k := range slices.Backward(p.jobs) {
		n := int(more[k][left])
		rounds[k] += n
		left -= n * p.jobs[k].gpus
	}
	return true
}

// bisect adds to the jobs' rounds those that are worth a price at which all of them
// fit, a price that is nearly too low. It returns an upper limit of the progress: by
// duality, what these rounds give and the price of the GPU-rounds that are left.
func (p *problem) bisect(rounds []int) (welfare float64) {
	const lowest, highest, near = -30.0, 30.0, 1e-3 // logarithms of the price
	base, try := slices.Clone(rounds), make([]int, len(rounds))
	used := 0
	for k := range p.jobs {
		used += rounds[k] * p.jobs[k].gpus
	}
	low, high, at, step := lowest, highest, p.price, 0.25
	for high-low > near {
		price, sum := math.Exp(at), 0
		for k := range p.jobs {
			try[k] = p.jobs[k].worth(base[k], price)
			sum += try[k] * p.jobs[k].gpus
		}
		if sum > p.capacity {
			low = at
		} else {
			high, used = at, sum
			copy(rounds, try)
		}
		// Near the last price first, then half way.
		at = (low + high) / 2
		if step *= 2; high == highest {
			at = min(at, low+step)
		} else if low == lowest {
			at = max(at, high-step)
		}
	}
	p.price = high
	return p.progress(rounds) + math.Exp(high)*float64(p.capacity-used)
}

// worth returns the number of a job's rounds, starting from a number, whose gain is
// at least a price. A whole round gains enough as long as log((past+n+1)/(past+n)), by
// value, is at least the price of its GPUs over the job's weight; the last one may be
// partial.
func (x *job) worth(from int, price float64) int {
	if from >= x.most {
		return from
	}
	n := 1/math.Expm1(price*float64(x.gpus)/x.weight) - x.past + 1
	whole := min(x.most, int(x.left))
	if n < float64(whole) {
		return max(from, int(max(0, n)))
	}
	if x.most > whole && x.gain(whole) >= price {
		return x.most
	}
	return max(from, whole)
}

// gain returns the value per GPU of one more round for a job.
func (x *job) gain(rounds int) float64 {
	if rounds >= x.most {
		return 0
	}
	return (x.value(rounds+1) - x.value(rounds)) / float64(x.gpus)
}

// finish hands out the rest round by round.
func (p *problem) finish(rounds []int) {
	left := p.capacity
	for k := range p.jobs {
		left -= rounds[k] * p.jobs[k].gpus
	}
	if left == 0 {
		return
	}
	var offers place.Offers
	for k := range p.jobs {
		if g := p.jobs[k].gain(rounds[k]); g > 0 && p.jobs[k].gpus <= left {
			offers = append(offers, place.Offer{Gain: g, Job: k})
		}
	}
	heap.Init(&offers)
	for left > 0 && len(offers) > 0 {
		o := &offers[0]
		x := &p.jobs[o.Job]
		if x.gpus > left {
			heap.Pop(&offers)
			continue
		}
		rounds[o.Job]++
		left -= x.gpus
		if o.Gain = x.gain(rounds[o.Job]); o.Gain > 0 {
			heap.Fix(&offers, 0)
		} else {
			heap.Pop(&offers)
		}
	}
}
