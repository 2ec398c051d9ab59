// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package division

// maxVictims bounds the number of jobs that squeeze considers.
const maxVictims = 256

// squeeze lets a job without GPUs take the fewest GPUs it can use from the job that
// loses least.
func (l *layout) squeeze(i int32) {
	for _, o := range l.menu.options[i] {
		if o.way == oneNode {
			if v, ok := l.victim(i, o); ok {
				l.takeFrom(i, o, v)
			}
			return
		}
	}
}

// victim is a job, one of its slots, and the GPUs that it must give up.
type victim struct {
	job  int32
	slot int
	gpus int32
}

// victim returns the job that loses least, if that is less than the other gains.
func (l *layout) victim(i int32, o option) (best victim, found bool) {
	m := l.menu
	least := m.none - o.cost
	step := max(1, len(l.rows)/maxVictims)
	for k := int(i) % step; k < len(l.rows); k += step {
		j := &m.jobs[k]
		if !l.board.accepts(l.rows[k]) {
			continue
		}
		for x, s := range l.rows[k] {
			need := o.gpus - l.board.free[s.node]
			if need > s.gpus || l.board.c.TypeOf(int(s.node)) != int(o.kind) {
				continue
			}
			loss := m.none - l.costs[k]
			if need < s.gpus || len(l.rows[k]) > 1 {
				l.trial = l.rows[k].without(l.trial[:0], x, need)
				if n := l.trial.gpus(); n > 0 && !j.legal(n) {
					continue
				}
				loss = m.rowCost(j, l.trial) - l.costs[k]
			}
			if need%int32(j.demand.task) == 0 && less(loss, least) {
				least, best, found = loss, victim{int32(k), x, need}, true
			}
		}
	}
	return best, found
}

// takeFrom gives a job an option on the GPUs of a victim, which keeps the rest of its row.
// If CPUs, memory or a tenant's limit forbid it, nothing changes.
func (l *layout) takeFrom(i int32, o option, v victim) {
	at := l.rows[v.job][v.slot].node
	l.old = append(l.old[:0], l.rows[v.job]...)
	l.lift(v.job)
	if to := (row{{at, o.gpus}}); l.board.fits(&l.menu.jobs[i], to) {
		l.lay(i, to)
		l.trial = l.old.without(l.trial[:0], v.slot, v.gpus)
		if l.board.fits(&l.menu.jobs[v.job], l.trial) {
			l.lay(v.job, l.trial)
			return
		}
		l.lift(i)
	}
	l.lay(v.job, l.old)
}

// without appends the row less n GPUs of one of its slots.
func (r row) without(out row, at int, n int32) row {
	for x, s := range r {
		if x == at {
			s.gpus -= n
		}
		if s.gpus > 0 {
			out = append(out, s)
		}
	}
	return out
}
