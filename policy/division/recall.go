// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package division

// recall tries to give jobs back what they held across several nodes and lost, and
// returns the best resulting layout. A perturbation seldom achieves that: the
// displaced jobs are idle for a moment, and the first re-division of the held nodes
// takes them in again at the expense of the job. recall therefore starts with pairs
// of a held node and another one.
func (d *descent) recall(best, trial *layout) *layout {
	for i := range best.rows {
		j := &best.menu.jobs[i]
		if len(j.held) < 2 || d.budget <= 0 || !less(j.heldCost, best.costs[i]) {
			continue
		}
		d.budget -= copying * (len(best.rows) + len(best.on))
		trial.copyFrom(best)
		if !d.regain(trial, int32(i)) {
			continue
		}
		d.run(trial)
		if trial.beats(best) {
			best, trial = trial, best
		}
	}
	return best
}

// regain empties the nodes that a job holds, gives them back to it, lays out the
// others again, and divides the pairs of one of these nodes and another one. It
// reports whether the job could get its nodes back.
func (d *descent) regain(l *layout, i int32) bool {
	held := l.menu.jobs[i].held
	d.lifted = d.lifted[:0]
	l.lift(i)
	for _, s := range held {
		d.empty(l, int(s.node))
	}
	if !l.board.fits(&l.menu.jobs[i], held) {
		return false
	}
	l.lay(i, held)
	for _, k := range d.lifted {
		l.settle(k, func(o option) float64 { return o.cost + l.menu.market.price(int(k), o) })
		d.touch(l.rows[k])
	}
	d.waiting(l)
	for _, s := range held {
		for _, b := range d.nodes[:min(len(d.nodes), maxPartners)] {
			if held.on(b) == 0 && l.board.ready[s.node] && l.board.ready[b] {
				d.pair.improve(l, [2]int{int(s.node), b}, d.idle)
				d.budget -= d.pair.steps
			}
		}
	}
	return true
}
