// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package division

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// explore shakes layouts of random scenes, and shows every pair of nodes of each.
func explore(t *testing.T, show func(d *descent, l *layout, nodes [2]int)) {
	t.Helper()
	for seed := range uint64(20) {
		s := random(t, rand.New(rand.NewPCG(3, seed)), chaos{6, 12, seed%2 > 0})
		m := newMenu(s.problem(usual()))
		m.market.ask()
		l := newLayout(m)
		l.build(m.market.choice)
		m.eager()
		d := newDescent(l, rand.New(rand.NewPCG(4, seed)))
		for range 10 {
			d.shake(l)
			d.waiting(l)
			for a := range l.on {
				for b := range a {
					show(d, l, [2]int{a, b})
					show(d, l, [2]int{b, a})
				}
			}
		}
	}
}

// A pair that remembers dead ends does the same as one that does not,
// and charges the same for it.
func TestVain(t *testing.T) {
	met := 0
	explore(t, func(d *descent, l *layout, nodes [2]int) {
		other := newLayout(l.menu)
		other.copyFrom(l)
		fresh := pair{deadEnds: newDeadEnds()}
		probe := pair{l: l, nodes: nodes}
		probe.gather(d.idle)
		if mark, ok := probe.sign(); ok {
			if _, found := d.pair.deadEnds.steps(mark); found {
				met++
			}
		}
		want := fresh.improve(other, nodes, d.idle)
		got := d.pair.improve(l, nodes, d.idle)
		if got != want || d.pair.steps != fresh.steps || !slices.EqualFunc(l.rows, other.rows, slices.Equal) {
			t.Fatalf("pair %v: better %t after %d steps with rows %v; want %t, %d, %v",
				nodes, got, d.pair.steps, l.rows, want, fresh.steps, other.rows)
		}
	})
	if met == 0 {
		t.Error("no pair was ever met again")
	}
}

// The bound of a pair is one: no division goes below it.
func TestPairBound(t *testing.T) {
	divided := 0
	explore(t, func(d *descent, l *layout, nodes [2]int) {
		p := pair{l: l, nodes: nodes}
		if p.gather(d.idle); len(p.who) == 0 {
			return
		}
		p.measure()
		bound := p.bound()
		if !p.enumerate() {
			return
		}
		if got := p.solve(); less(got, bound) || math.IsInf(got, 1) {
			t.Fatalf("pair %v: a division costs %g, the bound is %g", nodes, got, bound)
		}
		divided++
	})
	if divided == 0 {
		t.Error("no pair was divided")
	}
}
