// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package division

// deadEnds remembers pairs of nodes for which no better division was found. A descent
// meets about half of its pairs again, with the same jobs on them and the same
// holdings: after a perturbation that failed, or from the other node.
type deadEnds struct{ tries []try }

// try is one pair and the steps spent on it. They are charged again when the pair
// is met again, so that a search with this memory takes the same path as one
// without.
type try struct {
	sign  sign
	steps int
}

// sign is a digest of everything that the division of a pair depends on. Set
// ignores the order of the nodes and of the jobs; order does not. Order 0: the
// steps do not depend on it.
type sign struct{ set, order uint64 }

// maxTries is the number of remembered pairs, a power of two. A pair overwrites
// another whose digest ends alike.
const maxTries = 1 << 11

func newDeadEnds() deadEnds { return deadEnds{make([]try, maxTries)} }

// steps returns the steps that a remembered pair took.
func (v deadEnds) steps(s sign) (n int, found bool) {
	t := &v.tries[s.set%maxTries]
	return t.steps, t.steps > 0 && t.sign.set == s.set && (t.sign.order == s.order || t.sign.order == 0)
}

// add remembers a pair.
func (v deadEnds) add(s sign, steps int) { v.tries[s.set%maxTries] = try{s, steps} }

// sign returns the digest of the pair. ok is false if the division depends on more:
// a tenant's limit.
func (d *pair) sign() (s sign, ok bool) {
	a, b := scatter(uint64(d.nodes[0])), scatter(uint64(d.nodes[1]))
	s = sign{set: a + b, order: a}
	for _, i := range d.who {
		if d.l.menu.someLimit && d.l.menu.jobs[i].tenant >= 0 {
			return s, false
		}
		h := scatter(^uint64(i))
		for _, slot := range d.l.rows[i] {
			h = scatter(h ^ (uint64(slot.node)<<32 | uint64(slot.gpus)))
		}
		s.set += h
		s.order = scatter(s.order ^ h)
	}
	s.order |= 1
	return s, true
}

// scatter spreads the bits of a number over a word (the finaliser of
// SplitMix64).
func scatter(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
