// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package defrag

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/goodput"
)

// spread returns running gangs that could be closer together in an empty cluster
// and might gain from it, those with the most to gain first.
func (d *decision) spread() []int {
	type candidate struct {
		job  int
		gain float64
	}
	var found []candidate
	for i, j := range d.s.Jobs {
		if len(j.Placement) < 2 || d.s.Now.Before(d.skip[j.ID]) || !d.movable(i) {
			continue
		}
		speed := d.speedOn(j, j.Placement)
		if speed >= 1 {
			continue
		}
		// An upper bound on the gain, by the knobs: a trial costs more.
		gain := d.saved(j, speed, 1).Seconds() * float64(j.Placement.GPUs())
		if j.Perf != nil || d.pays(d.cost(i), gain) {
			found = append(found, candidate{i, gain})
		}
	}
	slices.SortFunc(found, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(b.gain, a.gain), cmp.Compare(d.s.Jobs[a.job].Seq, d.s.Jobs[b.job].Seq))
	})
	out := make([]int, min(len(found), mostSpread))
	for k := range out {
		out[k] = found[k].job
	}
	return out
}

// moveBack moves a running gang to free GPUs that are closer together, if that
// pays.
func (d *decision) moveBack(i int) {
	j := d.s.Jobs[i]
	if d.moved >= d.Most || !d.movable(i) {
		return
	}
	mark := d.free.Mark()
	d.free.Release(j, j.Placement)
	d.skip.add(j.ID, d.s.Now.Add(2*time.Minute))
	p, ok := d.nearer(j)
	if !ok {
		d.free.Rollback(mark)
		return
	}
	slow, fast := d.speeds(j, p)
	saved, cost := d.saved(j, slow, fast), d.cost(i)
	gain := saved.Seconds() * float64(j.Placement.GPUs())
	e := sched.LedgerEntry{
		For: j.ID, Moved: []sched.JobID{j.ID}, Cost: cost, Gain: gain, Taken: d.pays(cost, gain),
		Text: fmt.Sprintf("%s (%d GPUs) %s from %s to %s and ends about %s sooner: %s", j.ID, p.GPUs(), verb(d.pays(cost, gain)),
			j.Placement.Text(d.s.Cluster), p.Text(d.s.Cluster), round(saved), sums(cost, gain)),
	}
	if !e.Taken {
		d.free.Rollback(mark)
		d.refuse(e)
		return
	}
	delete(d.skip, j.ID)
	d.move(i, p)
	d.record(e)
}

func verb(taken bool) string {
	if taken {
		return "moves"
	}
	return "could move"
}

// nearer takes GPUs for a job that has left its own: closer together, or as close
// on fewer nodes.
func (d *decision) nearer(j *sched.Job) (sched.Placement, bool) {
	now, n := d.s.Cluster.Level(j.Placement), j.Placement.GPUs()
	for level := sched.SameMachine; level < now; level++ {
		mark := d.free.Mark()
		if p, ok := d.free.Within(d.as(j), n, level); ok && !p.Shared() && d.s.Cluster.Level(p) < now {
			return p, true
		}
		d.free.Rollback(mark)
	}
	mark := d.free.Mark()
	if p, ok := fewestNodes(d.free, d.as(j), n); ok && !p.Shared() && len(p) < len(j.Placement) {
		return p, true
	}
	d.free.Rollback(mark)
	return nil, false
}

// speeds returns the speed of a job where it is and at another placement.
func (d *decision) speeds(j *sched.Job, to sched.Placement) (now, then float64) {
	if j.Perf != nil {
		a, ok1 := d.reported(j, j.Placement)
		b, ok2 := d.reported(j, to)
		if ok1 && ok2 {
			return a / b, 1 // the remaining time is that at the better placement
		}
	}
	return d.speedOn(j, j.Placement), d.speedOn(j, to)
}

// reported returns the speed that the job's agent expects at a placement.
func (d *decision) reported(j *sched.Job, p sched.Placement) (float64, bool) {
	c := d.s.Cluster
	shape := goodput.Shape{Nodes: len(p), GPUs: p.GPUs(), CrossRack: c.Level(p) == sched.CrossRack}
	_, speed, ok := j.Perf.Goodput(string(c.Nodes[p[0].Node].Type), shape)
	return speed, ok && speed > 0
}

// speedOn returns the speed of a gang at a placement, by the knobs, relative to the
// best it could have in an empty cluster. The knobs distinguish one node from two;
// more nodes than that, or than it needs, cost extra.
func (d *decision) speedOn(j *sched.Job, p sched.Placement) float64 {
	least := d.fewestFor(j)
	speed := d.byLevel(d.s.Cluster.Level(p)) * spreadSpeed(float64(len(p))/float64(max(2, least)))
	if least > 1 {
		speed /= d.byLevel(sched.SameRack)
	}
	return min(speed, 1)
}

// byLevel returns the speed of a gang relative to one node.
func (d *decision) byLevel(l sched.Level) float64 {
	switch l {
	case sched.SameRack:
		return d.Rack
	case sched.CrossRack:
		return d.Cross
	}
	return 1
}

// saved returns how much sooner a job ends at another speed. A job without an
// estimate is assumed to need as long again as it has run, up to the horizon.
func (d *decision) saved(j *sched.Job, now, then float64) time.Duration {
	left, known := j.Remaining(d.s.Now)
	if !known {
		left = min(j.RanBy(d.s.Now), d.Horizon.D())
	}
	return max(0, time.Duration(float64(left)*(1/now-1/then)))
}

// penalty returns what a waiting gang loses at a placement that is worse than the
// best it could have, in GPU-seconds. It may move back, so at most the horizon
// counts.
func (d *decision) penalty(j *sched.Job, p sched.Placement) float64 {
	left, known := j.Remaining(d.s.Now)
	if !known {
		left = d.Unknown.D()
	}
	return min(left, d.Horizon.D()).Seconds() * (1/d.speedOn(j, p) - 1) * float64(j.GPUs)
}

// spreadSpeed returns the speed of a gang on a multiple of the nodes it needs:
// Philly's utilisation of 16-GPU jobs on 2, 4 and 8 servers (ATC'19, table 5),
// relative to 2, interpolated between the logarithms.
func spreadSpeed(times float64) float64 {
	const twice, fourTimes = 0.94, 0.65
	switch x := math.Log2(times); {
	case x <= 0:
		return 1
	case x <= 1:
		return 1 - x*(1-twice)
	case x <= 2:
		return twice - (x-1)*(twice-fourTimes)
	}
	return fourTimes
}
