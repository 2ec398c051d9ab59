// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package screen

import (
	"cmp"
	"slices"

	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/place"
)

// longest is how many of the longest-waiting gangs makeWay considers; the others
// will be among them in time.
const longest = 4

// makeWay checks whether a job of the policy below has waited too long: twice as
// long as a new job waits for the pool. While there is one, nothing is held back;
// and while it is a gang that would fit if no job were screened, no further job is
// screened.
//
// A job of one GPU is never blocked by a bounded pool: it does not need GPUs close
// together.
func (d *decision) makeWay(quota place.Quota) {
	var late []*sched.Job
	for i, j := range d.s.Jobs {
		if d.roles[i] == trusted && j.Phase == sched.Pending && j.Ready(d.s.Now) &&
			d.s.Now.Sub(j.Since) >= 2*d.Patience.D() && quota.Left(j) >= j.GPUs {
			d.late = true
			if j.GPUs > 1 {
				late = append(late, j)
			}
		}
	}
	if len(late) == 0 {
		return
	}
	slices.SortFunc(late, func(a, b *sched.Job) int { return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Seq, b.Seq)) })
	d.gangs = late[:min(longest, len(late))]
	now := d.fitting()
	mark := d.free.Mark()
	for i, j := range d.s.Jobs {
		if d.roles[i] == screened {
			d.free.Release(j, d.at[i])
		}
	}
	d.blocked = d.fitting() > now
	d.free.Rollback(mark)
}

// place takes n GPUs of one node for a screening, unless a gang that has waited too
// long needs them.
func (d *decision) place(j *sched.Job, n int) (sched.Placement, bool) {
	before := d.fitting()
	mark := d.free.Mark()
	at, ok := d.find(d.small(j, n), n)
	if ok && d.fitting() < before {
		d.free.Rollback(mark)
		return nil, false
	}
	return at, ok
}

// find takes n GPUs of one node of the pool.
func (d *decision) find(j *sched.Job, n int) (sched.Placement, bool) {
	if d.Pool == "" {
		return d.free.Within(j, n, sched.SameMachine)
	}
	var best sched.Placement
	fewest := sched.MaxGPUs + 1 // free GPUs of that node
	for i := range d.s.Cluster.Nodes {
		node, free := &d.s.Cluster.Nodes[i], d.free.OnNode(i)
		if k := free.Len(); k < n || k >= fewest || !d.inPoolNode(node) || !j.Suits(node) || slices.Contains(j.Avoid, node.Name) {
			continue
		}
		p := sched.Placement{{Node: int32(i), Milli: sched.WholeGPU, GPUs: free.Lowest(n)}}
		if d.free.Fits(j, p) && j.Spreads(d.s.Cluster.Level(p)) {
			best, fewest = p, free.Len()
		}
	}
	d.free.Take(j, best)
	return best, best != nil
}

// fitting counts the ways to place each of the gangs that have waited too long on
// its own: as close together as there is room, and on the fewest nodes.
func (d *decision) fitting() int {
	n := 0
	for _, j := range d.gangs {
		for _, strategy := range []place.Strategy{place.Consolidated, place.FewestNodes} {
			mark := d.free.Mark()
			if _, ok := strategy(d.free, j, j.GPUs); ok {
				n++
			}
			d.free.Rollback(mark)
		}
	}
	return n
}
