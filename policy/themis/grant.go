// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package themis

import (
	"cmp"
	"slices"

	"github.com/fairway-gpu/fairway/policy/auction"
	"github.com/fairway-gpu/fairway/sched"
)

// budget is what an app may use, in GPUs by node.
type budget map[int]int

func newBudget(shares []auction.Share) budget {
	b := budget{}
	for _, s := range shares {
		b[s.Machine] += s.GPUs
	}
	return b
}

func (b budget) covers(p sched.Placement) bool {
	return !slices.ContainsFunc(p, func(s sched.Slice) bool { return b[int(s.Node)] < s.GPUs.Len() })
}

func (b budget) take(p sched.Placement) {
	for _, s := range p {
		b[int(s.Node)] -= s.GPUs.Len()
	}
}

// nodes returns the nodes with GPUs left, fewest GPUs first.
func (b budget) nodes() []auction.Share {
	out := make([]auction.Share, 0, len(b))
	for n, k := range b {
		if k > 0 {
			out = append(out, auction.Share{Machine: n, GPUs: k})
		}
	}
	slices.SortFunc(out, func(x, y auction.Share) int {
		return cmp.Or(cmp.Compare(x.GPUs, y.GPUs), cmp.Compare(x.Machine, y.Machine))
	})
	return out
}

// spend starts jobs of an app within a budget, in its order: each on one node if
// the budget has one, else on the fewest of a rack, else on the fewest of all.
func (r *round) spend(a *app, b budget) {
	for _, j := range a.jobs {
		if !j.waits(r) || r.quota.Left(j.Job) < j.size {
			continue
		}
		nodes := b.nodes()
		if len(nodes) == 0 {
			return
		}
		if !r.onOne(j, b, nodes) {
			r.onSeveral(j, b, nodes)
		}
	}
}

// onOne starts a job on one node of the budget, or on another of the same type if
// that stops no job. It uses a node on which the job failed only if there is no
// other.
func (r *round) onOne(j *job, b budget, nodes []auction.Share) bool {
	return len(j.Avoid) > 0 && r.onOneOf(j, b, nodes, true) || r.onOneOf(j, b, nodes, false)
}

func (r *round) onOneOf(j *job, b budget, nodes []auction.Share, shy bool) bool {
	for _, s := range nodes {
		node := &r.s.Cluster.Nodes[s.Machine]
		if s.GPUs < j.size || !j.Suits(node) {
			continue
		}
		n := max(j.size, j.LargestSize(min(s.GPUs, j.most, r.quota.Left(j.Job))))
		at := s.Machine
		if shuns := shy && j.avoids(node); shuns || r.free.OnNode(at).Len() < n {
			if other, ok := r.idleNode(j, n, node.Type); ok {
				at = other
			} else if shuns || !r.evict(at, n) {
				continue
			}
		}
		p := sched.Placement{r.pick(at, n)}
		if !r.free.Fits(j.Job, p) || !r.reaches(j, p) {
			continue
		}
		b[s.Machine] -= n
		r.start(j, p)
		return true
	}
	return false
}

// reaches reports whether a placement is as close together as the job demands.
func (r *round) reaches(j *job, p sched.Placement) bool {
	return j.Spreads(r.s.Cluster.Level(p))
}

// avoids reports whether the job failed on a node and stays away from it.
func (j *job) avoids(n *sched.Node) bool { return slices.Contains(j.Avoid, n.Name) }

// idleNode returns the node with the fewest idle GPUs among those with enough that
// the job does not avoid.
func (r *round) idleNode(j *job, n int, t sched.GPUType) (int, bool) {
	best, fewest := 0, sched.MaxGPUs+1
	for i := range r.s.Cluster.Nodes {
		node := &r.s.Cluster.Nodes[i]
		if k := r.free.OnNode(i).Len(); k >= n && k < fewest && node.State == sched.Ready && node.Type == t &&
			j.Suits(node) && !j.avoids(node) && r.free.Fits(j.Job, sched.Placement{r.pick(i, n)}) {
			best, fewest = i, k
		}
	}
	return best, fewest <= sched.MaxGPUs
}

// evict drops running jobs whose GPUs are on offer until a node has enough idle
// GPUs: first those of bidders, which did not win them back, then those of the apps
// that it hurts least.
func (r *round) evict(node, n int) bool {
	jobs := slices.Clone(r.onOffer[node])
	slices.SortStableFunc(jobs, func(a, b *job) int {
		switch {
		case a.app.bids != b.app.bids && a.app.bids:
			return -1
		case a.app.bids != b.app.bids:
			return 1
		}
		return cmp.Or(cmp.Compare(a.app.rhoIfLost, b.app.rhoIfLost), cmp.Compare(a.left, b.left), cmp.Compare(a.Seq, b.Seq))
	})
	for _, j := range jobs {
		if r.free.OnNode(node).Len() >= n {
			break
		}
		if !j.won && !j.dropped {
			r.drop(j)
		}
	}
	return r.free.OnNode(node).Len() >= n
}

// pick returns n idle GPUs of a node, in the tightest island that has enough.
func (r *round) pick(node, n int) sched.Slice {
	free := r.free.OnNode(node)
	s := sched.Slice{Node: int32(node), Milli: sched.WholeGPU, GPUs: free.Lowest(n)}
	best := free.Len() + 1
	for _, island := range r.s.Cluster.Nodes[node].Islands {
		if k := (free & island).Len(); k >= n && k < best {
			best, s.GPUs = k, (free & island).Lowest(n)
		}
	}
	return s
}

// onSeveral starts a job on several nodes of the budget; it uses nodes that the job
// avoids only if the others are not enough.
func (r *round) onSeveral(j *job, b budget, nodes []auction.Share) bool {
	slices.Reverse(nodes) // most GPUs first
	nodes = slices.DeleteFunc(nodes, func(s auction.Share) bool { return !j.Suits(&r.s.Cluster.Nodes[s.Machine]) })
	if len(j.Avoid) > 0 {
		others := slices.DeleteFunc(slices.Clone(nodes), func(s auction.Share) bool { return j.avoids(&r.s.Cluster.Nodes[s.Machine]) })
		if r.scatter(j, b, others) {
			return true
		}
	}
	return r.scatter(j, b, nodes)
}

func (r *round) scatter(j *job, b budget, nodes []auction.Share) bool {
	g := j.app.groupOf(j)
	for _, level := range []sched.Level{sched.SameRack, sched.CrossRack} {
		if !r.bears(g, level) {
			return false
		}
		for i := range nodes {
			if p, ok := r.together(j, nodes, i, level); ok {
				b.take(p)
				r.start(j, p)
				return true
			}
		}
	}
	return false
}

// together makes a placement from nodes near one of them: of its type and, for
// SameRack, of its rack. It evicts jobs that are in the way.
func (r *round) together(j *job, nodes []auction.Share, first int, level sched.Level) (sched.Placement, bool) {
	c, at := r.s.Cluster, nodes[first].Machine
	var use []auction.Share
	need := j.size
	for _, s := range nodes {
		if c.TypeOf(s.Machine) != c.TypeOf(at) || level == sched.SameRack && c.RackOf(s.Machine) != c.RackOf(at) {
			continue
		}
		if k := min(need, s.GPUs-s.GPUs%j.Task()); k > 0 {
			use = append(use, auction.Share{Machine: s.Machine, GPUs: k})
			need -= k
		}
	}
	if need > 0 {
		return nil, false
	}
	var p sched.Placement
	for _, s := range use {
		if r.free.OnNode(s.Machine).Len() < s.GPUs && !r.evict(s.Machine, s.GPUs) {
			return nil, false
		}
		p = append(p, r.pick(s.Machine, s.GPUs))
	}
	return p, r.free.Fits(j.Job, p)
}

// groupOf returns the group of a job.
func (a *app) groupOf(j *job) group {
	for _, g := range a.groups {
		if g.size == j.size && g.task == j.Task() && g.widest == j.MaxSpread {
			return g
		}
	}
	return group{size: j.size, task: j.Task(), widest: j.MaxSpread, slow: classOf(j.Job)}
}
