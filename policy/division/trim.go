// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package division

import (
	"container/heap"
	"math"
)

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
	var cuts cuts
	for i, o := range choice {
		if r, ok := m.smaller(i, o, t); ok {
			cuts = append(cuts, r)
		}
	}
	heap.Init(&cuts)
	for over > 0 && len(cuts) > 0 {
		r := cuts[0]
		i := int(r.job)
		over -= int(m.options[i][choice[i]].gpus - m.options[i][r.option].gpus)
		choice[i] = r.option
		if next, ok := m.smaller(i, r.option, t); ok {
			cuts[0] = next
			heap.Fix(&cuts, 0)
		} else {
			heap.Pop(&cuts)
		}
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

func (c cuts) Len() int           { return len(c) }
func (c cuts) Less(a, b int) bool { return byRank(c[a], c[b]) < 0 }
func (c cuts) Swap(a, b int)      { c[a], c[b] = c[b], c[a] }
func (c *cuts) Push(x any)        { *c = append(*c, x.(ranked)) }
func (c *cuts) Pop() any {
	last := (*c)[len(*c)-1]
	*c = (*c)[:len(*c)-1]
	return last
}
