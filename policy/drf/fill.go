// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package drf

import (
	"container/heap"
	"slices"

	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/place"
)

// The resources that are shared.
const (
	gpus = iota
	cpus
	memory
	resources
)

// amount is how much of each resource.
type amount [resources]float64

// party is one of those between whom the shares are fair.
type party struct {
	weight float64
	jobs   []int // that compete, by submission; the first of them are done with
	used   amount
	share  float64 // dominant share for its weight
}

// key names a party. A tenant and a user of the same name are two parties.
type key struct {
	by   string
	name string
}

// filling is one progressive filling of the cluster.
type filling struct {
	s       *sched.Snapshot
	by      string
	total   amount // 0: does not count
	left    amount
	quota   place.Quota
	parties []*party
	chosen  []int
	passed  []int // jobs that did not fit when their turn came
}

// newFilling counts the running jobs that stay, and lets the others compete.
func newFilling(s *sched.Snapshot, by string, stays func(*sched.Job) bool) *filling {
	f := &filling{s: s, by: by, quota: place.NewQuota(s)}
	for i := range s.Cluster.Nodes {
		if n := &s.Cluster.Nodes[i]; n.State != sched.Down {
			f.total[gpus] += float64(n.Usable().Len())
			f.total[cpus] += float64(n.CPUs)
			f.total[memory] += float64(n.Memory)
		}
	}
	f.left = f.total
	byKey := map[key]*party{}
	for _, i := range place.OrderBy(s, func(*sched.Job) (a, b float64) { return 0, 0 }) {
		j := s.Jobs[i]
		k, weight := f.partyOf(j)
		p := byKey[k]
		if p == nil {
			p = &party{weight: weight}
			byKey[k] = p
			f.parties = append(f.parties, p)
		}
		if j.Phase == sched.Running && (j.NonPreemptible || stays(j)) {
			f.give(p, i)
		} else {
			p.jobs = append(p.jobs, i)
		}
	}
	return f
}

// partyOf returns whose share a job uses, and the weight of that party.
func (f *filling) partyOf(j *sched.Job) (key, float64) {
	if f.by == ByTenant && j.Tenant != "" {
		if t, ok := f.s.Tenant(j); ok {
			return key{ByTenant, string(j.Tenant)}, f.s.Tenants[t].Share()
		}
		return key{ByTenant, string(j.Tenant)}, 1
	}
	if f.by != ByApp && j.User != "" {
		return key{ByUser, j.User}, 1
	}
	if a, ok := f.s.App(j.App); ok && a.Weight > 0 {
		return key{ByApp, string(j.App)}, a.Weight
	}
	return key{ByApp, string(j.App)}, 1
}

// order fills the cluster and returns the jobs that were reached, in order,
// then those that were not.
func (f *filling) order() []int {
	turns := &byShare{f.s, slices.DeleteFunc(f.parties, func(p *party) bool { return len(p.jobs) == 0 })}
	heap.Init(turns)
	for turns.Len() > 0 {
		p := turns.parties[0]
		if i := p.jobs[0]; f.fits(i) {
			f.give(p, i)
		} else {
			f.passed = append(f.passed, i)
		}
		if p.jobs = p.jobs[1:]; len(p.jobs) > 0 {
			heap.Fix(turns, 0)
			continue
		}
		// The root has no job left to be compared by: put the last in its place.
		last := turns.Pop().(*party)
		if turns.Len() > 0 {
			turns.parties[0] = last
			heap.Fix(turns, 0)
		}
	}
	return append(f.chosen, f.passed...)
}

// fits reports whether what a job needs is left, by number.
func (f *filling) fits(i int) bool {
	j := f.s.Jobs[i]
	if (j.Phase == sched.Pending && !j.Ready(f.s.Now)) || f.quota.Left(j) < size(j) {
		return false
	}
	for r, need := range needs(j) {
		if f.total[r] > 0 && need > f.left[r] {
			return false
		}
	}
	return true
}

// give lets a party use what a job needs.
func (f *filling) give(p *party, i int) {
	j := f.s.Jobs[i]
	f.quota.Add(j, size(j))
	p.share = 0
	for r, need := range needs(j) {
		p.used[r] += need
		f.left[r] -= need
		if f.total[r] > 0 {
			p.share = max(p.share, p.used[r]/f.total[r]/p.weight)
		}
	}
	f.chosen = append(f.chosen, i)
}

// size returns the GPUs a job holds, or asks for.
func size(j *sched.Job) int {
	if j.Phase == sched.Running {
		return j.Placement.GPUs()
	}
	return j.GPUs
}

func needs(j *sched.Job) amount {
	n := float64(size(j))
	return amount{gpus: n, cpus: n * float64(j.CPUs), memory: n * float64(j.Memory)}
}

// byShare is a heap of parties with jobs: the lowest share first, then the one
// whose next job was submitted first.
type byShare struct {
	s       *sched.Snapshot
	parties []*party
}

func (h *byShare) Len() int { return len(h.parties) }
func (h *byShare) Less(a, b int) bool {
	x, y := h.parties[a], h.parties[b]
	if x.share != y.share {
		return x.share < y.share
	}
	return h.s.Jobs[x.jobs[0]].Seq < h.s.Jobs[y.jobs[0]].Seq
}
func (h *byShare) Swap(a, b int) { h.parties[a], h.parties[b] = h.parties[b], h.parties[a] }
func (h *byShare) Push(x any)    { h.parties = append(h.parties, x.(*party)) }
func (h *byShare) Pop() any {
	last := len(h.parties) - 1
	p := h.parties[last]
	h.parties = h.parties[:last]
	return p
}
