// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package quincy

import (
	"cmp"
	"slices"
	"time"

	"github.com/fairway-gpu/fairway/policy/flow"
	"github.com/fairway-gpu/fairway/sched"
)

// network is the flow of one decision. Only what differs for some job has a node of its
// own: GPUs that all jobs can use alike are a pool, and jobs that differ only in their
// delay are a group, in which each is an arc.
type network struct {
	flow.Graph
	*decision
	spots    []spot // by node of the cluster
	pools    []pool
	poolAt   map[int32]int // by node of the flow
	memories []int64       // GPU memory of pools, ascending
	anywhere map[kind]int32
	groups   map[key]*group
	all      []*group
	waits    []int32      // by tenant
	demand   []int        // by tenant: units of its jobs
	able     []*sched.Job // those of tenants, if some have parents
	pinned   []int        // by tenant: GPUs of jobs that are not part of the flow
	marked   bool         // labels of nodes matter
}

// pool is the GPUs of nodes that are equivalent for every job.
type pool struct {
	node   int32
	out    int32 // its arc to the sink
	gpu    sched.GPUType
	memory int64
	like   *sched.Node // one of them
	room   int         // GPUs for jobs of the flow
	held   int         // by jobs that stay, in the first flow
}

// spot is where the flow has the GPUs of a node of the cluster.
type spot struct {
	at   int32 // a node of the flow; the sink, if only jobs that are there may use it
	pool int   // -1: none
	down bool
}

// kind is what decides which pools a job may use, and at what price.
type kind struct {
	types  string
	memory int // the number of pools' memories that are too small
	needs  string
}

// key is what the jobs of a group have in common.
type key struct {
	stay  int32 // where they run; -1: they wait
	to    int32 // anywhere; -1: there is no such place
	waits int32
	own   int // 1 + the job, if it is on several spots
}

// group is jobs that differ only in what it costs to leave them out.
type group struct {
	key
	node  int32
	stays []int32 // arcs to where they run
	move  int32   // arc to elsewhere; -1: none
	jobs  []int
	outs  []int32 // by job: its arc to the place where it waits
	gpus  int
}

// seconds turns a price into whole seconds.
func seconds(d time.Duration) int64 { return int64(d / time.Second) }

// cost is a price in the flow: seconds, in parts that leave room for breaking ties.
func cost(d time.Duration) int64 { return seconds(d) * parts }

const parts = 1 << 12

// outCost is the cost of leaving a job out. Of jobs that run and cost the same, those
// on the same nodes are out together, so that a gang finds room.
func (n *network) outCost(i int) int64 {
	tie := 0
	if j := n.s.Jobs[i]; j.Phase == sched.Running {
		tie = int(j.Placement[0].Node) * parts / len(n.spots)
	}
	return cost(n.delay[i]) + int64(tie)
}

// solve finds the cheapest flow and reads the verdicts from it.
func (d *decision) solve() {
	n := &network{
		decision: d, poolAt: map[int32]int{}, anywhere: map[kind]int32{}, groups: map[key]*group{}, waits: make([]int32, len(d.s.Tenants)),
		demand: make([]int, len(d.s.Tenants)), pinned: make([]int, len(d.s.Tenants)),
		marked: d.s.Cluster.HasDedicated() || slices.ContainsFunc(d.s.Jobs, func(j *sched.Job) bool { return j.Selector != "" }),
	}
	n.Node() // the sink
	for t := range n.waits {
		n.waits[t] = n.Node()
	}
	n.addSpots()
	for _, i := range d.taking() {
		n.add(i)
	}
	n.tenants(n.begin())
	n.Solve()
	for _, g := range n.all {
		n.read(g)
	}
}

// read finds the verdicts of the jobs of a group: those with the least delay are out,
// the next ones move, and each job goes where most of its units go. Of jobs that run
// and have the same delay, the first ones submitted are out: they tend to have had
// most.
func (n *network) read(g *group) {
	out, moving := 0, g.gpus // units
	for _, arc := range g.outs {
		out += n.Flow(arc)
	}
	for _, arc := range g.stays {
		moving -= n.Flow(arc)
	}
	moving -= out
	slices.SortFunc(g.jobs, func(a, b int) int {
		if n.delay[a] != n.delay[b] {
			return cmp.Compare(n.delay[b], n.delay[a])
		}
		x, y := n.s.Jobs[a], n.s.Jobs[b]
		switch {
		case g.stay < 0:
			return cmp.Compare(x.Seq, y.Seq)
		case x.Placement[0].Node != y.Placement[0].Node:
			return cmp.Compare(y.Placement[0].Node, x.Placement[0].Node)
		}
		return cmp.Compare(y.Seq, x.Seq)
	})
	for _, i := range slices.Backward(g.jobs) {
		all := gpus(n.s.Jobs[i])
		left := min(out, all)
		out -= left
		moves := min(moving, all-left)
		moving -= moves
		switch stay := all - left - moves; {
		case stay > 0 && stay >= moves && stay >= left:
			n.verdict[i] = stays
		case moves > 0 && moves >= left:
			n.verdict[i] = other
		}
	}
}

// add adds a job to its group.
func (n *network) add(i int) {
	j := n.s.Jobs[i]
	k := key{stay: -1, to: n.anywhereFor(j), waits: flow.Sink}
	if j.Phase == sched.Running {
		k.stay = n.spots[j.Placement[0].Node].at
		for _, s := range j.Placement {
			if x := n.spots[s.Node]; x.down || x.at != k.stay || x.pool < 0 && x.at != flow.Sink {
				k.own = 1 + i
			}
		}
	} else if k.to < 0 {
		return
	}
	if t, ok := n.s.Tenant(j); ok {
		k.waits = n.waits[t]
		n.demand[t] += gpus(j)
		if n.s.Nested() {
			n.able = append(n.able, j)
		}
	}
	g := n.groups[k]
	if g == nil {
		g = n.newGroup(k, j)
	}
	room := gpus(j)
	if k.own > 0 {
		room = flow.Unlimited // it is the only one
	}
	g.jobs = append(g.jobs, i)
	g.outs = append(g.outs, n.Arc(g.node, k.waits, room, n.outCost(i)))
	g.gpus += gpus(j)
}

// newGroup adds the node of a group.
func (n *network) newGroup(k key, j *sched.Job) *group {
	g := &group{key: k, node: n.Node(), move: -1}
	n.groups[k] = g
	n.all = append(n.all, g)
	price := int64(0)
	if k.own > 0 {
		for _, s := range j.Placement {
			if x := n.spots[s.Node]; !x.down {
				g.stays = append(g.stays, n.Arc(g.node, x.at, s.GPUs.Len(), 0))
			}
		}
	}
	if k.stay >= 0 {
		price = cost(n.Move.D())
	}
	if k.to >= 0 {
		g.move = n.Arc(g.node, k.to, flow.Unlimited, price)
	}
	return g
}

// begin sets the first flow: the jobs of groups that run stay, and the others wait. It
// returns the units that wait, by place.
func (n *network) begin() map[int32]int {
	waiting := map[int32]int{}
	for _, g := range n.all {
		if g.stay >= 0 && g.own == 0 {
			g.stays = append(g.stays, n.Arc(g.node, g.stay, g.gpus, 0))
			n.Send(g.stays[0], g.gpus)
			n.Hang(g.node, g.outs[0])
			if k, ok := n.poolAt[g.stay]; ok {
				if p := &n.pools[k]; p.held+g.gpus == p.room {
					n.Hang(p.node, g.stays[0])
				}
				n.pools[k].held += g.gpus
			}
			continue
		}
		for k, arc := range g.outs {
			n.Send(arc, gpus(n.s.Jobs[g.jobs[k]]))
		}
		waiting[g.waits] += g.gpus
		if g.own > 0 {
			n.Hang(g.node, g.outs[0])
		} else {
			n.Hang(g.node, g.move)
		}
	}
	for _, p := range n.pools {
		n.Send(p.out, p.held)
		if p.held < p.room {
			n.Hang(p.node, p.out)
		}
	}
	return waiting
}
