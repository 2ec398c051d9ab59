// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package division

import "math"

// trim shrinks a choice until it asks for no more GPUs of any type than there are,
// where that loses least at the market's prices.
func (m *menu) trim(choice []int32) {
	over := make([]int, len(m.blank.left))
	for t, left := range m.blank.left {
		over[t] = -left
	}
	for i, o := range choice {
		if opt := m.options[i][o]; opt.gpus > 0 {
			over[opt.kind] += int(opt.gpus)
		}
	}
	for t := range over {
		if over[t] > 0 {
			m.trimType(choice, t, over[t])
		}
	}
}

// trimType removes a number of GPUs of one type from a choice.
func (m *menu) trimType(choice []int32, t, over int) {
	cuts := m.cuts[:0]
	for i, o := range choice {
		if r, ok := m.smaller(i, o, t); ok {
			cuts = append(cuts, r)
		}
	}
	m.cuts = cuts
	cuts.order()
	for over > 0 && len(cuts) > 0 {
		r := cuts[0]
		i := int(r.job)
		over -= int(m.options[i][choice[i]].gpus - m.options[i][r.option].gpus)
		choice[i] = r.option
		if next, ok := m.smaller(i, r.option, t); ok {
			cuts[0] = next
		} else {
			cuts[0] = cuts[len(cuts)-1]
			cuts = cuts[:len(cuts)-1]
		}
		cuts.sink(0)
	}
}

// smaller returns the option of a job with fewer GPUs of a type, or none, that
// loses least per GPU given up.
func (m *menu) smaller(i int, now int32, t int) (r ranked, ok bool) {
	options := m.options[i]
	from := options[now]
	if from.gpus == 0 || int(from.kind) != t {
		return r, false
	}
	worth := func(o option) float64 { return o.cost + m.market.priceFactor[i]*m.market.price(i, o) }
	r = ranked{by: math.Inf(1), job: int32(i)}
	have := worth(from)
	for o, opt := range options {
		if opt.gpus >= from.gpus || (opt.gpus > 0 && int(opt.kind) != t) {
			continue
		}
		if by := (worth(opt) - have) / float64(from.gpus-opt.gpus); by < r.by {
			r.by, r.option = by, int32(o)
		}
	}
	return r, true
}

// cuts is a heap of options, the least loss on top.
type cuts []ranked

// order makes it a heap.
func (c cuts) order() {
	for at := len(c)/2 - 1; at >= 0; at-- {
		c.sink(at)
	}
}

// sink moves an option down until none below it loses less.
func (c cuts) sink(at int) {
	for {
		least := at
		for below := 2*at + 1; below <= 2*at+2 && below < len(c); below++ {
			if byRank(c[below], c[least]) < 0 {
				least = below
			}
		}
		if least == at {
			return
		}
		c[at], c[least] = c[least], c[at]
		at = least
	}
}
