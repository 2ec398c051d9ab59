// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package division

import (
	"cmp"
	"slices"
)

// build lays out a choice of options as well as it can: first what is kept, then
// the jobs on one node, then those on several, large before small. A job whose
// option does not fit gets its best other option that does. What is left over goes
// to the jobs that gain most.
func (l *layout) build(choice []int32) {
	l.clear()
	options := l.menu.options
	l.order, l.failed = l.order[:0], l.failed[:0]
	for i, o := range choice {
		switch options[i][o].way {
		case nothing:
		case keep:
			if !l.set(int32(i), o) {
				l.failed = append(l.failed, int32(i))
			}
		default:
			l.order = append(l.order, int32(i))
		}
	}
	slices.SortFunc(l.order, func(a, b int32) int {
		x, y := options[a][choice[a]], options[b][choice[b]]
		return cmp.Or(cmp.Compare(min(x.way, oneRack), min(y.way, oneRack)), cmp.Compare(y.gpus, x.gpus), cmp.Compare(a, b))
	})
	for _, i := range l.order {
		if !l.set(i, choice[i]) && !l.shift(i, options[i][choice[i]]) {
			l.failed = append(l.failed, i)
		}
	}
	for _, i := range l.failed {
		l.settle(i, func(o option) float64 { return o.cost + l.menu.market.price(int(i), o) })
		if len(l.rows[i]) == 0 {
			l.squeeze(i)
		}
	}
	l.climb()
}

// settle gives a job without GPUs the first of its options that fits.
func (l *layout) settle(i int32, by func(option) float64) {
	l.ranked = l.ranked[:0]
	for o, opt := range l.menu.options[i] {
		l.ranked = append(l.ranked, ranked{by(opt), i, int32(o)})
	}
	slices.SortFunc(l.ranked, byRank)
	for _, r := range l.ranked {
		if l.set(i, r.option) {
			return
		}
	}
}

// maxShift is the largest number of jobs that shift considers.
const maxShift = 256

// shift gives a job an option on one node by moving one smaller job to another
// node. That job must be one that moves anyway.
func (l *layout) shift(i int32, o option) bool {
	if o.way != oneNode || l.board.left[o.kind] < int(o.gpus) || len(l.rows) > maxShift {
		return false
	}
	j := &l.menu.jobs[i]
	for k := range l.rows {
		if len(l.rows[k]) != 1 || l.rows[k].same(l.menu.jobs[k].held) {
			continue
		}
		at := l.rows[k][0]
		if at.gpus >= o.gpus || l.board.free[at.node]+at.gpus < o.gpus || l.board.c.TypeOf(int(at.node)) != int(o.kind) {
			continue
		}
		l.lift(int32(k))
		if to := (row{{at.node, o.gpus}}); l.board.fits(j, to) {
			l.lay(i, to)
			var ok bool
			if l.trial, ok = l.board.onOne(l.trial[:0], want{l.menu.jobs[k].demand, int(o.kind), int(at.gpus)}); ok {
				l.lay(int32(k), l.trial)
				return true
			}
			l.lift(i)
		}
		l.lay(int32(k), row{at})
	}
	return false
}

// climb gives jobs better options as long as no other job has to give up anything,
// the largest gain per GPU first.
func (l *layout) climb() {
	const passes = 8
	for range passes {
		l.jobs = l.jobs[:0]
		for i := range l.menu.options {
			if l.gains(int32(i)); len(l.ranked) > 0 {
				l.jobs = append(l.jobs, slices.MinFunc(l.ranked, byRank))
			}
		}
		slices.SortFunc(l.jobs, byRank)
		changed := false
		for _, g := range l.jobs {
			l.gains(g.job)
			slices.SortFunc(l.ranked, byRank)
			for _, r := range l.ranked {
				changed = l.replace(r.job, r.option) || changed
			}
		}
		if !changed {
			return
		}
	}
}

// gains lists the options that would be better for a job and might fit.
func (l *layout) gains(i int32) {
	l.ranked = l.ranked[:0]
	now := l.costs[i]
	if !less(l.menu.least[i], now) {
		return
	}
	for o, opt := range l.menu.options[i] {
		if !less(opt.cost, now) {
			continue
		}
		more := int(opt.gpus)
		for _, s := range l.rows[i] {
			if l.board.c.TypeOf(int(s.node)) == int(opt.kind) {
				more -= int(s.gpus)
			}
		}
		if more <= l.board.left[opt.kind] {
			l.ranked = append(l.ranked, ranked{(opt.cost - now) / max(0.5, float64(more)), i, int32(o)})
		}
	}
}
