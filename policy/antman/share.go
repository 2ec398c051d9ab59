// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package antman

import (
	"cmp"
	"math"
	"slices"

	"github.com/fairway-gpu/fairway/policy/pairing"
	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/place"
)

// share leaves opportunistic jobs where they are if they may stay, and then starts
// others, in order of submission.
func (d *decision) share() {
	d.idle = d.idle.For(d.s.Cluster) // what expect marked is free again
	for i, p := range d.plan.Want {
		for _, s := range p {
			d.idle.Take(d.s.Jobs[i], sched.Placement{{Node: s.Node, Milli: sched.WholeGPU, GPUs: s.GPUs}})
		}
	}
	for _, i := range d.order {
		j := d.s.Jobs[i]
		if j.Phase == sched.Running && len(d.plan.Want[i]) == 0 && d.small(j.Placement) {
			d.watch(j)
		}
		if j.Phase == sched.Running && len(d.plan.Want[i]) == 0 && d.quota.Fits(j, j.Placement) && d.fits(i, j.Placement) {
			d.run(i, j.Placement)
		}
	}
	for _, i := range d.order {
		if len(d.plan.Want[i]) == 0 {
			d.begin(i)
		}
	}
}

// starved is the measured slowdown above which a guest leaves by itself: the job
// with the guarantee uses more of the GPU than was declared.
const starved = 2

// watch remembers that a guest slows a job with the guarantee by more than harm, or
// gets too little beside it, as measured while both ran there. fits then refuses to
// leave it there.
func (d *decision) watch(guest *sched.Job) {
	if d.Harm == 0 {
		return
	}
	d.each(guest.Placement, func(gpu int) bool {
		if h := d.host[gpu]; h > 0 {
			host := d.s.Jobs[h-1]
			since := guest.Since
			if host.Since.After(since) {
				since = host.Since
			}
			if !host.ReportedAt.Before(since) && host.Slowdown > d.Harm || !guest.ReportedAt.Before(since) && guest.Slowdown > starved {
				d.harmed.Put(host, guest, host.Slowdown)
			}
		}
		return true
	})
}

// begin starts an opportunistic job, or says why not.
func (d *decision) begin(i int) {
	j := d.s.Jobs[i]
	n := gpus(j)
	switch {
	case !d.mayRun(j):
		d.plan.Why[i] = sched.Reason{Code: sched.BackOff, Until: j.NotBefore}
		return
	case d.guaranteed[i] && j.Phase == sched.Pending && d.s.Now.Sub(j.Since) < d.Patience.D():
		return // it already has a reason
	case !d.quota.FitsMilli(j, n*d.holds(j)):
		d.plan.Why[i] = d.quota.Why(j, n)
		return
	}
	var p sched.Placement
	ok := false
	switch {
	case d.resumes(i):
		p, ok = j.Suspended, true
	case j.Shareable:
		p, ok = d.beside(i, n)
	default:
		mark := d.idle.Mark()
		p, ok = place.Consolidated(d.idle, j, n)
		d.idle.Rollback(mark)
	}
	if ok && d.fits(i, p) {
		d.run(i, p)
		return
	}
	if d.plan.Why[i].Code == sched.Ok {
		if d.plan.Why[i] = d.idle.Why(j, n, sched.CrossRack); d.plan.Why[i].Code == sched.Full {
			d.plan.Why[i].Code = sched.Behind
		}
	}
}

// resumes reports whether a suspended guest can go on where it was.
func (d *decision) resumes(i int) bool {
	j := d.s.Jobs[i]
	if !j.Shareable || j.Phase != sched.Pending || !d.small(j.Suspended) {
		return false
	}
	for _, s := range j.Suspended {
		if int(s.Node) >= len(d.s.Cluster.Nodes) || s.GPUs&^d.open[s.Node] != 0 || !j.Suits(&d.s.Cluster.Nodes[s.Node]) {
			return false
		}
	}
	return d.fits(i, j.Suspended)
}

// holds returns the thousandths of each GPU that an opportunistic job holds.
func (d *decision) holds(j *sched.Job) int {
	if j.Shareable {
		return d.Guest
	}
	return sched.WholeGPU
}

// misfit is a job that found no GPUs to share. A job that asks for as much will not
// find any either.
type misfit struct {
	types  []sched.GPUType
	widest sched.Level
	task   int
	gpus   int
	util   float64
	memory int64
	cpus   int
	host   int64
	needs  string
	kind   string // if it matters who was harmed by whom
}

func (d *decision) misfitOf(j *sched.Job, n int) misfit {
	m := misfit{j.GPUTypes, j.MaxSpread, j.Task(), n, j.GPUUtil, j.GPUMemory, j.CPUs, j.Memory, j.Selector, ""}
	if !d.harmed.Empty() {
		m.kind = pairing.Kind(j)
	}
	return m
}

// covers reports whether o must fail because m did.
func (m misfit) covers(o misfit) bool {
	return m.needs == o.needs && m.kind == o.kind && m.widest == o.widest && m.task == o.task && m.gpus <= o.gpus && (o.util == 0 || (m.util > 0 && m.util <= o.util)) &&
		m.memory <= o.memory && m.cpus <= o.cpus && m.host <= o.host && slices.Equal(m.types, o.types)
}

// beside finds n GPUs for a job that may share: those with the most to spare.
func (d *decision) beside(i, n int) (sched.Placement, bool) {
	j := d.s.Jobs[i]
	kind := d.misfitOf(j, n)
	if slices.ContainsFunc(d.failed, func(m misfit) bool { return m.covers(kind) }) {
		return nil, false
	}
	types := j.GPUTypes
	if len(types) == 0 {
		types = d.s.Cluster.Types
	}
	for _, name := range types {
		t := slices.Index(d.s.Cluster.Types, name)
		if t < 0 {
			continue
		}
		if p, ok := d.onOne(i, n, t); ok {
			return p, true
		}
		if p, ok := d.onSeveral(i, n, t); ok {
			return p, true
		}
	}
	d.failed = append(d.failed, kind)
	return nil, false
}

// spare is what a set of GPUs has to spare.
type spare struct {
	util   float64 // the highest utilisation among them
	memory int64   // the least memory left
	gpus   sched.GPUSet
}

// better reports whether a set has more to spare than another.
func (a spare) better(b spare) bool {
	return a.util < b.util || (a.util == b.util && a.memory > b.memory)
}

// spareOn returns the n GPUs of a set on a node with the most to spare for a job,
// or as many as there are.
func (d *decision) spareOn(j *sched.Job, node, n int, among sched.GPUSet) spare {
	type one struct {
		util float64
		left int64
		gpu  int
	}
	memory := d.s.Cluster.Nodes[node].GPUMemory
	var all []one
	for _, g := range (d.open[node] & among).Indexes() {
		o := one{left: memory, gpu: g}
		if h := d.host[node*d.stride+g]; h > 0 {
			host := d.s.Jobs[h-1]
			if !d.suit(host, j, &d.s.Cluster.Nodes[node]) || d.apart(host, j) {
				continue
			}
			o.util, o.left = host.GPUUtil, memory-host.GPUMemory
		}
		all = append(all, o)
	}
	slices.SortStableFunc(all, func(a, b one) int {
		return cmp.Or(cmp.Compare(a.util, b.util), cmp.Compare(b.left, a.left))
	})
	k := min(n, len(all)) / j.Task() * j.Task()
	best := spare{memory: math.MaxInt64}
	for _, o := range all[:k] {
		best.gpus |= 1 << o.gpu
		best.util, best.memory = max(best.util, o.util), min(best.memory, o.left)
	}
	return best
}

// part returns the guest's slice of some GPUs of a node, as far as the node's CPUs
// and memory allow.
func (d *decision) part(j *sched.Job, node int, of sched.GPUSet) (sched.Slice, bool) {
	for k := of.Len(); k > 0; k -= j.Task() {
		s := sched.Slice{Node: int32(node), Milli: int32(d.Guest), GPUs: of.Lowest(k)}
		if d.live.Fits(j, sched.Placement{s}) {
			return s, true
		}
	}
	return sched.Slice{}, false
}

// accepts reports whether a guest may be on a node at all.
func (d *decision) accepts(j *sched.Job, node, t int) bool {
	n := &d.s.Cluster.Nodes[node]
	return d.s.Cluster.TypeOf(node) == t && d.open[node].Len() >= j.Task() && j.Suits(n)
}

// onOne finds n GPUs of one node, in one island if the job requires it.
func (d *decision) onOne(i, n, t int) (sched.Placement, bool) {
	j := d.s.Jobs[i]
	var best spare
	var found sched.Placement
	for node := range d.s.Cluster.Nodes {
		if d.open[node].Len() < n || !d.accepts(j, node, t) {
			continue
		}
		sets := []sched.GPUSet{d.open[node]}
		if islands := d.s.Cluster.Nodes[node].Islands; j.MaxSpread == sched.SameSlot && len(islands) > 0 && n > 1 {
			sets = islands
		}
		for _, set := range sets {
			has := d.spareOn(j, node, n, set)
			if has.gpus.Len() < n || (found != nil && !has.better(best)) {
				continue
			}
			if s, ok := d.part(j, node, has.gpus); ok && s.GPUs.Len() == n {
				best, found = has, sched.Placement{s}
			}
		}
		if found != nil && best.util == 0 && d.s.Cluster.Nodes[node].GPUMemory == 0 {
			break // nothing is better than idle
		}
	}
	return found, found != nil
}

// onSeveral finds n GPUs on several nodes, of one rack if possible: nodes with the
// most GPUs for the job first.
func (d *decision) onSeveral(i, n, t int) (sched.Placement, bool) {
	j := d.s.Jobs[i]
	if n <= j.Task() || (j.MaxSpread != sched.NoLevel && j.MaxSpread < sched.SameRack) {
		return nil, false
	}
	c := d.s.Cluster
	byRack := make([]sched.Placement, len(c.Racks))
	var all sched.Placement
	for node := range c.Nodes {
		if !d.accepts(j, node, t) {
			continue
		}
		if s, ok := d.part(j, node, d.spareOn(j, node, n, d.open[node]).gpus); ok {
			byRack[c.RackOf(node)] = append(byRack[c.RackOf(node)], s)
			all = append(all, s)
		}
	}
	if j.MaxSpread == sched.NoLevel || j.MaxSpread > sched.SameRack {
		byRack = append(byRack, all)
	}
	for _, found := range byRack {
		if p := place.LargestSlices(found, n); p != nil {
			return p, true
		}
	}
	return nil, false
}
