// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package auction

import (
	"math/bits"
	"slices"
)

// seat is GPUs of one machine that a bidder has in the current solution.
type seat struct {
	machine, gpus int32
}

// room is what is left of the offer while a solution is built. Whether a choice
// fits is answered from counts; machines are chosen only when it is taken.
type room struct {
	p       *problem
	free    []int32
	total   int
	slot    []int32      // by machine: its place in its class
	atLeast [][]int32    // by class and number: machines with at least that many free
	bucket  [][][]uint64 // by class and number free: set of slots
}

func newRoom(p *problem) *room {
	r := &room{
		p:       p,
		free:    slices.Clone(p.free),
		slot:    make([]int32, len(p.free)),
		atLeast: make([][]int32, len(p.classes)),
		bucket:  make([][][]uint64, len(p.classes)),
	}
	for c, machines := range p.classes {
		most := int32(0)
		for _, m := range machines {
			most = max(most, p.free[m])
		}
		r.atLeast[c] = make([]int32, most+1)
		r.bucket[c] = make([][]uint64, most+1)
		words := (len(machines) + 63) / 64
		all := make([]uint64, words*int(most+1))
		for k := range r.bucket[c] {
			r.bucket[c][k] = all[k*words : (k+1)*words]
		}
		for slot, m := range machines {
			r.slot[m] = int32(slot)
			r.total += int(p.free[m])
			r.bucket[c][p.free[m]][slot/64] |= 1 << (slot % 64)
			for k := int32(0); k <= p.free[m]; k++ {
				r.atLeast[c][k]++
			}
		}
	}
	return r
}

// add returns GPUs to a machine, or takes them if the number is negative.
func (r *room) add(m, gpus int32) {
	c, slot, from := r.p.classOf[m], r.slot[m], r.free[m]
	to := from + gpus
	bit := uint64(1) << (slot % 64)
	r.bucket[c][from][slot/64] &^= bit
	r.bucket[c][to][slot/64] |= bit
	for k := from + 1; k <= to; k++ {
		r.atLeast[c][k]++
	}
	for k := to + 1; k <= from; k++ {
		r.atLeast[c][k]--
	}
	r.free[m] = to
	r.total += int(gpus)
}

func (r *room) take(seats []seat) {
	for _, s := range seats {
		r.add(s.machine, -s.gpus)
	}
}

func (r *room) give(seats []seat) {
	for _, s := range seats {
		r.add(s.machine, s.gpus)
	}
}

// blocked returns the first part of a choice that does not fit, or -1 if the choice
// fits. Parts of one class are on different machines. Since larger parts come
// first, it suffices that for each part there are at least as many machines with
// room for it as parts up to it.
func (r *room) blocked(c *choice) int {
	if c.gpus > r.total {
		return 0
	}
	class, before := int32(-1), int32(0)
	for i, q := range c.parts {
		if q.machine >= 0 {
			if r.free[q.machine] < q.gpus {
				return i
			}
			continue
		}
		if q.class != class {
			class, before = q.class, 0
		}
		have := r.enough(q.class, q.gpus)
		for _, pin := range c.parts[:c.pinned] {
			if pin.class == q.class && r.free[pin.machine] >= q.gpus {
				have-- // a machine of the class that the choice names
			}
		}
		if have <= before {
			return i
		}
		before++
	}
	return -1
}

func (r *room) fits(c *choice) bool { return r.blocked(c) < 0 }

// enough returns how many machines of a class have at least that many GPUs free.
func (r *room) enough(class, gpus int32) int32 {
	if int(gpus) >= len(r.atLeast[class]) {
		return 0
	}
	return r.atLeast[class][gpus]
}

// place takes the GPUs of a choice that fits, for each class on the best-fitting
// machines, and appends the seats.
func (r *room) place(c *choice, seats []seat) []seat {
	first := len(seats)
	for _, q := range c.parts {
		m := q.machine
		if m < 0 {
			m = r.bestFit(q, seats[first:])
		}
		r.add(m, -q.gpus)
		seats = append(seats, seat{m, q.gpus})
	}
	return seats
}

// bestFit returns the machine of a class with the least room that suffices, the
// first of several, that is not seated yet.
func (r *room) bestFit(q part, seated []seat) int32 {
	for free := int(q.gpus); free < len(r.bucket[q.class]); free++ {
		for w, word := range r.bucket[q.class][free] {
			for ; word != 0; word &= word - 1 {
				m := r.p.classes[q.class][w*64+bits.TrailingZeros64(word)]
				if !on(seated, m) {
					return m
				}
			}
		}
	}
	panic("auction: a choice that fits has no place")
}

func on(seats []seat, machine int32) bool {
	for _, s := range seats {
		if s.machine == machine {
			return true
		}
	}
	return false
}
