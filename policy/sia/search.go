// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package sia

import (
	"cmp"
	"math"
	"slices"
)

// Effort of the search. A step evaluates one option once.
const (
	priceRounds = 80
	searchWork  = 8_000_000
)

// search solves the program approximately, where it is too large for exact. Prices
// of GPUs, as Lagrange multipliers, come from a subgradient method; every job takes
// its best option at these prices; jobs that then do not fit step down, those that
// lose least per GPU first. Exchanges of GPUs between two jobs follow as long as
// they gain, and then exact solutions of small parts.
func (in *instance) search() []int {
	m := market{instance: in, left: make([]int, len(in.gpus))}
	prices := m.price()
	m.take(prices)
	m.retreat(prices)
	m.improve()
	m.polish()
	return m.choice
}

// market is a choice under construction.
type market struct {
	*instance
	choice []int
	left   []int // GPUs by type
}

// wish returns the best option of a menu at some prices, and its value.
func wish(menu []option, prices []float64) (best int, worth float64) {
	best = nothing
	for o, x := range menu {
		if w := x.gain - prices[x.gpuType]*float64(x.gpus); w > worth+1e-12 {
			best, worth = o, w
		}
	}
	return best, worth
}

// price returns the prices with the lowest dual value found: a bound on the sum of
// gains, near which the best choice lies.
func (m *market) price() []float64 {
	prices := make([]float64, len(m.gpus))
	best, lowest := slices.Clone(prices), math.Inf(1)
	// A price at which no job wants a GPU bounds the steps.
	high := 0.0
	for _, menu := range m.menus {
		for _, x := range menu {
			high = max(high, x.gain/float64(x.gpus))
		}
	}
	use := make([]int, len(m.gpus))
	for round := range priceRounds {
		clear(use)
		dual := 0.0
		for t, n := range m.gpus {
			dual += prices[t] * float64(n)
		}
		for _, menu := range m.menus {
			o, worth := wish(menu, prices)
			dual += worth
			if o != nothing {
				use[menu[o].gpuType] += menu[o].gpus
			}
		}
		if dual < lowest {
			lowest = dual
			copy(best, prices)
		}
		step := high * math.Pow(0.93, float64(round)) / 2
		for t, n := range m.gpus {
			excess := float64(use[t]-n) / float64(max(1, n))
			prices[t] = max(0, prices[t]+step*max(-1, min(1, excess)))
		}
	}
	return best
}

// take gives every job its wish, whether it fits or not.
func (m *market) take(prices []float64) {
	m.choice = make([]int, len(m.menus))
	copy(m.left, m.gpus)
	for k, menu := range m.menus {
		m.choice[k], _ = wish(menu, prices)
		if o := m.choice[k]; o != nothing {
			m.left[menu[o].gpuType] -= menu[o].gpus
		}
	}
}

// move is a change of one job's option.
type move struct {
	job, to int
	loss    float64 // of gain
	freed   int     // GPUs of the type in question
}

// gainOf returns the gain of an option of a job; nothing has gain 0.
func (m *market) gainOf(k, o int) float64 {
	if o == nothing {
		return 0
	}
	return m.menus[k][o].gain
}

// set changes the option of a job.
func (m *market) set(k, to int) {
	if o := m.choice[k]; o != nothing {
		m.left[m.menus[k][o].gpuType] += m.menus[k][o].gpus
	}
	if to != nothing {
		m.left[m.menus[k][to].gpuType] -= m.menus[k][to].gpus
	}
	m.choice[k] = to
}

// retreat lets jobs step down until what is chosen fits on every type.
func (m *market) retreat(prices []float64) {
	for t := range m.left {
		for m.left[t] < 0 {
			moves := m.exits(t, prices)
			if len(moves) == 0 {
				break
			}
			for _, v := range moves {
				if m.left[t] >= 0 {
					break
				}
				if v.to == nothing || m.left[m.menus[v.job][v.to].gpuType] >= m.menus[v.job][v.to].gpus || m.menus[v.job][v.to].gpuType == t {
					m.set(v.job, v.to)
				}
			}
		}
	}
}

// exits returns the best step down of every job on a type, the cheapest per GPU
// first. A job can always step down to nothing, so this ends.
func (m *market) exits(t int, prices []float64) []move {
	var moves []move
	for k, menu := range m.menus {
		now := m.choice[k]
		if now == nothing || menu[now].gpuType != t {
			continue
		}
		best := move{k, nothing, menu[now].gain, menu[now].gpus}
		for o, x := range menu {
			v := move{k, o, menu[now].gain - x.gain, menu[now].gpus}
			switch {
			case x.gpuType == t && x.gpus < menu[now].gpus:
				v.freed -= x.gpus
			case x.gpuType != t && m.left[x.gpuType] >= x.gpus:
				v.loss += prices[x.gpuType] * float64(x.gpus)
			default:
				continue
			}
			if v.loss*float64(best.freed) < best.loss*float64(v.freed) {
				best = v
			}
		}
		moves = append(moves, best)
	}
	slices.SortStableFunc(moves, func(a, b move) int {
		return cmp.Compare(a.loss/float64(a.freed), b.loss/float64(b.freed))
	})
	return moves
}
