// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package share

import (
	"slices"

	"github.com/fairway-gpu/fairway/policy/pairing"
	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/place"
)

// decision is the work on one plan.
type decision struct {
	*policy
	s     *sched.Snapshot
	plan  sched.Plan
	utils [pairing.MostJobs]float64
}

// seat turns the starts of jobs that may share into seats, and leaves seated jobs
// where they are. It reports whether any job may share.
func (d *decision) seat() bool {
	any := false
	seat := int32(sched.WholeGPU / d.Jobs)
	for i, j := range d.s.Jobs {
		if !place.Sharable(j) {
			continue
		}
		any = true
		want := d.plan.Want[i]
		switch {
		case len(want) == 0 || want.Equal(j.Placement):
		case sits(j.Placement, want, seat):
			d.plan.Want[i] = j.Placement
		case whole(want) && !(d.plan.Screening != nil && d.plan.Screening[i]) && d.inviting(j, want):
			d.plan.Want[i] = shared(want, seat)
		}
	}
	return any
}

// sits reports whether a job has seats on exactly the GPUs it is to have, and is to
// have no less of them.
func sits(has, want sched.Placement, seat int32) bool {
	return slices.EqualFunc(has, want, func(a, b sched.Slice) bool {
		return a.Node == b.Node && a.GPUs == b.GPUs && a.Milli == seat && b.Milli >= a.Milli
	})
}

func whole(p sched.Placement) bool { return len(p) > 0 && !p.Shared() }

// shared returns the placement with one seat on each GPU.
func shared(p sched.Placement, seat int32) sched.Placement {
	q := slices.Clone(p)
	for i := range q {
		q[i].Milli = seat
	}
	return q
}

// lightest is the utilisation of the lightest conceivable guest.
const lightest = 0.05

// inviting reports whether any job could ever share a job's GPUs.
func (d *decision) inviting(j *sched.Job, at sched.Placement) bool {
	node := &d.s.Cluster.Nodes[at[0].Node]
	if node.GPUMemory > 0 && j.GPUMemory+d.Margin<<20 >= node.GPUMemory {
		return false
	}
	return d.bound.Holds(string(node.Type), append(d.utils[:0], j.GPUUtil, lightest))
}

// judge returns the cost of a seat for a guest.
func (d *decision) judge(on *place.Company, j *sched.Job) (float64, bool) {
	utils := append(d.utils[:0], j.GPUUtil)
	for _, other := range on.Jobs {
		utils = append(utils, other.GPUUtil)
	}
	if !d.bound.Holds(string(d.s.Cluster.Types[on.Type]), utils) {
		return 0, false
	}
	for _, other := range on.Jobs {
		if _, bad := d.apart.Get(j, other); bad {
			return 0, false
		}
	}
	return cost(on, j), true
}

// The weights of Horus: memory, and the cost of a utilisation above 1 relative to
// one below.
const (
	memoryWeight = 1.3
	overWeight   = 1.6
)

// cost is that of Horus: a GPU is filled towards a utilisation of 1.
func cost(on *place.Company, j *sched.Job) float64 {
	c := 0.0
	if on.Capacity > 0 {
		c = memoryWeight * float64(on.Memory+j.GPUMemory) / float64(on.Capacity)
	}
	if sum := on.Util + j.GPUUtil; sum > 1 {
		return c + overWeight*(sum-1)
	} else {
		return c + 1 - sum
	}
}

// invite seats waiting jobs beside others, by priority and submission, and keeps
// GPUs free of guests for jobs that have waited long.
func (d *decision) invite() {
	var waiting []int
	guests := false
	for i, j := range d.s.Jobs {
		// The policy below may count whole GPUs where a seat is within the quota.
		if place.Waits(d.plan, i) || d.plan.Why[i].OverShare() {
			waiting = append(waiting, i)
			guests = guests || place.Sharable(j)
		}
	}
	if !guests {
		return
	}
	quota := d.occupy()
	if !d.anySeat() {
		return
	}
	d.sort(waiting)
	most := int(d.Reserve * float64(d.s.Cluster.GPUs()))
	first, reserving := true, true
	for _, i := range waiting {
		j := d.s.Jobs[i]
		if d.sitDown(i, quota) {
			continue
		}
		if d.plan.Why[i].OverShare() || j.Phase != sched.Pending || d.s.Now.Sub(j.Since) < d.Hold.D() || !reserving {
			continue
		}
		limit := most
		if first { // the oldest job gets its reservation whatever its size
			limit = max(most, j.GPUs)
		}
		first = false
		reserving = d.seats.Reserve(j, j.GPUs, limit)
	}
}

// occupy records who sits where in the plan, by submission, and the quotas they
// use.
func (d *decision) occupy() place.Quota {
	d.seats = d.seats.For(d.s, d.Jobs, d.Margin<<20)
	quota := place.NewQuota(d.s)
	var running []int
	for i, j := range d.s.Jobs {
		if want := d.plan.Want[i]; len(want) > 0 {
			quota.AddMilli(j, want.Milli())
			running = append(running, i)
		}
	}
	slices.SortFunc(running, func(a, b int) int { return int(d.s.Jobs[a].Seq - d.s.Jobs[b].Seq) })
	for _, i := range running {
		d.seats.Take(d.s.Jobs[i], d.plan.Want[i])
	}
	return quota
}

// anySeat reports whether some GPU has a free seat.
func (d *decision) anySeat() bool {
	for node := range d.s.Cluster.Nodes {
		if d.seats.Open(node) != 0 {
			return true
		}
	}
	return false
}

// sort puts jobs in order: larger priorities first, then by submission.
func (d *decision) sort(jobs []int) {
	slices.SortFunc(jobs, func(a, b int) int {
		x, y := d.s.Jobs[a], d.s.Jobs[b]
		if x.Priority != y.Priority {
			return y.Priority - x.Priority
		}
		return int(x.Seq - y.Seq)
	})
}

// sitDown gives a job seats beside others, if it finds any.
func (d *decision) sitDown(i int, quota place.Quota) bool {
	j := d.s.Jobs[i]
	if !place.Sharable(j) || j.OnProbation(d.s.Now) {
		return false
	}
	ask := place.Ask{Job: j, GPUs: j.GPUs}
	if !d.apart.Empty() {
		ask.Key = pairing.Kind(j)
	}
	p, ok := d.seats.Find(ask, d.judge)
	if !ok || !quota.Fits(j, p) {
		return false
	}
	d.seats.Take(j, p)
	quota.AddMilli(j, p.Milli())
	d.plan.Want[i], d.plan.Why[i] = p, sched.Reason{}
	return true
}
