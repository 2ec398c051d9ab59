// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package division

import "math/rand/v2"

// descent improves a layout by re-dividing pairs of nodes until no pair gains; then
// it perturbs the layout a little and tries again.
type descent struct {
	pair   pair
	rng    *rand.Rand
	nodes  []int   // that it re-divides
	queue  []int   // nodes that have changed since their pairs were tried
	queued []bool  // by node
	idle   []int32 // waiting jobs that would gain most
	lifted []int32 // scratch
	budget int     // steps left
}

// newDescent returns a descent in which every node counts as changed.
func newDescent(l *layout, rng *rand.Rand) *descent {
	nodes := l.menu.divisible()
	d := &descent{rng: rng, nodes: nodes, queued: make([]bool, len(l.on)), budget: descentSteps + len(nodes)*descentStepsNode}
	d.pair.deadEnds = newDeadEnds()
	for _, n := range nodes {
		d.enqueue(n)
	}
	return d
}

// divisible returns the nodes that are worth re-dividing: all or, if the division is
// about some jobs only, those with GPUs for them.
func (m *menu) divisible() []int {
	nodes := make([]int, 0, len(m.blank.free))
	for n, free := range m.blank.free {
		if m.Leave == nil || free > 0 {
			nodes = append(nodes, n)
		}
	}
	if len(nodes) == 0 { // nothing to divide, but a search needs a node to look at
		return []int{0}
	}
	return nodes
}

func (d *descent) enqueue(node int) {
	if !d.queued[node] {
		d.queued[node] = true
		d.queue = append(d.queue, node)
	}
}

// maxPartners is the number of nodes that a changed node is paired with: all in a
// small cluster, a random sample in a large one.
const maxPartners = 24

// run re-divides pairs until no node has changed.
func (d *descent) run(l *layout) {
	d.waiting(l)
	for len(d.queue) > 0 && d.budget > 0 {
		a := d.queue[0]
		d.queue = d.queue[1:]
		d.queued[a] = false
		for k := range min(len(d.nodes), maxPartners) {
			if len(d.nodes) > maxPartners {
				k = d.rng.IntN(len(d.nodes))
			}
			b := d.nodes[k]
			if b == a || !l.board.ready[a] || !l.board.ready[b] {
				continue
			}
			better := d.pair.improve(l, [2]int{a, b}, d.idle)
			d.budget -= d.pair.steps
			if better {
				d.enqueue(a)
				d.enqueue(b)
			}
		}
	}
	l.climb()
}

// waiting samples the waiting jobs that fit on two nodes: the two that would gain
// most, and two others.
func (d *descent) waiting(l *layout) {
	const first, others = 2, 2
	d.idle = d.idle[:0]
	for _, i := range l.menu.keen {
		if len(l.rows[i]) == 0 && l.menu.jobs[i].fewest < 2*l.board.sizes {
			d.idle = append(d.idle, i)
		}
	}
	for k := first; k < min(first+others, len(d.idle)); k++ {
		r := k + d.rng.IntN(len(d.idle)-k)
		d.idle[k], d.idle[r] = d.idle[r], d.idle[k]
	}
	d.idle = d.idle[:min(first+others, len(d.idle))]
}

// maxFailed is the number of perturbations without a gain after which the search
// stops.
const maxFailed = 400

// copying is the cost of copying a layout and climbing, in steps for each job and
// node.
const copying = 10

// polish perturbs the layout and returns the best result. It uses trial as memory
// and returns it as spare.
func (d *descent) polish(best, trial *layout) (better, spare *layout) {
	for failed := 0; failed < maxFailed && d.budget > 0; failed++ {
		d.budget -= copying * (len(best.rows) + len(best.on))
		trial.copyFrom(best)
		d.shake(trial)
		d.run(trial)
		if trial.beats(best) {
			best, trial = trial, best
			failed = 0
		}
	}
	return best, trial
}

// shake perturbs a layout: it empties two or three nodes, or forces an option for
// one job, and lays out again the jobs that lost their GPUs, at randomly distorted
// prices.
func (d *descent) shake(l *layout) {
	d.lifted = d.lifted[:0]
	if d.rng.IntN(3) == 0 {
		d.force(l)
	} else {
		for range 2 + d.rng.IntN(2) {
			d.empty(l, d.anyNode())
		}
	}
	d.rng.Shuffle(len(d.lifted), func(a, b int) { d.lifted[a], d.lifted[b] = d.lifted[b], d.lifted[a] })
	for _, i := range d.lifted {
		l.settle(i, func(o option) float64 { return o.cost + l.menu.market.price(int(i), o)*(0.5+d.rng.Float64()) })
		d.touch(l.rows[i])
	}
}

// anyNode returns a random node.
func (d *descent) anyNode() int { return d.nodes[d.rng.IntN(len(d.nodes))] }

// touch marks the nodes of a row as changed.
func (d *descent) touch(r row) {
	for _, s := range r {
		d.enqueue(int(s.node))
	}
}

// empty takes all jobs off a node.
func (d *descent) empty(l *layout, node int) {
	d.enqueue(node)
	for len(l.on[node]) > 0 {
		i := l.on[node][0]
		d.touch(l.rows[i])
		d.lifted = append(d.lifted, i)
		l.lift(i)
	}
}

// force gives a random job a random option that is better than what it has, and
// empties nodes until the option fits: to keep GPUs, the nodes it holds; else any
// nodes.
func (d *descent) force(l *layout) {
	i := int32(d.rng.IntN(len(l.rows)))
	options, j := l.menu.options[i], &l.menu.jobs[i]
	o := int32(d.rng.IntN(len(options)))
	if !less(options[o].cost, l.costs[i]) {
		return
	}
	d.touch(l.rows[i])
	l.lift(i)
	for k := 0; !l.set(i, o); k++ {
		switch {
		case options[o].way != keep && k < len(d.nodes):
			d.empty(l, d.anyNode())
		case options[o].way == keep && k < len(j.held):
			d.empty(l, int(j.held[k].node))
		default: // it does not fit even so
			d.lifted = append(d.lifted, i)
			return
		}
	}
	d.touch(l.rows[i])
}
