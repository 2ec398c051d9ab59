// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package division

import "math"

// gpuPrice returns the lowest price of a GPU, of any type and place, at which the
// jobs want no more GPUs than there are.
func (m *menu) gpuPrice() float64 {
	if !m.priced {
		m.gpu, m.priced = m.findPrice(), true
	}
	return m.gpu
}

func (m *menu) findPrice() float64 {
	supply, dearest := 0, 0.0
	for _, n := range m.blank.left {
		supply += n
	}
	for _, options := range m.options {
		for _, o := range options {
			if o.gpus > 0 {
				dearest = max(dearest, (m.none-o.cost)/float64(o.gpus))
			}
		}
	}
	if dearest == 0 || m.wanted(0) <= supply {
		return 0
	}
	low, high := math.Log(dearest)-50, math.Log(dearest)+1
	demand := m.between(math.Exp(low), math.Exp(high))
	for range 40 {
		if middle := (low + high) / 2; demand.halve(math.Exp(middle), supply) {
			low = middle
		} else {
			high = middle
		}
	}
	return math.Exp(high)
}

// wanted returns how many GPUs the jobs would take at a price.
func (m *menu) wanted(price float64) int {
	n := 0
	for _, options := range m.options {
		n += int(wantedAt(options, price))
	}
	return n
}

// wantedAt returns how many GPUs a job would take at a price.
func wantedAt(options []option, price float64) int32 {
	gpus, least := int32(0), options[0].cost
	for _, o := range options {
		if c := o.cost + price*float64(o.gpus); c < least {
			gpus, least = o.gpus, c
		}
	}
	return gpus
}

// demandBetween is what the jobs would take at any price between two. A job takes no more at a
// higher price, so that one which takes the same at both is not asked again.
type demandBetween struct {
	decided int // GPUs of the jobs that take the same at both prices
	others  []undecided
}

// undecided is a job that takes a different number of GPUs at two prices.
type undecided struct {
	options           []option
	low, middle, high int32 // GPUs
}

func (m *menu) between(low, high float64) *demandBetween {
	d := &demandBetween{others: make([]undecided, 0, len(m.options))}
	for _, options := range m.options {
		d.add(undecided{options: options, low: wantedAt(options, low), high: wantedAt(options, high)})
	}
	return d
}

func (d *demandBetween) add(u undecided) {
	if u.low == u.high {
		d.decided += int(u.low)
	} else {
		d.others = append(d.others, u)
	}
}

// halve reports whether the jobs want more than the supply at a price between the two,
// which then takes the place of one of them.
func (d *demandBetween) halve(price float64, supply int) bool {
	wanted := d.decided
	for i := range d.others {
		u := &d.others[i]
		u.middle = wantedAt(u.options, price)
		wanted += int(u.middle)
	}
	old := d.others
	d.others = d.others[:0]
	for _, u := range old {
		if wanted > supply {
			u.low = u.middle
		} else {
			u.high = u.middle
		}
		d.add(u)
	}
	return wanted > supply
}
