// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package gandiva

import (
	"cmp"
	"slices"

	"github.com/fairway-gpu/fairway/sched"
)

// move migrates jobs to idle GPUs: to bring a job onto fewer servers, to separate
// two that slow each other down, and to empty servers that are nearly empty.
func (d *decision) move() {
	if d.moves == 0 || d.idle.Total() == 0 {
		return
	}
	d.gather()
	if len(d.waiting) == 0 && d.queued == 0 {
		d.unpack()
	}
	d.defragment()
}

// gather moves jobs onto fewer servers, the oldest first.
func (d *decision) gather() {
	for _, i := range d.sorted(func(i int) bool {
		p := d.plan.Want[i]
		return len(p) > 1 && (len(p)-1)*d.stride >= p.GPUs() && d.movable(i)
	}) {
		if d.moves == 0 {
			return
		}
		j, old := d.s.Jobs[i], d.plan.Want[i]
		d.stop(i)
		d.leave(i)
		mark := d.idle.Mark()
		p, ok := d.idle.Within(j, old.GPUs(), sched.CrossRack)
		d.idle.Rollback(mark)
		if ok && len(p) < len(old) && d.live.Fits(j, p) {
			d.depart(i)
		} else {
			p = old
		}
		d.settle(i, p)
		d.run(i)
	}
}

// unpack moves one of two packed jobs, the later submitted, if one of them is
// measured to be slower than alone.
func (d *decision) unpack() {
	packed := d.sorted(func(i int) bool {
		j := d.s.Jobs[i]
		return d.runsOn(i) && j.Placement.Shared() && !j.Pinned() && d.s.Now.Sub(j.Since) >= d.Settle.D()
	})
	for _, i := range slices.Backward(packed) {
		if d.moves == 0 {
			return
		}
		j, k := d.s.Jobs[i], d.partner(i)
		if k < 0 || max(j.Slowdown, d.s.Jobs[k].Slowdown) <= parted {
			continue
		}
		if p, ok := d.spot(j, d.request(j, j.Placement.GPUs())); ok && len(p) <= len(j.Placement) && d.limits.left(j) >= p.GPUs() {
			d.relocate(i, p)
			d.depart(i)
		}
	}
}

// defragment empties servers of which at least three quarters are idle: the
// emptiest first, and only if all of its jobs find room on servers that are no
// emptier.
func (d *decision) defragment() {
	nodes := d.s.Cluster.Nodes
	var sparse []int
	for node := range nodes {
		if k := d.idle.OnNode(node).Len(); d.load[node] > 0 && nodes[node].State == sched.Ready && 4*k >= 3*nodes[node].Usable().Len() {
			sparse = append(sparse, node)
		}
	}
	slices.SortStableFunc(sparse, func(a, b int) int {
		return cmp.Compare(d.idle.OnNode(b).Len(), d.idle.OnNode(a).Len())
	})
	for _, node := range sparse {
		if d.moves == 0 {
			return
		}
		d.vacate(node)
	}
}

// vacate moves the jobs of a node to others that are no emptier, within the limit
// on moves, if there is room for all of them.
func (d *decision) vacate(node int) {
	jobs := slices.Clone(d.runs[node])
	gpus := 0
	for _, i := range jobs {
		if !d.movable(i) || len(d.plan.Want[i]) > 1 {
			return
		}
		gpus += d.plan.Want[i].GPUs()
	}
	if gpus != d.load[node] {
		return // a job is suspended here
	}
	idle := d.idle.OnNode(node).Len()
	moved := 0
	for _, i := range jobs {
		s, ok := d.fuller(d.s.Jobs[i], node, idle)
		if !ok {
			break
		}
		d.relocate(i, sched.Placement{s})
		moved++
	}
	keep := min(moved, d.moves)
	if moved < len(jobs) {
		keep = 0
	}
	for _, i := range jobs[keep:moved] {
		d.relocate(i, d.s.Jobs[i].Placement)
	}
	for _, i := range jobs[:keep] {
		d.depart(i)
	}
}

// fuller finds idle GPUs for a job of a node on the fullest server with room that
// has at most that many idle GPUs.
func (d *decision) fuller(j *sched.Job, from, idle int) (best sched.Slice, ok bool) {
	n := j.Placement.GPUs()
	for node := range d.s.Cluster.Nodes {
		free := d.idle.OnNode(node)
		if k := free.Len(); node == from || d.load[node] == 0 || k < n || k > idle ||
			d.s.Cluster.TypeOf(node) != d.s.Cluster.TypeOf(from) {
			continue
		}
		if s, fits := d.pick(j, node, free, n); fits {
			best, idle, ok = s, free.Len()-1, true
		}
	}
	return best, ok
}

// sorted returns the jobs for which the condition holds, in order of
// submission.
func (d *decision) sorted(holds func(i int) bool) []int {
	var out []int
	for i := range d.s.Jobs {
		if holds(i) {
			out = append(out, i)
		}
	}
	slices.SortFunc(out, func(a, b int) int { return cmp.Compare(d.s.Jobs[a].Seq, d.s.Jobs[b].Seq) })
	return out
}
