// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package carbyne

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
	demand float64 // GPUs that its jobs ask for
	jobs   []int   // that compete, by submission; the first of them are done with
	used   amount
	share  float64 // dominant share for its weight
}

// key names a party. A tenant and a user of the same name are two parties.
type key struct {
	by   string
	name string
}

// partiesOf returns the parties in order of their first jobs, and of each job
// the index of its party.
func partiesOf(s *sched.Snapshot, by string) (parties []*party, of []int) {
	of = make([]int, len(s.Jobs))
	index := map[key]int{}
	for _, i := range bySeq(s) {
		k, weight := partyOf(s, by, s.Jobs[i])
		at, ok := index[k]
		if !ok {
			at = len(parties)
			index[k] = at
			parties = append(parties, &party{weight: weight})
		}
		parties[at].demand += float64(s.Jobs[i].GPUs)
		of[i] = at
	}
	return parties, of
}

// partyOf returns whose share a job uses, and the weight of that party.
func partyOf(s *sched.Snapshot, by string, j *sched.Job) (key, float64) {
	if by == ByTenant && j.Tenant != "" {
		if t, ok := s.Tenant(j); ok {
			return key{ByTenant, string(j.Tenant)}, s.Tenants[t].Share()
		}
		return key{ByTenant, string(j.Tenant)}, 1
	}
	if by != ByApp && j.User != "" {
		return key{ByUser, j.User}, 1
	}
	if a, ok := s.App(j.App); ok && a.Weight > 0 {
		return key{ByApp, string(j.App)}, a.Weight
	}
	return key{ByApp, string(j.App)}, 1
}

// filling is one progressive filling of the cluster, by number.
type filling struct {
	s       *sched.Snapshot
	total   amount // 0: does not count
	left    amount
	quota   place.Quota
	parties []*party
	chosen  []int
	passed  []int // jobs that did not fit when their turn came
}

// newFilling counts the running jobs that stay, and lets the others compete.
func newFilling(s *sched.Snapshot, by string, stays func(*sched.Job) bool) *filling {
	f := &filling{s: s, quota: place.NewQuota(s)}
	for i := range s.Cluster.Nodes {
		if n := &s.Cluster.Nodes[i]; n.State != sched.Down {
			f.total[gpus] += float64(n.Usable().Len())
			f.total[cpus] += float64(n.CPUs)
			f.total[memory] += float64(n.Memory)
		}
	}
	f.left = f.total
	var of []int
	f.parties, of = partiesOf(s, by)
	for _, i := range bySeq(s) {
		j, p := s.Jobs[i], f.parties[of[i]]
		if j.Phase == sched.Running && (j.NonPreemptible || stays(j)) {
			f.give(p, i, j.Placement.GPUs())
		} else {
			p.jobs = append(p.jobs, i)
		}
	}
	return f
}

// fill gives jobs out, always to the party with the lowest share.
func (f *filling) fill() {
	turns := &byShare{f.s, slices.DeleteFunc(slices.Clone(f.parties), func(p *party) bool { return len(p.jobs) == 0 })}
	heap.Init(turns)
	for turns.Len() > 0 {
		p := turns.parties[0]
		i := p.jobs[0]
		if n := size(f.s.Jobs[i]); f.fits(f.s.Jobs[i], n) {
			f.give(p, i, n)
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
}

// fits reports whether n GPUs and what belongs to them are left for a job, by
// number.
func (f *filling) fits(j *sched.Job, n int) bool {
	if (j.Phase == sched.Pending && !j.Ready(f.s.Now)) || f.quota.Left(j) < n {
		return false
	}
	for r, need := range needs(j, n) {
		if f.total[r] > 0 && need > f.left[r] {
			return false
		}
	}
	return true
}

// give lets a party use n GPUs for a job, and what belongs to them.
func (f *filling) give(p *party, i, n int) {
	j := f.s.Jobs[i]
	f.take(j, n)
	p.share = 0
	for r, need := range needs(j, n) {
		p.used[r] += need
		if f.total[r] > 0 {
			p.share = max(p.share, p.used[r]/f.total[r]/p.weight)
		}
	}
	f.chosen = append(f.chosen, i)
}

// take books n GPUs for a job; a negative n gives them back.
func (f *filling) take(j *sched.Job, n int) {
	f.quota.Add(j, n)
	for r, need := range needs(j, n) {
		f.left[r] -= need
	}
}

// size returns the GPUs of a job's share: what it holds if that cannot change,
// else what it asks for.
func size(j *sched.Job) int {
	if j.Phase == sched.Running && (!j.Elastic() || j.NonPreemptible) {
		return j.Placement.GPUs()
	}
	return j.GPUs
}

func needs(j *sched.Job, n int) amount {
	g := float64(n)
	return amount{gpus: g, cpus: g * float64(j.CPUs), memory: g * float64(j.Memory)}
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
