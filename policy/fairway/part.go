// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package fairway

import (
	"cmp"
	"math/rand/v2"
	"slices"

	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/place"
)

const (
	// partJobs is the number of running jobs that a part of the cluster has at least, and
	// partWaiting that of waiting jobs at most.
	partJobs, partWaiting = 256, 64
	// largestOpen is the share of the cluster that may be idle although jobs want it, before
	// the whole is divided again.
	largestOpen = 1. / 32
	// largestGang is the share of the cluster up to which a part is made large enough for a
	// waiting gang. One that is larger starts when it is due, or when GPUs are idle.
	largestGang = 1. / 8
)

// part is what a decision divides again of a large cluster.
type part struct {
	*world
	fixed []sched.Placement // by job
	out   []bool            // by job: the decision leaves it as it is
	idle  idle              // GPUs that nobody has
	on    [][]int32         // by node: the running jobs that could move
	nodes []bool            // by node: the part contains it
	size  int               // running jobs on its nodes
	gpus  int               // of its nodes
}

// leave returns the jobs that a decision has nothing to do with: in a large cluster all but
// those around what has changed, which are the waiting jobs that are worth most, and all
// jobs on the nodes with idle GPUs, on those of jobs that are behind, and on others that
// are drawn anew with every decision. Nil: the decision is about all jobs.
func (w *world) leave(fixed []sched.Placement) []bool {
	if len(w.jobs) <= w.Whole {
		return nil
	}
	p := &part{world: w, fixed: fixed, nodes: make([]bool, len(w.s.Cluster.Nodes))}
	p.occupy()
	waiting, wanted := p.waiting()
	if min(p.idle.sum(), wanted) > int(largestOpen*float64(w.s.Cluster.GPUs())) {
		return nil
	}
	p.out = make([]bool, len(w.jobs))
	for i := range p.out {
		p.out[i] = true
	}
	largest := p.invite(waiting)
	p.reclaim()
	p.extend(largest)
	return p.out
}

// occupy finds out who is where.
func (p *part) occupy() {
	p.on = make([][]int32, len(p.nodes))
	at := make([]sched.Placement, len(p.jobs))
	for i, j := range p.s.Jobs {
		if at[i] = p.fixed[i]; at[i] != nil {
			continue
		}
		at[i] = j.Placement
		for _, s := range at[i] {
			p.on[s.Node] = append(p.on[s.Node], int32(i))
		}
	}
	p.idle = p.world.idle(at)
}

// idle are the GPUs that nobody has, by node.
type idle []sched.GPUSet

// idle returns the GPUs of nodes that take new work and that no placement has a part of.
func (w *world) idle(at []sched.Placement) idle {
	out := make(idle, len(w.s.Cluster.Nodes))
	for i := range out {
		if n := &w.s.Cluster.Nodes[i]; n.State == sched.Ready {
			out[i] = n.Usable()
		}
	}
	for _, p := range at {
		for _, s := range p {
			out[s.Node] &^= s.GPUs
		}
	}
	return out
}

func (f idle) sum() int {
	n := 0
	for _, gpus := range f {
		n += gpus.Len()
	}
	return n
}

// waiting returns the jobs that could start, and how many GPUs they and the running ones
// would take at most beyond what they have.
func (p *part) waiting() (waiting []int, wanted int) {
	withheld := place.Withheld(p.s)
	for i, j := range p.s.Jobs {
		if p.fixed[i] != nil {
			continue
		}
		has := 0
		if j.Phase == sched.Running {
			has = j.Placement.GPUs()
		} else {
			if !j.Ready(p.s.Now) || withheld != nil && withheld[i] {
				continue
			}
			waiting = append(waiting, i)
		}
		most := j.GPUs
		if j.Elastic() {
			most = min(j.MaxGPUs, p.jobs[i].most)
		}
		wanted += max(0, most-has)
	}
	return waiting, wanted
}

// invite takes in the waiting jobs that are worth most, and returns the size of the largest.
func (p *part) invite(waiting []int) (largest int) {
	if len(waiting) > partWaiting {
		waiting = p.worthMost(waiting, partWaiting)
	}
	for _, i := range waiting {
		p.out[i] = false
		n := p.s.Jobs[i].StartSize()
		if p.s.Jobs[i].Elastic() {
			n = p.s.Jobs[i].NextSize(0)
		}
		if n <= int(largestGang*float64(p.s.Cluster.GPUs())) {
			largest = max(largest, n)
		}
	}
	return largest
}

// byWorth sorts jobs by their weight, the largest first.
func (p *part) byWorth(jobs []int) { slices.SortFunc(jobs, p.dearer) }

// worthMost returns the n jobs with the largest weight, the largest first.
func (p *part) worthMost(jobs []int, n int) []int {
	best := make([]int, 0, n+1)
	for _, i := range jobs {
		if len(best) == n && p.dearer(best[n-1], i) < 0 {
			continue
		}
		at, _ := slices.BinarySearchFunc(best, i, p.dearer)
		best = slices.Insert(best, at, i)
		best = best[:min(n, len(best))]
	}
	return best
}

// dearer orders jobs by their weight, the largest first.
func (p *part) dearer(a, b int) int {
	if x, y := p.jobs[a].weight, p.jobs[b].weight; x != y {
		return cmp.Compare(y, x)
	}
	return cmp.Compare(p.s.Jobs[a].Seq, p.s.Jobs[b].Seq)
}

// reclaim takes in jobs of tenants that hold more than they may, those that are worth least
// first, with twice the GPUs that are too many.
func (p *part) reclaim() {
	if p.limits == nil {
		return
	}
	over := make([]int, len(p.limits))
	for t, limit := range p.limits {
		over[t] = -limit
	}
	var held []int
	for i, j := range p.s.Jobs {
		if t, ok := p.s.Tenant(j); ok {
			if at := p.fixed[i]; at != nil {
				over[t] += at.GPUs()
			} else if j.Phase == sched.Running {
				over[t] += j.Placement.GPUs()
				held = append(held, i)
			}
		}
	}
	for t := range over {
		over[t] *= 2
	}
	p.byWorth(held)
	for _, i := range slices.Backward(held) {
		if t, _ := p.s.Tenant(p.s.Jobs[i]); over[t] > 0 {
			over[t] -= p.s.Jobs[i].Placement.GPUs()
			p.out[i] = false
		}
	}
}

// extend adds nodes until the part has enough jobs, and GPUs for the largest of those that
// wait. Half of it may be nodes that call for a division.
func (p *part) extend(largest int) {
	rng := rand.New(rand.NewPCG(p.Seed, uint64(p.s.Now.UnixNano())))
	var idle []int
	for node, gpus := range p.idle {
		if gpus != 0 {
			idle = append(idle, node)
		}
	}
	rng.Shuffle(len(idle), func(a, b int) { idle[a], idle[b] = idle[b], idle[a] })
	for k := 0; k < max(len(idle), len(p.behind)) && p.size < partJobs/2; k++ {
		if k < len(idle) {
			p.add(idle[k])
		}
		if k < len(p.behind) {
			i := p.behind[k]
			p.out[i] = false
			for _, s := range p.s.Jobs[i].Placement {
				p.add(int(s.Node))
			}
		}
	}
	for tries := 0; tries < len(p.nodes) && (p.size < partJobs || p.gpus < largest); tries++ {
		p.add(rng.IntN(len(p.nodes)))
	}
}

// add makes a node a part.
func (p *part) add(node int) {
	if p.nodes[node] {
		return
	}
	p.nodes[node] = true
	p.gpus += p.s.Cluster.Nodes[node].Usable().Len()
	for _, i := range p.on[node] {
		if p.out[i] {
			p.out[i] = false
			p.size++
		}
	}
}
