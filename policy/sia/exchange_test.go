// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package sia

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"
)

// inOrder is market.improve as it is defined: all exchanges of a pass in order, with those
// that are void passed over one by one.
func (m *market) inOrder() {
	size := 1
	for _, menu := range m.menus {
		size += len(menu)
	}
	for pass := 1; pass*2*size <= searchWork+2*size; pass++ {
		found, changed := m.exchanges(nil), map[int]bool{nothing: false}
		slices.SortStableFunc(found, func(a, b exchange) int { return cmp.Compare(a.up.loss, b.up.loss) })
		for _, x := range found {
			if changed[x.up.job] || changed[x.from.job] || !m.fits(x) {
				continue
			}
			if x.from.job != nothing {
				m.set(x.from.job, x.from.to)
				changed[x.from.job] = true
			}
			m.set(x.up.job, x.up.to)
			changed[x.up.job] = true
		}
		if len(changed) == 1 {
			return
		}
	}
}

// TestImproveInOrder: exchanges are made in the order of their gains, and all that can be.
func TestImproveInOrder(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 5))
	exchanged := 0
	for range 300 {
		in := randomInstance(random, 1+random.IntN(40), 4+random.IntN(20), 4+random.IntN(20))
		start := func() *market {
			m := &market{instance: in, left: make([]int, len(in.gpus))}
			prices := m.price()
			m.take(prices)
			m.retreat(prices)
			for k := range m.choice { // far from the best, so that there is much to exchange
				if k%3 == 0 && m.choice[k] != nothing {
					m.set(k, nothing)
				}
			}
			return m
		}
		got, want := start(), start()
		before := slices.Clone(got.choice)
		got.improve()
		want.inOrder()
		if !slices.Equal(got.choice, want.choice) {
			t.Fatalf("chose %v; want %v", got.choice, want.choice)
		}
		if !slices.Equal(before, want.choice) {
			exchanged++
		}
	}
	if exchanged < 200 {
		t.Errorf("%d of 300 had something to exchange; want 200 or more", exchanged)
	}
}
