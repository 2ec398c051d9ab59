// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package horus

import (
	"cmp"
	"slices"
	"time"

	"github.com/fairway-gpu/fairway/policy/pairing"
	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/place"
)

// Schedule implements sched.Policy.
func (p *policy) Schedule(s *sched.Snapshot) sched.Plan {
	d := &decision{policy: p, Seating: p.seating(s, nil)}
	if p.Migrate {
		if leaves := d.overloaded(); leaves != nil {
			d.Seating = p.seating(s, leaves)
		}
	}
	for i := range s.Jobs {
		if d.Waits(i) {
			d.waiting = append(d.waiting, i)
		}
	}
	d.sort(d.waiting)
	d.longWaiters()
	if p.plus {
		d.byClass()
	} else {
		d.byUtil()
	}
	return d.Plan
}

func (p *policy) seating(s *sched.Snapshot, leaves *sched.Job) *place.Seating {
	p.seats, p.free = p.seats.For(s, p.Jobs, p.Margin<<20), p.free.For(s.Cluster)
	return place.NewSeating(s, p.seats, p.free, leaves)
}

// decision is the work on one plan.
type decision struct {
	*policy
	*place.Seating
	waiting []int // jobs that may start, the lowest utilisation first
	utils   [pairing.MostJobs]float64
}

// util is a job's expected utilisation of its GPUs; 1 if unknown.
func util(j *sched.Job) float64 {
	if j.GPUUtil > 0 {
		return j.GPUUtil
	}
	return 1
}

// sort puts jobs in the order of a queue.
func (d *decision) sort(jobs []int) {
	slices.SortFunc(jobs, func(a, b int) int {
		x, y := d.Snapshot.Jobs[a], d.Snapshot.Jobs[b]
		return cmp.Or(cmp.Compare(y.Priority, x.Priority), cmp.Compare(util(x), util(y)), cmp.Compare(x.Seq, y.Seq))
	})
}

// start starts a job if there is room.
func (d *decision) start(i int) bool {
	return d.Start(i, place.Ask{Idle: true}, d.cost)
}

// cost is the price of a GPU for a job, equations 7 to 10 of the paper.
func (d *decision) cost(on *place.Company, j *sched.Job) (float64, bool) {
	if len(on.Jobs) > 0 && d.bound.Limit > 0 {
		utils := append(d.utils[:0], util(j))
		for _, other := range on.Jobs {
			utils = append(utils, other.GPUUtil)
		}
		if !d.bound.Holds(string(d.Snapshot.Cluster.Types[on.Type]), utils) {
			return 0, false
		}
	}
	cost := d.Crowd * float64(len(on.Jobs))
	if on.Capacity > 0 {
		cost += d.W1 * float64(on.Memory+j.GPUMemory) / float64(on.Capacity)
	}
	if sum := on.Util + util(j); sum > 1 {
		return cost + d.W2*d.Over*(sum-1), true
	} else {
		return cost + d.W2*(1-sum), true
	}
}

// longWaiters starts the jobs that have waited for patience, by submission, and
// reserves GPUs for those that do not fit.
func (d *decision) longWaiters() {
	now := d.Snapshot.Now
	var long []int
	d.waiting = slices.DeleteFunc(d.waiting, func(i int) bool {
		j := d.Snapshot.Jobs[i]
		is := j.Phase == sched.Pending && now.Sub(j.Since) >= d.Patience.D()
		if is {
			long = append(long, i)
		}
		return is
	})
	slices.SortFunc(long, func(a, b int) int { return cmp.Compare(d.Snapshot.Jobs[a].Seq, d.Snapshot.Jobs[b].Seq) })
	most := max(d.Snapshot.Cluster.MaxGPUs(), int(d.Reserve*float64(d.Snapshot.Cluster.GPUs())))
	reserving := true
	for k, i := range long {
		if d.start(i) || d.OverQuota(i) || !reserving {
			continue
		}
		j := d.Snapshot.Jobs[i]
		// The oldest job gets its reservation whatever its size.
		if k == 0 {
			reserving = d.Seats.Reserve(j, j.GPUs, max(most, j.GPUs))
		} else {
			reserving = d.Seats.Reserve(j, j.GPUs, most)
		}
	}
}

// byUtil serves one queue, and gives up when too many jobs do not fit.
func (d *decision) byUtil() {
	missed := 0
	for _, i := range d.waiting {
		if missed < d.Lookahead {
			if !d.start(i) && !d.OverQuota(i) {
				missed++
			}
			continue
		}
		j := d.Snapshot.Jobs[i]
		d.Plan.Why[i] = sched.Reason{Code: sched.Behind, Need: j.GPUs, Have: d.Idle()}
		d.wakeFor(j)
	}
}

// wakeFor asks for a decision when the patience of a job that was not tried ends:
// at full tenths of the patience, so that one decision serves many.
func (d *decision) wakeFor(j *sched.Job) {
	step := max(time.Minute, d.Patience.D()/10)
	at := j.Since.Add(d.Patience.D())
	if whole := at.Truncate(step); whole.Before(at) {
		at = whole.Add(step)
	}
	d.Plan.WakeBy(d.Snapshot.Now, at)
}

// overloaded returns the busiest job of the fullest GPU that more than two jobs
// share, if another GPU is idle and the job can be stopped.
func (d *decision) overloaded() *sched.Job {
	if d.Idle() == 0 {
		return nil
	}
	var found *sched.Job
	most := 2
	c := d.Snapshot.Cluster
	for node := range c.Nodes {
		for gpu := range c.Nodes[node].GPUs {
			on := d.Seats.On(node, gpu)
			if len(on) <= most {
				continue
			}
			for _, j := range on {
				if !j.Pinned() && (len(on) > most || util(j) > util(found)) {
					found, most = j, len(on)
				}
			}
		}
	}
	return found
}
