// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package defrag

import (
	"cmp"
	"math"
	"math/bits"
	"slices"

	"github.com/fairway-gpu/fairway/sched"
	"github.com/fairway-gpu/fairway/sched/place"
)

// rooms returns the trades that would give a gang its GPUs within the level, the
// closest level first, within each by cost. A gang larger than a node begins with
// as few nodes as an empty cluster would need; once it has waited through the first
// rung of the ladder, any nodes of a rack are acceptable.
func (d *decision) rooms(j *sched.Job, level sched.Level) []room {
	var out []room
	if j.GPUs <= d.s.Cluster.MaxGPUs() {
		out = byCost(d.onNode(j))
	}
	if level < sched.SameRack {
		return out
	}
	patient := d.s.Now.Sub(j.Since) < place.StandardPatience().Ladder(j).Rack
	var few, loose []room
	for rack := range d.s.Cluster.Racks {
		for kind, name := range d.s.Cluster.Types {
			if !j.Accepts(name) {
				continue
			}
			if r, ok := d.fewest(j, rack, kind); ok {
				few = append(few, r)
			}
			if patient {
				continue
			}
			if r, ok := d.anyOf(j, rack, kind); ok {
				loose = append(loose, r)
			}
		}
	}
	if least := d.fewestFor(j); patient {
		few = slices.DeleteFunc(few, func(r room) bool { return len(r.shares) > least })
	}
	return slices.Concat(out, byCost(few), byCost(loose))
}

// byCost sorts trades, and truncates each list so that one level does not use up
// the trials of the next.
func byCost(rooms []room) []room {
	slices.SortStableFunc(rooms, func(a, b room) int { return cmp.Compare(a.cost, b.cost) })
	return rooms[:min(len(rooms), mostTargets/3+1)]
}

// nodes returns the ready nodes of a rack and type that the gang could use.
func (d *decision) nodes(j *sched.Job, rack, kind int) []int {
	var out []int
	for _, n := range d.s.Cluster.Racks[rack].Nodes {
		if d.s.Cluster.TypeOf(n) == kind && d.hosts(j, n) {
			out = append(out, n)
		}
	}
	return out
}

func (d *decision) hosts(j *sched.Job, n int) bool {
	node := &d.s.Cluster.Nodes[n]
	return node.State == sched.Ready && j.Suits(node) && !slices.Contains(j.Avoid, node.Name)
}

// onNode returns the trades that put the whole gang on one node.
func (d *decision) onNode(j *sched.Job) []room {
	var out []room
	for n := range d.s.Cluster.Nodes {
		if d.s.Cluster.Nodes[n].Usable().Len() < j.GPUs || !d.hosts(j, n) {
			continue
		}
		if moves, cost := d.clear(n, j.GPUs); len(moves) > 0 {
			out = append(out, room{cost: cost, moves: moves, shares: []share{{n, j.GPUs}}})
		}
	}
	return out
}

// clear returns the cheapest jobs that must leave a node to free a number of its
// GPUs; the cost is infinite if that is impossible.
func (d *decision) clear(n, gpus int) (moves []int, cost float64) {
	need := gpus - d.free.OnNode(n).Len()
	if need <= 0 {
		return nil, 0
	}
	// best[k] is the cheapest set that frees k GPUs. Jobs hold whole GPUs, so a
	// node has at most as many jobs as a word has bits.
	var best [sched.MaxGPUs + 1]struct {
		cost float64
		jobs uint64 // by their index in d.on[n]
	}
	for k := 1; k <= need; k++ {
		best[k].cost = math.Inf(1)
	}
	for at, i := range d.on[n] {
		frees, cost := heldOn(d.s.Jobs[i].Placement, n), d.cost(i)
		for k := need; k > 0; k-- {
			from := best[max(0, k-frees)]
			if sum := from.cost + cost; sum < best[k].cost {
				best[k].cost, best[k].jobs = sum, from.jobs|1<<at
			}
		}
	}
	for set := best[need].jobs; set != 0; set &= set - 1 {
		moves = append(moves, d.on[n][bits.TrailingZeros64(set)])
	}
	return moves, best[need].cost
}

func heldOn(p sched.Placement, node int) int {
	for _, s := range p {
		if int(s.Node) == node {
			return s.GPUs.Len()
		}
	}
	return 0
}

// fewest returns the cheapest trade that puts a gang larger than a node on the
// fewest nodes of a rack: whole ones, and one for the rest.
func (d *decision) fewest(j *sched.Job, rack, kind int) (room, bool) {
	nodes := d.nodes(j, rack, kind)
	size := 0
	for _, n := range nodes {
		size = max(size, d.s.Cluster.Nodes[n].Usable().Len()/j.Task()*j.Task())
	}
	if size == 0 || j.GPUs <= size {
		return room{}, false
	}
	type option struct {
		share
		moves []int
		cost  float64
	}
	options := func(gpus int, used []share) []option {
		var out []option
		for _, n := range nodes {
			if slices.ContainsFunc(used, func(s share) bool { return s.node == n }) || d.s.Cluster.Nodes[n].Usable().Len() < gpus {
				continue
			}
			if moves, cost := d.clear(n, gpus); !math.IsInf(cost, 1) {
				out = append(out, option{share{n, gpus}, moves, cost})
			}
		}
		slices.SortStableFunc(out, func(a, b option) int { return cmp.Compare(a.cost, b.cost) })
		return out
	}
	r := room{rack: rack, kind: kind}
	add := func(o option) {
		r.shares = append(r.shares, o.share)
		r.moves = append(r.moves, o.moves...)
	}
	whole := options(size, nil)
	if len(whole) < j.GPUs/size {
		return r, false
	}
	for _, o := range whole[:j.GPUs/size] {
		add(o)
	}
	if rest := j.GPUs % size; rest > 0 {
		last := options(rest, r.shares)
		if len(last) == 0 {
			return r, false
		}
		add(last[0])
	}
	return d.priced(r)
}

// anyOf returns a cheap trade that frees enough GPUs in a rack for the gang, on any
// of its nodes: jobs leave in the order of their cost per GPU.
func (d *decision) anyOf(j *sched.Job, rack, kind int) (room, bool) {
	nodes := d.nodes(j, rack, kind)
	need := j.GPUs
	var jobs []int
	for _, n := range nodes {
		need -= d.free.OnNode(n).Len() / j.Task() * j.Task()
		for _, i := range d.on[n] {
			if d.inRack(i, rack) {
				jobs = append(jobs, i)
			}
		}
	}
	r := room{rack: rack, kind: kind}
	if need <= 0 {
		return r, false
	}
	slices.Sort(jobs)
	jobs = slices.Compact(jobs)
	each := func(i int) float64 { return d.cost(i) / float64(d.s.Jobs[i].Placement.GPUs()) }
	slices.SortFunc(jobs, func(a, b int) int {
		return cmp.Or(cmp.Compare(each(a), each(b)), cmp.Compare(d.s.Jobs[b].Placement.GPUs(), d.s.Jobs[a].Placement.GPUs()), cmp.Compare(d.s.Jobs[a].Seq, d.s.Jobs[b].Seq))
	})
	for _, i := range jobs {
		if need <= 0 || len(r.moves) == d.Most {
			break
		}
		r.moves = append(r.moves, i)
		need -= d.s.Jobs[i].Placement.GPUs()
	}
	if need > 0 {
		return r, false
	}
	// Drop those that turn out not to be needed, the most expensive first.
	for k := len(r.moves) - 1; k >= 0; k-- {
		if n := d.s.Jobs[r.moves[k]].Placement.GPUs(); need+n <= 0 {
			need += n
			r.moves = slices.Delete(r.moves, k, k+1)
		}
	}
	return d.priced(r)
}

func (d *decision) inRack(i, rack int) bool {
	for _, s := range d.s.Jobs[i].Placement {
		if d.s.Cluster.RackOf(int(s.Node)) != rack {
			return false
		}
	}
	return true
}

// priced adds up the cost of a trade. The largest jobs come first, because they are
// the hardest to place.
func (d *decision) priced(r room) (room, bool) {
	slices.Sort(r.moves)
	r.moves = slices.Compact(r.moves)
	slices.SortFunc(r.moves, func(a, b int) int {
		x, y := d.s.Jobs[a], d.s.Jobs[b]
		return cmp.Or(cmp.Compare(y.Placement.GPUs(), x.Placement.GPUs()), cmp.Compare(x.Seq, y.Seq))
	})
	for _, i := range r.moves {
		r.cost += d.cost(i)
	}
	return r, len(r.moves) > 0
}

func fewestNodes(f *place.Free, j *sched.Job, n int) (sched.Placement, bool) {
	return place.Ladder{}.Place(f, j, n, sched.SameMachine)
}

func within(level sched.Level) place.Strategy {
	return func(f *place.Free, j *sched.Job, n int) (sched.Placement, bool) {
		if n > f.Cluster().MaxGPUs() {
			return f.Within(j, n, sched.SameRack)
		}
		return f.Within(j, n, level)
	}
}
