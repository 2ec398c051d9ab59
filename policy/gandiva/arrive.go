// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package gandiva

import (
	"slices"

	"github.com/fairway-gpu/fairway/sched"
)

// arrive finds GPUs for jobs without a home: idle ones, what elastic jobs can
// spare, or GPUs to share in turns.
func (d *decision) arrive() {
	for at, i := range d.waiting {
		j := d.s.Jobs[i]
		if len(d.home[i]) > 0 {
			continue
		}
		p, runs := d.admit(i, d.request(j, j.StartSize()))
		if p != nil {
			d.settle(i, p)
		}
		if runs {
			d.run(i)
		}
		if p == nil || runs {
			d.waiting[at] = gone
		}
	}
	d.waiting = slices.DeleteFunc(d.waiting, func(i int) bool { return i == gone })
}

// admit finds a home for a job and reports whether it can run there at once. If
// there is none, the plan gets the reason.
func (d *decision) admit(i int, w *request) (p sched.Placement, runs bool) {
	j := d.s.Jobs[i]
	left := d.room(j)
	switch {
	case !w.ever:
		d.plan.Why[i] = d.why(j, w)
		return nil, false
	case d.isBarred(j):
		d.plan.Why[i] = sched.Reason{Code: sched.Behind, Need: w.GPUs, Have: d.idle.Total()}
		d.queued++
		return nil, false
	case left >= w.GPUs: // else it can only share its tenant's GPUs
		if p, ok := d.avoiding(j, func() (sched.Placement, bool) { return d.spot(j, w) }); ok {
			return p, true
		}
		if p, ok := d.avoiding(j, func() (sched.Placement, bool) { return d.shrink(j, w) }); ok {
			return p, true
		}
	}
	if p, ok := d.avoiding(j, func() (sched.Placement, bool) { return d.share(j, w) }); ok {
		return p, false
	}
	if left < w.GPUs {
		d.plan.Why[i] = sched.Reason{Code: sched.OverQuota, Need: w.GPUs, Have: max(0, left)}
		return nil, false
	}
	d.plan.Why[i] = d.why(j, w)
	d.queued++
	if d.s.Now.Sub(j.Since) >= d.Patience.D() {
		d.bar(j)
	}
	return nil, false
}

// why returns why there are no idle GPUs for the job.
func (d *decision) why(j *sched.Job, w *request) sched.Reason {
	if w.why.Code == sched.Ok {
		w.why = d.idle.Why(j, w.GPUs, sched.CrossRack)
	}
	return w.why
}

// gone marks a job that no longer waits.
const gone = -1

// bar keeps all later jobs away from the GPU types that the job accepts.
func (d *decision) bar(j *sched.Job) {
	for t, name := range d.s.Cluster.Types {
		d.barred[t] = d.barred[t] || j.Accepts(name)
	}
}

func (d *decision) isBarred(j *sched.Job) bool {
	for t, name := range d.s.Cluster.Types {
		if d.barred[t] && j.Accepts(name) {
			return true
		}
	}
	return false
}

// spot finds idle GPUs by the rule for arrivals: on a server of the job's affinity,
// the least loaded first; else on an empty one; else on any single server; else on
// several.
func (d *decision) spot(j *sched.Job, w *request) (sched.Placement, bool) {
	if w.noIdle == d.freed || d.idle.Total() < w.GPUs {
		return nil, false
	}
	if w.GPUs <= d.stride {
		for _, t := range d.types(j) {
			if s, ok := d.server(j, w.GPUs, t); ok {
				return sched.Placement{s}, true
			}
		}
	}
	if j.Spreads(sched.SameRack) {
		mark := d.idle.Mark()
		p, ok := d.idle.Within(j, w.GPUs, sched.CrossRack)
		d.idle.Rollback(mark)
		if ok && d.live.Fits(j, p) {
			return p, true
		}
	}
	if d.everywhere(j) {
		w.noIdle = d.freed
	}
	return nil, false
}

// types returns the GPU types that the job accepts, best first; anyType stands
// for all of them.
func (d *decision) types(j *sched.Job) []int {
	if len(j.GPUTypes) == 0 {
		return []int{anyType}
	}
	out := make([]int, 0, len(j.GPUTypes))
	for _, name := range j.GPUTypes {
		if t := slices.Index(d.s.Cluster.Types, name); t >= 0 {
			out = append(out, t)
		}
	}
	return out
}

const anyType = -1

// server finds n idle GPUs of one server by affinity.
func (d *decision) server(j *sched.Job, n, gpuType int) (best sched.Slice, ok bool) {
	want := 1 + classOf(n)
	var rule, key int // of the best so far; smaller is better
	for node := range d.s.Cluster.Nodes {
		free := d.idle.OnNode(node)
		k := free.Len()
		if k < n {
			continue
		}
		r, v := 3, k // any server: best fit
		switch {
		case d.load[node] == 0:
			r, v = 2, k // an empty server: the smallest
		case d.class[node] == want:
			r, v = 1, d.load[node] // same size class: the least loaded
		}
		if ok && (r > rule || (r == rule && v >= key)) {
			continue
		}
		if gpuType != anyType && d.s.Cluster.TypeOf(node) != gpuType {
			continue
		}
		if s, fits := d.pick(j, node, free, n); fits {
			best, rule, key, ok = s, r, v, true
		}
	}
	return best, ok
}

// pick chooses n of a node's free GPUs for the job: inside one NVLink island if
// possible, the smallest that has room.
func (d *decision) pick(j *sched.Job, node int, free sched.GPUSet, n int) (sched.Slice, bool) {
	if !d.takes(j, node) {
		return sched.Slice{}, false
	}
	s := whole(node, 0)
	best := free.Len() + 1
	for _, island := range d.s.Cluster.Nodes[node].Islands {
		if k := (free & island).Len(); k >= n && k < best {
			best, s.GPUs = k, (free & island).Lowest(n)
		}
	}
	if s.GPUs == 0 {
		s.GPUs = free.Lowest(n)
	}
	p := sched.Placement{s}
	if j.MaxSpread == sched.SameSlot && d.s.Cluster.Level(p) > sched.SameSlot {
		return sched.Slice{}, false
	}
	return s, d.live.Fits(j, p)
}

// takes reports whether a node may host the job at all.
func (d *decision) takes(j *sched.Job, node int) bool {
	n := &d.s.Cluster.Nodes[node]
	return n.State == sched.Ready && j.Suits(n) && (d.anyNode || !slices.Contains(j.Avoid, n.Name))
}

// avoiding searches GPUs for a job that failed on some nodes: first on other nodes
// and, if there are none, anywhere.
func (d *decision) avoiding(j *sched.Job, search func() (sched.Placement, bool)) (sched.Placement, bool) {
	p, ok := search()
	if !ok && len(j.Avoid) > 0 {
		d.anyNode = true
		p, ok = search()
		d.anyNode = false
	}
	return p, ok
}

// everywhere reports whether a search for the job considers every node, so that no
// similar job can find what it did not.
func (d *decision) everywhere(j *sched.Job) bool { return d.anyNode || len(j.Avoid) == 0 }
