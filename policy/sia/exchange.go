// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package sia

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
	gives := make([]int, len(m.menus))   // exchanges of this pass to come that a job gives GPUs for
	var found []exchange
	var queue heap
	for pass := 1; pass*2*size <= searchWork+2*size; pass++ {
		found = m.exchanges(found[:0])
		queue = queue[:0]
		clear(gives)
		for i, x := range found {
			queue = append(queue, ranked{x.up.loss, int32(i)})
			if x.from.job != nothing {
				gives[x.from.job]++
			}
		}
		queue.order()
		done := false
		change := func(job, to int) {
			m.set(job, to)
			changed[job], done = pass, true
		}
		// Often all jobs want the GPUs of the same few, and most exchanges are void after the
		// first ones: open are those to come that are not.
		for open := len(queue); open > 0; {
			x := &found[queue.pop().at]
			from := x.from.job
			if from != nothing && changed[from] == pass {
				continue
			}
			open--
			if from != nothing {
				gives[from]--
			}
			if changed[x.up.job] == pass || !m.fits(*x) {
				continue
			}
			if from != nothing {
				change(from, x.from.to)
				open -= gives[from]
			}
			change(x.up.job, x.up.to)
			open -= gives[x.up.job]
		}
		if !done {
			return
		}
	}
}

// ranked is an exchange in a heap.
type ranked struct {
	loss float64
	at   int32 // among those found, which are in the order of their jobs
}

func (a ranked) before(b ranked) bool { return a.loss < b.loss || a.loss == b.loss && a.at < b.at }

// heap has the exchange that gains most first.
type heap []ranked

// order makes a heap of exchanges in any order.
func (h heap) order() {
	for i := len(h)/2 - 1; i >= 0; i-- {
		h.sink(i)
	}
}

// pop removes the first.
func (h *heap) pop() ranked {
	first, last := (*h)[0], len(*h)-1
	(*h)[0] = (*h)[last]
	*h = (*h)[:last]
	h.sink(0)
	return first
}

func (h heap) sink(i int) {
	for {
		least := i
		for _, child := range [2]int{2*i + 1, 2*i + 2} {
			if child < len(h) && h[child].before(h[least]) {
				least = child
			}
		}
		if least == i {
			return
		}
		h[i], h[least] = h[least], h[i]
		i = least
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
