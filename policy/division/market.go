// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package division

import (
	"math"
	"math/rand/v2"
)

// market finds prices for pieces of nodes, as Lagrange multipliers: piece[t][s] is
// what one more piece of s GPUs on one node of type t would save. At these prices
// every job chooses for itself. The prices account for leftovers: a piece of 3 GPUs
// on a node of 4 leaves 1 that may be of little use. Prices of single GPUs do not,
// and jobs that choose by them do not fit on the nodes.
type market struct {
	m      *menu
	piece  [][]float64 // by type, GPUs
	tenant []float64   // for each GPU under a tenant's limit
	whole  [][]bundle  // by type, GPUs: the cheapest pieces
	many   [][]bundle  // by type, GPUs: the cheapest two pieces or more

	nodes       [][]int // by type, free GPUs: number of nodes
	excess      [][]int // by type, GPUs: demand for pieces less supply
	over        []int   // by tenant: GPUs wanted less its limit
	worth       []bundle
	choice      []int32   // by job: index of its option
	priceFactor []float64 // by job: factor on the prices it sees (distort)

	bound   float64 // lower bound on the cost of any layout: the best dual value
	pace    float64 // step length of the prices
	stalled int     // rounds without a better bound
}

// bundle is a number of GPUs made of pieces.
type bundle struct {
	price float64
	first int32 // piece
}

// newMarket opens the market with prices in proportion to the price of one GPU.
func newMarket(m *menu) *market {
	types, size, most := len(m.s.Cluster.Types), m.blank.sizes, 0
	for _, options := range m.options {
		for _, o := range options {
			most = max(most, int(o.gpus))
		}
	}
	k := &market{
		m: m, pace: 1, bound: math.Inf(-1),
		piece: table[float64](types, size), whole: table[bundle](types, most+1), many: table[bundle](types, most+1),
		nodes: table[int](types, size), excess: table[int](types, size), worth: make([]bundle, size),
		tenant: make([]float64, len(m.limits)), over: make([]int, len(m.limits)),
		choice: make([]int32, len(m.options)), priceFactor: make([]float64, len(m.options)),
	}
	gpu := m.gpuPrice()
	for t := range k.piece {
		for s := range k.piece[t] {
			k.piece[t][s] = gpu * float64(s)
		}
	}
	for n, free := range m.blank.free {
		if m.blank.ready[n] {
			k.nodes[m.s.Cluster.TypeOf(n)][free]++
		}
	}
	return k
}

// table returns a table of zero values in one block of memory.
func table[T any](rows, columns int) [][]T {
	all := make([]T, rows*columns)
	out := make([][]T, rows)
	for i := range out {
		out[i] = all[i*columns : (i+1)*columns]
	}
	return out
}

// price returns what the pieces of an option cost a job, beyond the option's own
// cost.
func (k *market) price(i int, o option) float64 {
	x := 0.0
	switch {
	case o.way == nothing:
		return 0
	case o.one:
		x = k.piece[o.kind][o.gpus] // a piece of no GPUs costs nothing
	case o.way == keep:
		for _, s := range k.m.jobs[i].held {
			if k.m.blank.ready[s.node] {
				x += k.piece[k.m.s.Cluster.TypeOf(int(s.node))][s.gpus]
			}
		}
	default:
		x = k.many[o.kind][o.gpus].price
	}
	if k.m.someLimit {
		if t := k.m.jobs[i].tenant; t >= 0 {
			x += k.tenant[t] * float64(o.gpus)
		}
	}
	return x
}

// ask lets every job choose at the current prices. It returns the dual value: no
// layout costs less.
func (k *market) ask() float64 {
	k.bundle()
	for t := range k.excess {
		clear(k.excess[t])
	}
	for t, limit := range k.m.limits {
		k.over[t] = -limit
	}
	sum := 0.0
	for i, options := range k.m.options {
		k.priceFactor[i] = 1
		best, least := k.favourite(i)
		k.choice[i] = best
		sum += least
		k.demand(i, options[best])
	}
	for t := range k.nodes {
		sum -= k.supply(t)
	}
	for t, limit := range k.m.limits {
		sum -= k.tenant[t] * float64(limit)
	}
	return sum
}

// favourite returns the cheapest option for a job at its price factor, and its cost
// including the price.
func (k *market) favourite(i int) (best int32, least float64) {
	options := k.m.options[i]
	least = options[0].cost
	for o := 1; o < len(options); o++ {
		if c := options[o].cost + k.priceFactor[i]*k.price(i, options[o]); c < least {
			best, least = int32(o), c
		}
	}
	return best, least
}

// bundle finds the cheapest combination of pieces for every number of GPUs.
func (k *market) bundle() {
	for t, piece := range k.piece {
		whole, many := k.whole[t], k.many[t]
		for n := 1; n < len(whole); n++ {
			whole[n].price, many[n].price = math.Inf(1), math.Inf(1)
			for s := min(n, len(piece)-1); s > 0; s-- {
				b := bundle{piece[s] + whole[n-s].price, int32(s)}
				if b.price < whole[n].price {
					whole[n] = b
				}
				if s < n && b.price < many[n].price {
					many[n] = b
				}
			}
		}
	}
}

// demand counts the pieces of an option.
func (k *market) demand(i int, o option) {
	if k.m.someLimit {
		if t := k.m.jobs[i].tenant; t >= 0 {
			k.over[t] += int(o.gpus)
		}
	}
	switch {
	case o.way == nothing:
	case o.one:
		k.excess[o.kind][o.gpus]++ // size 0 does not matter
	case o.way == keep:
		for _, s := range k.m.jobs[i].held {
			if k.m.blank.ready[s.node] {
				k.excess[k.m.s.Cluster.TypeOf(int(s.node))][s.gpus]++
			}
		}
	default:
		next := k.many[o.kind][o.gpus].first
		for left := o.gpus; ; next = k.whole[o.kind][left].first {
			k.excess[o.kind][next]++
			if left -= next; left == 0 {
				break
			}
		}
	}
}

// supply cuts every node of a type into the most valuable pieces, counts them, and
// returns their value.
func (k *market) supply(t int) float64 {
	piece, worth := k.piece[t], k.worth
	for n := 1; n < len(piece); n++ {
		worth[n] = bundle{worth[n-1].price, 0}
		for s := 1; s <= n; s++ {
			if x := piece[s] + worth[n-s].price; x > worth[n].price {
				worth[n] = bundle{x, int32(s)}
			}
		}
	}
	sum := 0.0
	for n, count := range k.nodes[t] {
		sum += float64(count) * worth[n].price
		for left := n; count > 0 && left > 0; {
			s := int(worth[left].first)
			k.excess[t][s] -= count // size 0 does not matter
			left -= max(1, s)
		}
	}
	return sum
}

// step moves the prices towards balance by the subgradient: pieces in excess demand
// become dearer. Goal is the cost of a layout (Polyak's rule for the step length).
func (k *market) step(dual, goal float64) {
	if dual > k.bound {
		k.bound, k.stalled = dual, 0
	} else if k.stalled++; k.stalled > patience {
		k.stalled, k.pace = 0, k.pace/2
	}
	norm := 0.0
	for t := range k.excess {
		k.excess[t][0] = 0
		for _, d := range k.excess[t] {
			norm += float64(d) * float64(d)
		}
	}
	for _, d := range k.over {
		norm += float64(d) * float64(d)
	}
	if norm == 0 || !(goal > dual) {
		return
	}
	by := k.pace * (goal - dual) / norm
	for t := range k.excess {
		for s, d := range k.excess[t] {
			k.piece[t][s] = max(0, k.piece[t][s]+by*float64(d))
		}
	}
	for t, d := range k.over {
		k.tenant[t] = max(0, k.tenant[t]+by*float64(d))
	}
}

// patience is the number of rounds without a better bound after which the market
// slows down.
const patience = 5

// distort lets every job choose again at prices distorted by up to a fraction,
// differently for each job: identical jobs then choose differently, and total
// demand comes closer to supply.
func (k *market) distort(part float64, rng *rand.Rand) {
	for i := range k.choice {
		k.priceFactor[i] = 1 + part*(2*rng.Float64()-1)
		best, _ := k.favourite(i)
		k.choice[i] = best
	}
}
