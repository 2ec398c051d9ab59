// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package themis

import (
	"slices"
	"time"

	"github.com/fairway-gpu/fairway/sched"
)

// heir returns a job of the same app that must replace a job whose lease has ended,
// or nil: the app would end later if the heir waited one more lease, and not if the
// other job did.
func (r *round) heir(j *job) *job {
	if a := j.app; j.length()+r.lease+restartCost > a.end {
		return nil
	}
	for _, other := range j.app.jobs {
		if other.length()+r.lease > j.app.end && other.waits(r) && other.Priority >= j.Priority && alike(other.Job, j.Job) && r.welcome(other, j.Placement) &&
			(!other.Pinned() || r.quota.Left(other.Job) >= j.Placement.GPUs()) {
			return other
		}
	}
	return nil
}

// alike reports whether a job can run wherever another does.
func alike(a, b *sched.Job) bool {
	return a.Fits(b.Placement.GPUs()) && a.Task() == b.Task() && a.CPUs == b.CPUs && a.Memory == b.Memory &&
		a.GPUMemory == b.GPUMemory && a.Tenant == b.Tenant && a.MaxSpread == b.MaxSpread && slices.Equal(a.Topology, b.Topology) && slices.Equal(a.GPUTypes, b.GPUTypes)
}

// welcome reports whether a job may use all nodes of a placement and avoids none of
// them.
func (r *round) welcome(j *job, p sched.Placement) bool {
	return !slices.ContainsFunc(p, func(s sched.Slice) bool {
		n := &r.s.Cluster.Nodes[s.Node]
		return !j.Suits(n) || j.avoids(n)
	})
}

// stagger is the number of tenths of a lease over which the ends of leases renewed
// together are spread. If all ended together, an app that arrives in between would
// find none that ends soon.
const stagger = 6

// renew lets a running job, or its heir, continue where it is for another lease.
func (r *round) renew(j *job) {
	if heir := r.heir(j); heir != nil {
		if !j.dropped {
			r.drop(j)
		}
		r.start(heir, j.Placement)
		return
	}
	if r.suffers(j) && r.gatherIn(j) {
		return
	}
	if j.dropped {
		r.free.Take(j.Job, j.Placement)
		r.quota.Add(j.Job, j.Placement.GPUs())
		j.dropped = false
	}
	j.won = true
	r.plan.Want[j.index] = j.Placement
	r.since[j.index] = r.s.Now.Add(-time.Duration(j.Seq%stagger) * r.Lease.D() / 10)
	j.app.hold(j.Placement)
}

// suffers reports whether a running job loses more by being spread than allowed,
// and more than a move would cost.
func (r *round) suffers(j *job) bool {
	slow, _, ok := r.observed(j)
	return ok && slow > r.Slowdown && j.Placement.GPUs() <= r.s.Cluster.MaxGPUs() && len(j.Placement) > 1
}

// gatherIn moves a spread job to one node, if a node has enough idle GPUs and the
// gain soon exceeds the cost of the move.
func (r *round) gatherIn(j *job) bool {
	slow, _, _ := r.observed(j)
	if j.length()*(slow-1) < 2*restartCost {
		return false
	}
	if !j.dropped {
		r.drop(j)
	}
	n := j.Placement.GPUs()
	node, ok := r.idleNode(j, n, r.s.Cluster.Nodes[j.Placement[0].Node].Type)
	if !ok {
		return false
	}
	r.start(j, sched.Placement{r.pick(node, n)})
	return true
}

// renewAll keeps every running job whose GPUs were not given away.
func (r *round) renewAll() {
	for _, a := range r.apps {
		for _, j := range a.jobs {
			if j.expired && !j.won && (!j.dropped || r.canReturn(j)) {
				r.renew(j)
			}
		}
	}
}

func (r *round) canReturn(j *job) bool {
	return r.free.Fits(j.Job, j.Placement) && r.quota.Left(j.Job) >= j.Placement.GPUs()
}

// drop takes a running job off its GPUs.
func (r *round) drop(j *job) {
	j.dropped = true
	r.free.Release(j.Job, j.Placement)
	r.quota.Add(j.Job, -j.Placement.GPUs())
}
