// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package quincy

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/place"
)

// verdict says where a job goes.
type verdict uint8

const (
	left  verdict = iota // out
	other                // not where it runs, or anywhere if it does not run
	stays
)

// decision is the work on one plan.
type decision struct {
	*policy
	s       *sched.Snapshot
	order   []int           // all jobs by submission
	delay   []time.Duration // by job: the cost per GPU of leaving it out
	verdict []verdict       // by job
	first   []int           // gangs for which room was made
}

func newDecision(p *policy, s *sched.Snapshot) *decision {
	d := &decision{
		policy: p, s: s, order: place.OrderBy(s, func(*sched.Job) (a, b float64) { return 0, 0 }),
		delay: make([]time.Duration, len(s.Jobs)), verdict: make([]verdict, len(s.Jobs)),
	}
	for i, j := range s.Jobs {
		d.delay[i] = p.delayOf(s, j)
	}
	return d
}

// delayOf returns the cost per GPU of leaving a job out.
func (p *policy) delayOf(s *sched.Snapshot, j *sched.Job) time.Duration {
	const most = 10 * 365 * 24 * time.Hour // keeps sums of costs from overflowing
	since := min(most, max(0, s.Now.Sub(j.Since)))
	if j.Phase == sched.Running {
		return p.Idle.D() + p.Preempt.D() + min(since, p.Preempt.D())
	}
	return p.Idle.D() + since
}

// gpus returns the GPUs a job runs on or asks for.
func gpus(j *sched.Job) int {
	if j.Phase == sched.Running {
		return j.Placement.GPUs()
	}
	return j.GPUs
}

// network is the flow of one decision.
type network struct {
	graph
	*decision
	source, sink int32
	nodes        []int32 // by node of the cluster
	racks        []rack
	anywhere     map[kind]int32
	waits        []int32 // by tenant
	demand       []int   // by tenant: units of its jobs
	pinned       []int   // by tenant: GPUs of jobs that are not part of the flow
	marked       bool    // labels of nodes matter
}

// rack is a set of nodes that are equivalent for every job of the flow.
type rack struct {
	node   int32
	gpu    sched.GPUType
	memory int64
	like   *sched.Node // one of them
	gpus   int
}

// kind is what decides which racks a job may use, and at what price.
type kind struct {
	types  string
	memory int64
	needs  string
}

// seconds turns a price into whole seconds.
func seconds(d time.Duration) int64 { return int64(d / time.Second) }

// solve finds the cheapest flow and reads the verdicts from it.
func (d *decision) solve() {
	n := &network{
		decision: d, anywhere: map[kind]int32{}, waits: make([]int32, len(d.s.Tenants)),
		demand: make([]int, len(d.s.Tenants)), pinned: make([]int, len(d.s.Tenants)),
		marked: d.s.Cluster.HasDedicated() || slices.ContainsFunc(d.s.Jobs, func(j *sched.Job) bool { return j.Selector != "" }),
	}
	n.source, n.sink = n.node(), n.node()
	for t := range n.waits {
		n.waits[t] = n.node()
	}
	n.machines()
	type arcs struct {
		job       int
		stay      []int32
		elsewhere int32
		out       int32
	}
	all := make([]arcs, 0, len(d.order))
	for _, i := range d.taking() {
		j := d.s.Jobs[i]
		at := n.node()
		n.arc(n.source, at, gpus(j), 0)
		a := arcs{job: i}
		price := int64(0)
		if j.Phase == sched.Running {
			price = seconds(d.Move.D())
			for _, s := range j.Placement {
				a.stay = append(a.stay, n.arc(at, n.nodes[s.Node], s.GPUs.Len(), 0))
			}
		}
		a.elsewhere = n.arc(at, n.anywhereFor(j), gpus(j), price)
		to := n.sink
		if t, ok := d.s.Tenant(j); ok {
			to = n.waits[t]
			n.demand[t] += gpus(j)
		}
		a.out = n.arc(at, to, gpus(j), seconds(d.delay[i]))
		all = append(all, a)
	}
	n.tenants()
	n.graph.solve(n.source, n.sink)
	for _, a := range all {
		stay := 0
		for _, arc := range a.stay {
			stay += n.flow(arc)
		}
		elsewhere, out := n.flow(a.elsewhere), n.flow(a.out)
		switch {
		case stay > 0 && stay >= elsewhere && stay >= out:
			d.verdict[a.job] = stays
		case elsewhere > 0 && elsewhere >= out:
			d.verdict[a.job] = other
		}
	}
}

// taking returns the jobs that are part of the flow: those that run and may be
// stopped, and the waiting ones with the largest delay. Jobs that may not be
// stopped stay.
func (d *decision) taking() []int {
	var running, waiting []int
	for _, i := range d.order {
		switch j := d.s.Jobs[i]; {
		case j.Phase == sched.Running && j.Pinned():
			d.verdict[i] = stays
		case j.Phase == sched.Running:
			running = append(running, i)
		case j.Ready(d.s.Now) && d.free.Ever(j, j.GPUs, sched.CrossRack) >= j.GPUs:
			waiting = append(waiting, i)
		}
	}
	d.byDelay(waiting)
	waiting = waiting[:min(len(waiting), d.Window)]
	return append(running, waiting...)
}

// byDelay puts the job with the largest delay first, then the one submitted
// first.
func (d *decision) byDelay(jobs []int) {
	slices.SortFunc(jobs, func(a, b int) int {
		return cmp.Or(cmp.Compare(d.delay[b], d.delay[a]), cmp.Compare(d.s.Jobs[a].Seq, d.s.Jobs[b].Seq))
	})
}

// machines adds the nodes of the cluster and their racks.
func (n *network) machines() {
	c := n.s.Cluster
	held := make([]int, len(c.Nodes)) // by jobs that are not part of the flow
	mine := make([]int, len(c.Nodes)) // by those that are
	for _, j := range n.s.Jobs {
		for _, s := range j.Placement {
			if j.Pinned() {
				held[s.Node] += s.GPUs.Len()
			} else {
				mine[s.Node] += s.GPUs.Len()
			}
		}
		if t, ok := n.s.Tenant(j); ok && j.Pinned() && j.Phase == sched.Running {
			n.pinned[t] += j.Placement.GPUs()
		}
	}
	n.nodes = make([]int32, len(c.Nodes))
	type group struct {
		number int
		gpu    sched.GPUType
		memory int64
		marks  string
	}
	racks := map[group]int{}
	for i := range c.Nodes {
		node := &c.Nodes[i]
		n.nodes[i] = n.node()
		room := node.Usable().Len() - held[i]
		if node.State == sched.Cordoned {
			room = mine[i]
		}
		if node.State == sched.Down || room <= 0 {
			continue
		}
		n.arc(n.nodes[i], n.sink, room, 0)
		if node.State != sched.Ready {
			continue
		}
		key := group{c.RackOf(i), node.Type, node.GPUMemory, ""}
		if n.marked {
			key.marks = fmt.Sprint(node.Dedicated, node.Labels)
		}
		r, ok := racks[key]
		if !ok {
			r = len(n.racks)
			racks[key] = r
			n.racks = append(n.racks, rack{node: n.node(), gpu: node.Type, memory: node.GPUMemory, like: node})
		}
		n.racks[r].gpus += room
		n.arc(n.racks[r].node, n.nodes[i], room, 0)
	}
}

// anywhereFor returns the flow node that stands for all places where a job could
// run.
func (n *network) anywhereFor(j *sched.Job) int32 {
	k := kind{memory: j.GPUMemory, needs: j.Selector}
	if len(j.GPUTypes) > 0 {
		names := make([]string, len(j.GPUTypes))
		for i, t := range j.GPUTypes {
			names[i] = string(t)
		}
		k.types = strings.Join(names, "\x00") + "\x00"
	}
	if at, ok := n.anywhere[k]; ok {
		return at
	}
	at := n.node()
	n.anywhere[k] = at
	for _, r := range n.racks {
		if r.memory > 0 && j.GPUMemory > r.memory || n.marked && !r.like.Matches(j.Selector) {
			continue
		}
		rank := 0
		if len(j.GPUTypes) > 0 {
			if rank = slices.Index(j.GPUTypes, r.gpu); rank < 0 {
				continue
			}
		}
		n.arc(at, r.node, r.gpus, int64(rank)*seconds(n.Type.D()))
	}
	return at
}

// tenants adds the cost of letting a tenant's jobs wait: none for GPUs that are
// neither above its limit nor below its quota.
func (n *network) tenants() {
	const must = 1 << 40 // more than any delay
	for t, tenant := range n.s.Tenants {
		all := n.demand[t]
		above := min(all, max(0, all+n.pinned[t]-tenant.Limit()))
		below := min(all-above, max(0, tenant.Quota-n.pinned[t]))
		n.arc(n.waits[t], n.sink, above, -must)
		n.arc(n.waits[t], n.sink, all-above-below, 0)
		n.arc(n.waits[t], n.sink, below, seconds(n.Quota.D()))
	}
}
