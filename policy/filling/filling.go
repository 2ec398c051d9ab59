// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

// Package filling fills a cluster progressively, as DRF does: the next job always
// comes from the party (tenant, user or app) with the lowest dominant share.
package filling

import (
	"container/heap"
	"fmt"
	"slices"

	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/place"
)

// The kinds of party between which shares are fair.
const (
	ByTenant = "tenant"
	ByUser   = "user"
	ByApp    = "app"
)

// CheckBy returns an error if a choice of parties is invalid.
func CheckBy(by string) error {
	if by != ByTenant && by != ByUser && by != ByApp {
		return fmt.Errorf("by = %q; want %s, %s or %s", by, ByTenant, ByUser, ByApp)
	}
	return nil
}

// The shared resources.
const (
	gpus = iota
	cpus
	memory
	resources
)

// Amount is an amount of each resource.
type Amount [resources]float64

// Party is one of the parties between which shares are fair.
type Party struct {
	Weight float64
	Demand float64 // GPUs that its jobs ask for
	jobs   []int   // that compete, by submission; the first of them are done
	used   Amount
	share  float64 // dominant share for its weight
}

// key names a party. A tenant and a user of the same name are two parties.
type key struct {
	by   string
	name string
}

// Parties returns the parties in order of their first jobs, and the index of its
// party for each job.
func Parties(s *sched.Snapshot, by string) (parties []*Party, of []int) {
	of = make([]int, len(s.Jobs))
	index := map[key]int{}
	shares := s.Shares()
	for _, i := range BySeq(s) {
		k, weight := partyOf(s, by, s.Jobs[i], shares)
		at, ok := index[k]
		if !ok {
			at = len(parties)
			index[k] = at
			parties = append(parties, &Party{Weight: weight})
		}
		parties[at].Demand += float64(s.Jobs[i].GPUs)
		of[i] = at
	}
	return parties, of
}

// partyOf returns the party whose share a job uses, and its weight, for tenants one of shares.
func partyOf(s *sched.Snapshot, by string, j *sched.Job, shares []float64) (key, float64) {
	if by == ByTenant && j.Tenant != "" {
		if t, ok := s.Tenant(j); ok {
			return key{ByTenant, string(j.Tenant)}, shares[t]
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

// Filling is one progressive filling of the cluster, counting resources only.
type Filling struct {
	Total   Amount // 0: does not count
	Left    Amount
	Parties []*Party
	Chosen  []int // admitted jobs, in order; those that stay first
	Passed  []int // jobs that did not fit when their turn came

	s     *sched.Snapshot
	size  func(*sched.Job) int
	quota place.Quota
}

// New counts the running jobs that stay, and lets the others compete. size returns
// how many GPUs a job competes for.
func New(s *sched.Snapshot, by string, stays func(*sched.Job) bool, size func(*sched.Job) int) *Filling {
	f := &Filling{s: s, size: size, quota: place.NewQuota(s)}
	for i := range s.Cluster.Nodes {
		if n := &s.Cluster.Nodes[i]; n.State != sched.Down {
			f.Total[gpus] += float64(n.Usable().Len())
			f.Total[cpus] += float64(n.CPUs)
			f.Total[memory] += float64(n.Memory)
		}
	}
	f.Left = f.Total
	var of []int
	f.Parties, of = Parties(s, by)
	for _, i := range BySeq(s) {
		j, p := s.Jobs[i], f.Parties[of[i]]
		if j.Phase == sched.Running && (j.Pinned() || stays(j)) {
			f.give(p, i, j.Placement.GPUs())
		} else {
			p.jobs = append(p.jobs, i)
		}
	}
	return f
}

// Fill admits jobs, always from the party with the lowest share.
func (f *Filling) Fill() {
	turns := &byShare{f.s, slices.DeleteFunc(slices.Clone(f.Parties), func(p *Party) bool { return len(p.jobs) == 0 })}
	heap.Init(turns)
	for turns.Len() > 0 {
		p := turns.parties[0]
		i := p.jobs[0]
		if n := f.size(f.s.Jobs[i]); f.Fits(f.s.Jobs[i], n) {
			f.give(p, i, n)
		} else {
			f.Passed = append(f.Passed, i)
		}
		if p.jobs = p.jobs[1:]; len(p.jobs) > 0 {
			heap.Fix(turns, 0)
			continue
		}
		// The root has no jobs left to compare: replace it with the last party.
		last := turns.Pop().(*Party)
		if turns.Len() > 0 {
			turns.parties[0] = last
			heap.Fix(turns, 0)
		}
	}
}

// Fits reports whether n GPUs, and the CPUs and memory for them, are left for a
// job.
func (f *Filling) Fits(j *sched.Job, n int) bool {
	if (j.Phase == sched.Pending && !j.Ready(f.s.Now)) || f.quota.Left(j) < n {
		return false
	}
	for r, need := range Needs(j, n) {
		if f.Total[r] > 0 && need > f.Left[r] {
			return false
		}
	}
	return true
}

// give charges a party for n GPUs of a job, and the CPUs and memory for them.
func (f *Filling) give(p *Party, i, n int) {
	j := f.s.Jobs[i]
	f.Take(j, n)
	p.share = 0
	for r, need := range Needs(j, n) {
		p.used[r] += need
		if f.Total[r] > 0 {
			p.share = max(p.share, p.used[r]/f.Total[r]/p.Weight)
		}
	}
	f.Chosen = append(f.Chosen, i)
}

// Take books n GPUs for a job; a negative n gives them back.
func (f *Filling) Take(j *sched.Job, n int) {
	f.quota.Add(j, n)
	for r, need := range Needs(j, n) {
		f.Left[r] -= need
	}
}

// BySeq returns the jobs in order of submission.
func BySeq(s *sched.Snapshot) []int {
	return place.OrderBy(s, func(*sched.Job) (a, b float64) { return 0, 0 })
}

// Needs returns what n GPUs of a job take of each resource.
func Needs(j *sched.Job, n int) Amount {
	g := float64(n)
	return Amount{gpus: g, cpus: g * float64(j.CPUs), memory: g * float64(j.Memory)}
}

// byShare is a heap of parties with jobs: the lowest share first, then the one
// whose next job was submitted first.
type byShare struct {
	s       *sched.Snapshot
	parties []*Party
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
func (h *byShare) Push(x any)    { h.parties = append(h.parties, x.(*Party)) }
func (h *byShare) Pop() any {
	last := len(h.parties) - 1
	p := h.parties[last]
	h.parties = h.parties[:last]
	return p
}
