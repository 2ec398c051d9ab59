// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package quincy

import (
	"cmp"
	"slices"

	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/place"
)

// plan finds GPUs for the verdicts.
func (d *decision) plan() sched.Plan {
	shadow := *d.s
	shadow.Jobs = slices.Clone(d.s.Jobs)
	keep := make([]int, 0, len(d.order))
	var start, move, stop, rest []int
	for _, i := range d.order {
		j := d.s.Jobs[i]
		switch running := j.Phase == sched.Running; {
		case d.verdict[i] == stays:
			keep = append(keep, i)
		case d.verdict[i] == other && running:
			alias := *j
			alias.GPUs, alias.Phase, alias.Placement = j.Placement.GPUs(), sched.Pending, nil
			shadow.Jobs[i] = &alias
			move = append(move, i)
		case d.verdict[i] == other:
			start = append(start, i)
		case running:
			stop = append(stop, i)
		default:
			rest = append(rest, i)
		}
	}
	for _, jobs := range [][]int{start, stop, rest} {
		d.byDelay(jobs)
	}
	if len(d.first) > 0 {
		start = slices.Concat(d.first, slices.DeleteFunc(start, func(i int) bool { return slices.Contains(d.first, i) }))
	}
	free := d.free.For(d.s.Cluster)
	queue := place.Queue{Preempt: true, Place: d.place, Level: d.level}
	plan := queue.Plan(&shadow, slices.Concat(keep, start, move, stop, rest), free)
	d.unmove(move, free, plan)
	return plan
}

// place takes GPUs as close to each other as the job's delay demands.
func (d *decision) place(f *place.Free, j *sched.Job, n int) (sched.Placement, bool) {
	return place.Ladder{}.Place(f, j, n, d.level(j))
}

// level returns the locality that the placement of a job insists on; SameMachine
// stands for the fewest nodes possible. A job that fits in no rack does not wait
// for one.
func (d *decision) level(j *sched.Job) sched.Level {
	if !j.Consolidate || d.free.Ever(j, j.GPUs, sched.SameRack) < j.GPUs {
		return sched.CrossRack
	}
	return place.Ladder{Rack: d.Rack.D(), Any: d.Cross.D()}.Rung(d.delayOf(d.s, j))
}

// unmove leaves jobs where they are if no other job has taken their GPUs.
func (d *decision) unmove(jobs []int, free *place.Free, plan sched.Plan) {
	quota := place.NewQuota(d.s)
	for i, j := range d.s.Jobs {
		quota.Add(j, plan.Want[i].GPUs())
	}
	for _, i := range jobs {
		j := d.s.Jobs[i]
		mark := free.Mark()
		free.Release(j, plan.Want[i])
		if !free.Fits(j, j.Placement) || quota.Left(j)+plan.Want[i].GPUs() < j.Placement.GPUs() {
			free.Rollback(mark)
			continue
		}
		free.Take(j, j.Placement)
		quota.Add(j, j.Placement.GPUs()-plan.Want[i].GPUs())
		plan.Want[i], plan.Why[i] = j.Placement, sched.Reason{}
	}
}

// mostCleared bounds the number of gangs for which one decision makes room.
const mostCleared = 8

// clear makes room for waiting gangs whose delay costs more than stopping every job
// in their way, and reports whether it did.
func (d *decision) clear(plan sched.Plan) bool {
	var gangs []int
	for _, i := range d.order {
		if j := d.s.Jobs[i]; j.GPUs > 1 && j.Phase == sched.Pending && place.Waits(plan, i) && d.delay[i] > d.Idle.D()+d.Preempt.D() {
			gangs = append(gangs, i)
		}
	}
	if len(gangs) == 0 {
		return false
	}
	d.byDelay(gangs)
	on := d.occupants(plan)
	quota := place.NewQuota(d.s)
	for i, j := range d.s.Jobs {
		quota.Add(j, plan.Want[i].GPUs())
	}
	for _, i := range gangs[:min(len(gangs), mostCleared)] {
		j := d.s.Jobs[i]
		if quota.Left(j) < j.GPUs {
			continue
		}
		if victims, ok := d.cheapest(i, on); ok {
			for _, v := range victims {
				d.verdict[v] = left
			}
			d.verdict[i] = other
			d.first = append(d.first, i)
			return true // one at a time: the occupants of the nodes have changed
		}
	}
	return false
}

// occupant is a job on a node.
type occupant struct {
	job    int
	gpus   int  // on that node
	victim bool // it runs and may be stopped
}

// occupants returns, by node, the jobs that a plan runs there.
func (d *decision) occupants(plan sched.Plan) [][]occupant {
	on := make([][]occupant, len(d.s.Cluster.Nodes))
	for _, i := range d.order {
		j := d.s.Jobs[i]
		victim := j.Phase == sched.Running && !j.Pinned() && plan.Want[i].Equal(j.Placement)
		for _, s := range plan.Want[i] {
			on[s.Node] = append(on[s.Node], occupant{i, s.GPUs.Len(), victim})
		}
	}
	return on
}

// price returns the cost of leaving a job out, in seconds.
func (d *decision) price(i int) int64 { return seconds(d.delay[i]) * int64(gpus(d.s.Jobs[i])) }

// site is what it takes to free GPUs of a node.
type site struct {
	node    int
	gpus    int
	price   int64 // of stopping all of them, in seconds
	victims []int
}

// cheapest returns the jobs to stop to make room for a gang at the lowest price, if
// that is below the gang's delay.
func (d *decision) cheapest(gang int, on [][]occupant) ([]int, bool) {
	j := d.s.Jobs[gang]
	c := d.s.Cluster
	limit := d.price(gang)
	var best []int
	found := false
	consider := func(price int64, victims []int) {
		if price < limit && len(victims) > 0 {
			best, limit, found = victims, price, true
		}
	}
	var sites []site
	for node := range c.Nodes {
		if s, ok := d.site(j, node, on[node]); ok {
			if s.gpus >= j.GPUs {
				consider(s.price, s.victims)
			}
			sites = append(sites, s)
		}
	}
	if found || (j.MaxSpread != sched.NoLevel && j.MaxSpread <= sched.SameMachine) {
		return best, found
	}
	slices.SortStableFunc(sites, func(a, b site) int {
		return cmp.Compare(float64(a.price)/float64(a.gpus), float64(b.price)/float64(b.gpus))
	})
	for t := range c.Types {
		for r := range c.Racks {
			consider(gather(sites, j.GPUs, func(n int) bool { return c.TypeOf(n) == t && c.RackOf(n) == r }))
		}
		if j.MaxSpread == sched.NoLevel || j.MaxSpread > sched.SameRack {
			consider(gather(sites, j.GPUs, func(n int) bool { return c.TypeOf(n) == t }))
		}
	}
	return best, found
}

// site returns the cheapest way to free enough GPUs of a node for the gang, or all
// that can be freed.
func (d *decision) site(j *sched.Job, node int, on []occupant) (site, bool) {
	n := &d.s.Cluster.Nodes[node]
	if n.State != sched.Ready || !j.Suits(n) {
		return site{}, false
	}
	s := site{node: node, gpus: n.Usable().Len()}
	victims := make([]occupant, 0, len(on))
	for _, o := range on {
		s.gpus -= o.gpus
		if o.victim {
			victims = append(victims, o)
		}
	}
	slices.SortStableFunc(victims, func(a, b occupant) int {
		return cmp.Compare(float64(d.price(a.job))/float64(a.gpus), float64(d.price(b.job))/float64(b.gpus))
	})
	for _, v := range victims {
		if s.gpus >= j.GPUs {
			break
		}
		s.gpus += v.gpus
		s.price += d.price(v.job)
		s.victims = append(s.victims, v.job)
	}
	s.gpus = s.gpus / j.Task() * j.Task()
	return s, s.gpus > 0
}

// gather adds up the sites that a gang needs, the cheapest first. A victim on two
// of them is counted twice, so the sum is an upper bound.
func gather(sites []site, n int, in func(node int) bool) (int64, []int) {
	var price int64
	var victims []int
	for _, s := range sites {
		if !in(s.node) {
			continue
		}
		price += s.price
		victims = append(victims, s.victims...)
		if n -= s.gpus; n <= 0 {
			return price, victims
		}
	}
	return 0, nil
}
