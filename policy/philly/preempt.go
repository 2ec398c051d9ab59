// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package philly

import (
	"cmp"
	"slices"

	"github.com/fairway-gpu/fairway/sched"
)

// preempt takes GPUs for a wish by stopping jobs of VCs above their quota. If that
// does not help, no job is stopped.
func (d *decision) preempt(j *sched.Job, w wish) (sched.Placement, bool) {
	all := d.s.Cluster.GPUs()
	if d.pool || float64(all-d.free.Total()) < d.PreemptAbove*float64(all) || d.hopeless[w] {
		return nil, false
	}
	d.findVictims()
	// The shortest sufficient list of victims, found by doubling and then by
	// halving the last step. Most wishes need few of very many.
	lo, hi := 0, 1
	for {
		hi = min(hi, len(d.victims))
		if d.suffice(j, w, hi) {
			break
		}
		if hi == len(d.victims) {
			d.hopeless[w] = true
			return nil, false
		}
		lo, hi = hi, 2*hi
	}
	for hi-lo > 1 {
		if mid := (lo + hi) / 2; d.suffice(j, w, mid) {
			hi = mid
		} else {
			lo = mid
		}
	}
	p, stopped, _ := d.evict(j, w, hi)
	d.stop(stopped)
	return p, true
}

// suffice reports whether the first k victims are enough.
func (d *decision) suffice(j *sched.Job, w wish, k int) bool {
	mark := d.free.Mark()
	_, _, ok := d.evict(j, w, k)
	d.free.Rollback(mark)
	return ok
}

// findVictims lists the running jobs of VCs above their quota. No other VC rises
// above its quota while jobs within their quota are served.
func (d *decision) findVictims() {
	if d.searched {
		return
	}
	d.searched = true
	for i, j := range d.s.Jobs {
		v := &d.vcs[d.of(j)]
		if v.held > v.quota && !j.Pinned() && len(d.plan.Want[i]) > 0 && d.plan.Want[i].Equal(j.Placement) {
			d.victims = append(d.victims, i)
		}
	}
	slices.SortFunc(d.victims, func(a, b int) int {
		x, y := d.s.Jobs[a], d.s.Jobs[b]
		return cmp.Or(y.Since.Compare(x.Since), cmp.Compare(y.Seq, x.Seq))
	})
}

// evict takes GPUs for a wish after the first k victims have made room, and returns
// the GPUs of victims that were not in the way, the longest run first. On failure
// nothing is taken.
func (d *decision) evict(j *sched.Job, w wish, k int) (p sched.Placement, stopped []int, ok bool) {
	mark := d.free.Mark()
	for _, i := range d.victims[:k] {
		d.free.Release(d.s.Jobs[i], d.plan.Want[i])
	}
	if p, ok = d.search.find(j, w); !ok {
		d.free.Rollback(mark)
		return nil, nil, false
	}
	for _, i := range slices.Backward(d.victims[:k]) {
		other := d.s.Jobs[i]
		if d.free.Fits(other, other.Placement) {
			d.free.Take(other, other.Placement)
		} else {
			stopped = append(stopped, i)
		}
	}
	d.lost = slices.Grow(d.lost[:0], len(d.vcs))[:len(d.vcs)]
	clear(d.lost)
	for _, i := range slices.Backward(stopped) {
		v := d.of(d.s.Jobs[i])
		if d.vcs[v].held-d.lost[v] <= d.vcs[v].quota {
			d.free.Rollback(mark)
			return nil, nil, false
		}
		d.lost[v] += d.s.Jobs[i].Placement.GPUs()
	}
	return p, stopped, true
}

// stop records that jobs lose the GPUs that were taken from them.
func (d *decision) stop(jobs []int) {
	for _, i := range jobs {
		j := d.s.Jobs[i]
		d.hold(j, -j.Placement.GPUs())
		d.plan.Want[i] = nil
		d.plan.Why[i] = sched.Reason{Code: sched.OverQuota, Need: j.Placement.GPUs()}
	}
	d.victims = slices.DeleteFunc(d.victims, func(i int) bool { return len(d.plan.Want[i]) == 0 })
	clear(d.failed)
	clear(d.hopeless)
	clear(d.reasons)
}
