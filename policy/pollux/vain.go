// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package pollux

// vain remembers pairs of nodes that were looked at in vain. A descent comes
// back to about half of its pairs with the same jobs on them, all of which have
// what they had: after a shake that led nowhere, or from the other node.
type vain struct{ tries []try }

// try is one pair, and the steps that it took to find that nothing is better.
// They are charged again when it is met again, so that a search that remembers
// goes the same way as one that does not.
type try struct {
	sign  sign
	steps int
}

// sign is a digest of all that the division of a pair depends on. The set does
// not tell the order of the nodes nor of the jobs; the order does. 0: any, the
// steps do not depend on it.
type sign struct{ set, order uint64 }

// maxTries is the number of pairs that are remembered, a power of two. A pair
// overwrites another whose sign ends alike.
const maxTries = 1 << 11

func newVain() vain { return vain{make([]try, maxTries)} }

// steps returns the steps that a pair took in vain.
func (v vain) steps(s sign) (n int, found bool) {
	t := &v.tries[s.set%maxTries]
	return t.steps, t.steps > 0 && t.sign.set == s.set && (t.sign.order == s.order || t.sign.order == 0)
}

// add remembers a pair.
func (v vain) add(s sign, steps int) { v.tries[s.set%maxTries] = try{s, steps} }

// sign returns the digest of the pair. ok is false if more matters than what
// the jobs have: a tenant's limit.
func (d *pair) sign() (s sign, ok bool) {
	a, b := scatter(uint64(d.nodes[0])), scatter(uint64(d.nodes[1]))
	s = sign{set: a + b, order: a}
	for _, i := range d.who {
		if d.l.menu.jobs[i].tenant >= 0 {
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
