// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package gandiva

import (
	"cmp"
	"math/bits"
	"slices"

	"github.com/fairway-gpu/fairway/sched"
)

// share finds GPUs that a job can share in turns with their residents.
func (d *decision) share(j *sched.Job, w *request) (sched.Placement, bool) {
	if w.noShare == d.left || j.Pinned() || d.MaxHeight < 2 {
		return nil, false
	}
	for _, t := range d.types(j) {
		if p := d.shareOf(j, w.GPUs, t); p != nil {
			return p, true
		}
	}
	if d.everywhere(j) {
		w.noShare = d.left
	}
	return nil, false
}

// shareOf finds GPUs of one type to share: on one server, or on several if no
// server has that many.
func (d *decision) shareOf(j *sched.Job, n, gpuType int) sched.Placement {
	if n <= d.stride {
		if p := d.shareServer(j, n, gpuType); p != nil {
			return p
		}
	}
	if n <= d.stride || !j.Spreads(sched.SameRack) {
		return nil
	}
	if gpuType != anyType {
		return d.shareServers(j, n, gpuType)
	}
	for t := range d.s.Cluster.Types {
		if p := d.shareServers(j, n, t); p != nil {
			return p
		}
	}
	return nil
}

// shareServer finds n GPUs of one server: of the job's affinity before others,
// and the least loaded.
func (d *decision) shareServer(j *sched.Job, n, gpuType int) sched.Placement {
	want := 1 + classOf(n)
	var best sched.Placement
	var strange bool // the best so far has another affinity
	var load int     // and this load
	for node := range d.s.Cluster.Nodes {
		other := d.class[node] != want
		if d.load[node]+n > d.MaxHeight*d.s.Cluster.Nodes[node].Usable().Len() ||
			(best != nil && (other && !strange || other == strange && d.load[node] >= load)) ||
			(gpuType != anyType && d.s.Cluster.TypeOf(node) != gpuType) {
			continue
		}
		if s, ok := d.slot(j, node, n); ok {
			best, strange, load = sched.Placement{s}, other, d.load[node]
		}
	}
	return best
}

// slot chooses n GPUs of a node to share: those of a running job of that size, the
// lowest height first, or else the n lowest.
func (d *decision) slot(j *sched.Job, node, n int) (sched.Slice, bool) {
	may := d.mayShare(j, node, n)
	if may.Len() < n {
		return sched.Slice{}, false
	}
	s := whole(node, 0)
	least := 0
	for _, b := range d.runs[node] {
		if p := d.plan.Want[b]; len(p) == 1 && p[0].GPUs.Len() == n && p[0].GPUs&^may == 0 {
			if h := d.highest(p); s.GPUs == 0 || h < least {
				s.GPUs, least = p[0].GPUs, h
			}
		}
	}
	if s.GPUs == 0 {
		s.GPUs = d.lowest(node, may, n)
	}
	ok := j.MaxSpread != sched.SameSlot || d.s.Cluster.Level(sched.Placement{s}) <= sched.SameSlot
	return s, ok
}

// mayShare returns the GPUs of a node on which a job of n GPUs may become another
// resident: only its tenant's own if the tenant may use no others.
func (d *decision) mayShare(j *sched.Job, node, n int) sched.GPUSet {
	if !d.takes(j, node) {
		return 0
	}
	may := d.s.Cluster.Nodes[node].Usable() &^ d.pinned[node]
	if d.room(j) < n {
		for t := range d.limits.of(j) {
			may &= d.limits.own[t][node]
		}
	}
	for g := may; g != 0; g &= g - 1 {
		if int(d.height[node*d.stride+bits.TrailingZeros64(uint64(g))]) >= d.MaxHeight {
			may &^= g & -g
		}
	}
	return may
}

// lowest returns the n GPUs of the set with the lowest height.
func (d *decision) lowest(node int, of sched.GPUSet, n int) sched.GPUSet {
	gpus := of.Indexes()
	slices.SortStableFunc(gpus, func(a, b int) int {
		return cmp.Compare(d.height[node*d.stride+a], d.height[node*d.stride+b])
	})
	var out sched.GPUSet
	for _, g := range gpus[:n] {
		out |= 1 << g
	}
	return out
}

// shareServers finds n GPUs of one type on several servers, the least loaded
// first: in one rack if there is one with that many, the least loaded one.
func (d *decision) shareServers(j *sched.Job, n, gpuType int) sched.Placement {
	c := d.s.Cluster
	byRack := make([]roomy, len(c.Racks))
	var all roomy
	for node := range c.Nodes {
		if c.TypeOf(node) != gpuType {
			continue
		}
		if k := d.mayShare(j, node, n).Len() / j.Task() * j.Task(); k > 0 {
			byRack[c.RackOf(node)].add(node, k, d.load[node])
			all.add(node, k, d.load[node])
		}
	}
	var best *roomy
	for r := range byRack {
		if in := &byRack[r]; in.gpus >= n && (best == nil || in.load*best.gpus < best.load*in.gpus) {
			best = in
		}
	}
	if best == nil && j.Spreads(sched.CrossRack) && all.gpus >= n {
		best = &all
	}
	if best == nil {
		return nil
	}
	slices.SortStableFunc(best.nodes, func(a, b int) int { return cmp.Compare(d.load[a], d.load[b]) })
	var p sched.Placement
	for left, at := n, 0; left > 0; at++ {
		node := best.nodes[at]
		may := d.mayShare(j, node, n)
		k := min(left, may.Len()/j.Task()*j.Task())
		p = append(p, whole(node, d.lowest(node, may, k)))
		left -= k
	}
	return p
}

// roomy is a set of servers with GPUs to share.
type roomy struct {
	nodes      []int
	gpus, load int
}

func (r *roomy) add(node, gpus, load int) {
	r.nodes = append(r.nodes, node)
	r.gpus += gpus
	r.load += load
}
