// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package bidding

import (
	"slices"
	"time"

	"github.com/fairway-gpu/fairway/sched"
)

// market is the arbiter's view of a snapshot: what is for sale, and what each app
// has.
type market struct {
	s     *sched.Snapshot
	lease time.Duration
	free  []int // GPUs for sale, by node
	apps  map[sched.AppID][]*sched.Job
}

func newMarket(s *sched.Snapshot, lease time.Duration) *market {
	m := &market{s: s, lease: lease, free: make([]int, len(s.Cluster.Nodes)), apps: map[sched.AppID][]*sched.Job{}}
	taken := make([]sched.GPUSet, len(m.free))
	for _, j := range s.Jobs {
		m.apps[j.App] = append(m.apps[j.App], j)
		if m.forSale(j) {
			continue
		}
		for _, p := range j.Placement {
			taken[p.Node] |= p.GPUs
		}
	}
	for i, n := range s.Cluster.Nodes {
		if n.State == sched.Ready {
			m.free[i] = (n.Usable() &^ taken[i]).Len()
		}
	}
	return m
}

// leaseEnd returns when the lease of a running job ends. A policy that renews a
// lease notes when.
func (m *market) leaseEnd(j *sched.Job) time.Time {
	since := j.Since
	if j.Note.Since.After(since) {
		since = j.Note.Since
	}
	return since.Add(m.lease)
}

// forSale reports whether the GPUs of a running job may go to others.
func (m *market) forSale(j *sched.Job) bool {
	if j.Phase != sched.Running || j.Pinned() || j.Placement.Shared() || m.s.Now.Before(m.leaseEnd(j)) {
		return false
	}
	return !slices.ContainsFunc(j.Placement, func(p sched.Slice) bool { return m.s.Cluster.Nodes[p.Node].State != sched.Ready })
}

// app returns what every question tells about an app.
func (m *market) app(id sched.AppID) App {
	known, _ := m.s.App(id)
	a := App{
		ID: id, Submitted: known.Submitted, Contention: m.s.Contention(known), Apps: m.s.Apps(),
		ClusterGPUs: m.s.Cluster.GPUs(), Holds: []Share{}, Stages: known.Stages,
	}
	held := make(map[int32]int)
	for _, j := range m.apps[id] {
		if m.forSale(j) {
			continue
		}
		for _, p := range j.Placement {
			held[p.Node] += p.GPUs.Len()
		}
	}
	for i, n := range m.s.Cluster.Nodes {
		if gpus := held[int32(i)]; gpus > 0 {
			a.Holds = append(a.Holds, Share{Node: n.Name, GPUs: gpus})
		}
	}
	return a
}

// offer returns what an app may buy, possibly nothing.
func (m *market) offer(id sched.AppID) Offer {
	o := Offer{Now: m.s.Now, App: m.app(id), Lease: m.lease.Seconds(), Free: []Free{}}
	jobs := m.apps[id]
	stretch := 0
	for _, j := range jobs {
		if j.Phase != sched.Running && !j.Ready(m.s.Now) {
			continue
		}
		least, most := sizes(j)
		o.Gang, o.Task = gcd(o.Gang, least), gcd(o.Task, j.Task())
		o.Demand += most
		stretch += most - least
	}
	if stretch > 0 { // any number of tasks is of use to an elastic job
		o.Gang = o.Task
	}
	for _, s := range o.App.Holds {
		o.Demand -= s.GPUs
	}
	o.Demand = max(0, o.Demand)
	if o.Demand == 0 {
		return o
	}
	for i, n := range m.s.Cluster.Nodes {
		if m.free[i] > 0 && slices.ContainsFunc(jobs, func(j *sched.Job) bool { return j.Suits(&n) }) {
			o.Free = append(o.Free, Free{Node: n.Name, Rack: n.Rack, Type: n.Type, GPUs: m.free[i]})
		}
	}
	return o
}

// sizes returns the smallest and the largest number of GPUs a job runs on.
func sizes(j *sched.Job) (least, most int) {
	if !j.Elastic() {
		return j.GPUs, j.GPUs
	}
	for n := j.MinGPUs; n <= j.MaxGPUs; n++ {
		if n > 0 && n%j.Task() == 0 && j.Fits(n) {
			return n, j.MaxGPUs
		}
	}
	return j.GPUs, j.MaxGPUs
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// same reports whether two offers give an agent the same choice.
func same(a, b Offer) bool {
	return a.Gang == b.Gang && a.Task == b.Task && a.Demand == b.Demand && a.Lease == b.Lease &&
		slices.Equal(a.Free, b.Free) && slices.Equal(a.App.Holds, b.App.Holds)
}

// grants returns what the jobs of an app hold, in order of submission.
func (m *market) grants(id sched.AppID) []JobGrant {
	out := []JobGrant{}
	for _, j := range m.apps[id] {
		if j.Phase != sched.Running {
			continue
		}
		g := JobGrant{Job: j.ID, Until: m.leaseEnd(j)}
		for _, p := range j.Placement {
			g.GPUs = append(g.GPUs, Share{Node: m.s.Cluster.Nodes[p.Node].Name, GPUs: p.GPUs.Len()})
		}
		out = append(out, g)
	}
	return out
}

// bid converts a table to the scheduler's form.
func (m *market) bid(t BidTable) *sched.Bid {
	b := &sched.Bid{At: m.s.Now}
	for _, row := range t.Rows {
		if len(row.Take) == 0 {
			b.Rho = row.Rho
			continue
		}
		r := sched.BidRow{Rho: row.Rho}
		for _, s := range row.Take {
			node, _ := m.s.Cluster.Node(s.Node)
			r.Take = append(r.Take, sched.BidShare{Node: int32(node), GPUs: s.GPUs})
		}
		b.Rows = append(b.Rows, r)
	}
	return b
}
