// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package gavel

import (
	"cmp"
	"math"
	"slices"

	"github.com/fairway-gpu/fairway/policy/flow"
	"github.com/fairway-gpu/fairway/sched"
)

// maxMatched bounds the jobs, and maxPlaces the combinations of a job and a place,
// that a matching looks at.
const (
	maxMatched = 1024
	maxPlaces  = 100_000
)

// candidate is a claim in the matching.
type candidate struct {
	claim int
	time  [maxTypes]float64 // to its end, times its GPUs, in seconds; 0: it cannot run there
	least float64
}

// match gives every job the type that AlloX (Le et al., EuroSys'20) would: the sum of
// completion times is least. A job that is k-th from the end on a GPU delays itself
// and the k-1 behind it by its own time, so its place costs k times its time there,
// and the cheapest matching of jobs and places is the best schedule. A gang counts as
// one job that takes as many times longer.
func (p *policy) match(s *sched.Snapshot, claims []claim) {
	gpus := gpus(p.free)
	jobs := p.candidates(s, claims, gpus)
	if len(jobs) == 0 {
		return
	}
	all := 0.0
	for _, n := range gpus {
		all += n
	}
	window := window(len(jobs), gpus)
	behind := int(float64(len(jobs)-window) / all) // on every GPU, by those that the matching leaves out
	for i, t := range assign(jobs[:window], gpus, behind) {
		c := &claims[jobs[i].claim]
		c.time[t] = 1
		c.gain[t] = float64(c.scale) / jobs[i].time[t] // the shortest goes first
	}
}

// candidates returns the jobs that could run, the shortest first.
func (p *policy) candidates(s *sched.Snapshot, claims []claim, gpus []float64) []candidate {
	var out []candidate
	for k := range claims {
		c := &claims[k]
		if c.on < 0 && !c.j.Ready(s.Now) {
			continue
		}
		left, _ := c.left(s.Now)
		x := candidate{claim: k, least: math.Inf(1)}
		for t, n := range gpus {
			if n == 0 || c.speed[t] == 0 {
				continue
			}
			x.time[t] = left * float64(c.scale) / c.speed[t]
			if t == c.on {
				x.time[t] /= p.Stick
			}
			x.least = min(x.least, x.time[t])
		}
		if !math.IsInf(x.least, 1) {
			out = append(out, x)
		}
	}
	slices.SortStableFunc(out, func(a, b candidate) int { return cmp.Compare(a.least, b.least) })
	return out
}

// places returns the number of places of a type that some jobs could need.
func places(jobs int, gpus float64) int {
	if gpus == 0 {
		return 0
	}
	return int(math.Ceil(float64(jobs) / gpus))
}

// window returns how many jobs the matching looks at.
func window(jobs int, gpus []float64) int {
	jobs = min(jobs, maxMatched)
	for {
		sum := 0
		for _, n := range gpus {
			sum += places(jobs, n)
		}
		if jobs == 1 || jobs*sum <= maxPlaces {
			return jobs
		}
		jobs -= jobs/8 + 1
	}
}

// assign returns the type of every job in the cheapest matching. On every GPU, so many
// jobs come after these.
func assign(jobs []candidate, gpus []float64, behind int) []int {
	var g flow.Graph
	g.Node() // the sink
	type place struct {
		gpuType, fromEnd int
		node             int32
	}
	var all []place
	for t, n := range gpus {
		for k := range places(len(jobs), n) {
			at := place{t, behind + k + 1, g.Node()}
			g.Hang(at.node, g.Arc(at.node, flow.Sink, int(n), 0))
			all = append(all, at)
		}
	}
	const none = 1 << 55                                     // more than any place
	unit := float64(1<<40) / (jobs[len(jobs)-1].least * 1e3) // so that costs are whole numbers, and sums fit
	first := make([]int32, len(jobs))
	for i := range jobs {
		job := g.Node()
		out := g.Arc(job, flow.Sink, flow.Unlimited, none)
		g.Send(out, 1)
		g.Hang(job, out)
		first[i] = out + 1
		for _, at := range all {
			if x := jobs[i].time[at.gpuType]; x > 0 {
				g.Arc(job, at.node, 1, int64(min(unit*x, 1<<40)*float64(at.fromEnd)))
			} else {
				g.Arc(job, at.node, 0, 0)
			}
		}
	}
	g.Solve()
	types := make([]int, len(jobs))
	for i := range jobs {
		for k, at := range all {
			if g.Flow(first[i]+int32(k)) > 0 {
				types[i] = at.gpuType
			}
		}
	}
	return types
}
