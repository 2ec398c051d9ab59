// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package sia

import (
	"cmp"
	"slices"
)

// exchange is a step up of one job, with GPUs that are free or that another job gives up
// at a smaller loss (job nothing: none does).
type exchange struct{ up, from move }

// improve makes exchanges as long as they gain: the best of every job, the largest gain
// first, as far as the jobs concerned and the GPUs are still as they were.
func (m *market) improve() {
	size := 1
	for _, menu := range m.menus {
		size += len(menu)
	}
	changed := make([]int, len(m.menus)) // the last pass in which a job's option changed
	var found []exchange
	for pass := 1; pass*2*size <= searchWork+2*size; pass++ {
		found = m.exchanges(found[:0])
		slices.SortStableFunc(found, func(a, b exchange) int { return cmp.Compare(a.up.loss, b.up.loss) })
		done := false
		for _, x := range found {
			if changed[x.up.job] == pass || x.from.job != nothing && changed[x.from.job] == pass {
				continue
			}
			if !m.fits(x) {
				continue
			}
			if x.from.job != nothing {
				m.set(x.from.job, x.from.to)
				changed[x.from.job] = pass
			}
			m.set(x.up.job, x.up.to)
			changed[x.up.job], done = pass, true
		}
		if !done {
			return
		}
	}
}

// exchanges appends the best exchange of every job that gains by one.
func (m *market) exchanges(out []exchange) []exchange {
	gives := m.gives()
	for k, menu := range m.menus {
		now := m.choice[k]
		best := exchange{move{loss: -1e-9}, move{job: nothing}}
		for o, x := range menu {
			if o == now {
				continue
			}
			short := x.gpus - m.left[x.gpuType]
			if now != nothing && menu[now].gpuType == x.gpuType {
				short -= menu[now].gpus
			}
			v := move{k, o, m.gainOf(k, now) - x.gain, 0}
			giver := move{job: nothing}
			if short > 0 {
				var ok bool
				if giver, ok = gives.of(x.gpuType, short, k); !ok {
					continue
				}
				v.loss += giver.loss
			}
			if v.loss < best.up.loss {
				best = exchange{v, giver}
			}
		}
		if best.up.loss < -1e-9 {
			out = append(out, best)
		}
	}
	return out
}

// fits reports whether there are GPUs for an exchange.
func (m *market) fits(x exchange) bool {
	to := m.menus[x.up.job][x.up.to]
	have := m.left[to.gpuType]
	if o := m.choice[x.up.job]; o != nothing && m.menus[x.up.job][o].gpuType == to.gpuType {
		have += m.menus[x.up.job][o].gpus
	}
	if f := x.from; f.job != nothing {
		has := m.menus[f.job][m.choice[f.job]]
		if has.gpuType == to.gpuType {
			have += has.gpus
		}
		if f.to != nothing {
			next := m.menus[f.job][f.to]
			if next.gpuType == to.gpuType {
				have -= next.gpus
			} else if m.left[next.gpuType] < next.gpus {
				return false
			}
		}
	}
	return have >= to.gpus
}

// offers has, by type and number of GPUs, the two jobs that give up at least that
// many for the least loss: two, because one may be the job that asks.
type offers [][][2]move

// maxShort bounds the GPUs that one exchange moves.
const maxShort = 64

func (m *market) gives() offers {
	out := make(offers, len(m.gpus))
	for t, n := range m.gpus {
		out[t] = make([][2]move, min(n, maxShort)+1)
		for i := range out[t] {
			out[t][i] = [2]move{{job: nothing}, {job: nothing}}
		}
	}
	for k, menu := range m.menus {
		now := m.choice[k]
		if now == nothing {
			continue
		}
		has := menu[now]
		out.add(has.gpuType, move{k, nothing, has.gain, has.gpus})
		for o, x := range menu {
			v := move{k, o, has.gain - x.gain, has.gpus}
			switch {
			case o == now:
				continue
			case x.gpuType == has.gpuType && x.gpus < has.gpus:
				v.freed -= x.gpus
			case x.gpuType == has.gpuType || m.left[x.gpuType] < x.gpus:
				continue
			}
			out.add(has.gpuType, v)
		}
	}
	for _, byGPUs := range out { // a job that gives up more also gives up less
		for n := len(byGPUs) - 2; n > 0; n-- {
			for _, v := range byGPUs[n+1] {
				byGPUs[n] = lesser(byGPUs[n], v)
			}
		}
	}
	return out
}

func (f offers) add(t int, v move) {
	if v.freed > 0 {
		n := min(v.freed, len(f[t])-1)
		f[t][n] = lesser(f[t][n], v)
	}
}

// lesser keeps the two moves of different jobs with the least losses.
func lesser(two [2]move, v move) [2]move {
	switch {
	case v.job == nothing:
	case two[0].job == nothing || v.loss < two[0].loss:
		if two[0].job == v.job {
			return [2]move{v, two[1]}
		}
		return [2]move{v, two[0]}
	case two[0].job != v.job && (two[1].job == nothing || v.loss < two[1].loss):
		two[1] = v
	}
	return two
}

// of returns the cheapest offer of GPUs by another job.
func (f offers) of(t, gpus, asks int) (move, bool) {
	if gpus >= len(f[t]) {
		return move{}, false
	}
	for _, v := range f[t][gpus] {
		if v.job != nothing && v.job != asks {
			return v, true
		}
	}
	return move{}, false
}
