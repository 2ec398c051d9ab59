// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package interfere

// group is a job and the jobs it shares a GPU with.
type group struct {
	own    Load
	others []Load
	skip   int  // index of own in others, -1 if it is not there
	raise  bool // assume higher utilisations than expected
}

// size returns the number of others.
func (c group) size() int {
	if c.skip >= 0 {
		return len(c.others) - 1
	}
	return len(c.others)
}

func (c group) load(i int) Load {
	if c.raise {
		return c.others[i].raised()
	}
	return c.others[i]
}

// raised returns the group with every job busier than expected.
func (c group) raised() group {
	c.raise, c.own = true, c.own.raised()
	return c
}

// total returns the sum of all utilisations.
func (c group) total() float64 {
	sum := c.own.util()
	for i := range c.others {
		if i != c.skip {
			sum += c.load(i).util()
		}
	}
	return sum
}

// uncertain reports whether some utilisation is not exactly known.
func (c group) uncertain() bool {
	if c.own.Spread > 0 {
		return true
	}
	for i, l := range c.others {
		if i != c.skip && l.Spread > 0 {
			return true
		}
	}
	return false
}
