// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package share

import (
	"math/bits"
	"slices"

	"github.com/fairway-gpu/fairway/sched"
)

// complain removes the newest job from the GPUs of every job that is slower than
// the bound by its measurements.
func (d *decision) complain() {
	var slow []int
	for i, j := range d.s.Jobs {
		if j.Phase == sched.Running && j.Slowdown > d.Slowdown*d.Patience && j.Placement.Shared() && d.stays(i) {
			slow = append(slow, i)
		}
	}
	if len(slow) == 0 {
		return
	}
	slices.SortFunc(slow, func(a, b int) int { return int(d.s.Jobs[a].Seq - d.s.Jobs[b].Seq) })
	on := d.occupants()
	for _, i := range slow {
		if d.stays(i) {
			d.relieve(i, on)
		}
	}
}

// stays reports whether a running job keeps its GPUs.
func (d *decision) stays(i int) bool { return d.plan.Want[i].Equal(d.s.Jobs[i].Placement) }

// gpu is one GPU of the cluster.
type gpu struct {
	node int32
	at   int
}

// occupants returns the jobs that keep running on each partly held GPU, by
// submission.
func (d *decision) occupants() map[gpu][]int {
	on := map[gpu][]int{}
	for i, j := range d.s.Jobs {
		if j.Phase == sched.Running && j.Placement.Shared() && d.stays(i) {
			each(j.Placement, func(g gpu) { on[g] = append(on[g], i) })
		}
	}
	for _, jobs := range on {
		slices.SortFunc(jobs, func(a, b int) int { return int(d.s.Jobs[a].Seq - d.s.Jobs[b].Seq) })
	}
	return on
}

func each(p sched.Placement, visit func(gpu)) {
	for _, s := range p {
		for g := s.GPUs; g != 0; g &= g - 1 {
			visit(gpu{s.Node, bits.TrailingZeros64(uint64(g))})
		}
	}
}

// relieve stops the newest job on the GPUs of a slow job, perhaps the job itself,
// and remembers the pairs that do not suit each other. Measurements from before it
// came are not its fault.
func (d *decision) relieve(i int, on map[gpu][]int) {
	last := -1
	company := false
	each(d.s.Jobs[i].Placement, func(g gpu) {
		for _, k := range on[g] {
			if !d.stays(k) {
				continue // already removed
			}
			company = company || k != i
			if last < 0 || d.later(k, last) {
				last = k
			}
		}
	})
	if !company || d.s.Jobs[i].ReportedAt.Before(d.s.Jobs[last].Since) {
		return
	}
	guest := d.s.Jobs[last]
	if guest.Pinned() {
		return
	}
	each(guest.Placement, func(g gpu) {
		for _, k := range on[g] {
			if k != last && d.stays(k) {
				d.apart.Put(guest, d.s.Jobs[k], d.s.Jobs[i].Slowdown)
			}
		}
	})
	d.plan.Want[last] = nil
	d.plan.Why[last] = sched.Reason{Code: sched.Behind, Need: guest.GPUs}
}

// later reports whether a job came to its GPUs after another.
func (d *decision) later(a, b int) bool {
	x, y := d.s.Jobs[a], d.s.Jobs[b]
	if !x.Since.Equal(y.Since) {
		return x.Since.After(y.Since)
	}
	return x.Seq > y.Seq
}
