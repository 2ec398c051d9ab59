// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package onnx

import "slices"

// sequence is the content of a list of tensors, which exporters produce when the
// program splits a tensor in a loop. It is immutable, and not nil if it is known.
// The value of a sequence has the dimensions [0]: they are known, and it takes no
// memory besides its tensors.
type sequence []*Value

// sequence reports whether a value is a sequence whose tensors are known.
func (v *Value) sequence() bool { return v != nil && v.items != nil }

// setSequence makes the output a sequence. Copies of long lists count against the
// budget for constants, so that lists that grow one by one stay affordable.
func (c *call) setSequence(items []*Value) {
	if c.e.budget < int64(len(items)) || len(c.out) == 0 {
		return
	}
	c.e.budget -= int64(len(items))
	t := Undefined
	for _, v := range items {
		if v == nil {
			return
		}
		t = orType(t, v.Type)
	}
	c.set(0, t, []int64{0})
	c.out[0].items = append(sequence{}, items...)
}

// items returns the tensors of the sequence at the first input.
func (c *call) items() (sequence, bool) {
	if !c.has(0) || !c.in[0].sequence() {
		return nil, false
	}
	return c.in[0].items, true
}

// position returns the index in a list of n that input i gives; ok is false if it
// is unknown or out of range.
func (c *call) position(i, n int) (int, bool) {
	d := c.data(i)
	if d == nil || len(d.ints) != 1 || !d.whole() {
		return 0, false
	}
	return axis(d.ints[0], n)
}

func sequenceOf(c *call) { c.setSequence(c.in) }

func sequenceInsert(c *call) {
	items, ok := c.items()
	if !ok || !c.has(1) || c.e.budget < int64(len(items)) {
		return
	}
	at := len(items)
	if c.has(2) {
		if at, ok = c.position(2, len(items)+1); !ok {
			return
		}
	}
	c.setSequence(slices.Insert(slices.Clone(items), at, c.in[1]))
}

func sequenceErase(c *call) {
	items, ok := c.items()
	if !ok || len(items) == 0 || c.e.budget < int64(len(items)) {
		return
	}
	at := len(items) - 1
	if c.has(1) {
		if at, ok = c.position(1, len(items)); !ok {
			return
		}
	}
	c.setSequence(slices.Delete(slices.Clone(items), at, at+1))
}

// sequenceAt returns the tensor at a position, or what all tensors of the list have
// in common.
func sequenceAt(c *call) {
	items, ok := c.items()
	if !ok || len(items) == 0 || len(c.out) == 0 {
		return
	}
	if at, ok := c.position(1, len(items)); ok {
		c.set(0, items[at].Type, clone(items[at].Dims))
		c.out[0].data = items[at].data
		return
	}
	dims := items[0].Dims
	for _, v := range items[1:] {
		dims = agree(dims, v.Dims)
	}
	c.set(0, items[0].Type, clone(dims))
}

func sequenceLength(c *call) {
	c.set(0, Int64, []int64{})
	if items, ok := c.items(); ok && len(c.out) > 0 {
		c.out[0].data = &constant{ints: []int64{int64(len(items))}}
	}
}

// maxParts is the maximum number of parts of a split.
const maxParts = 1 << 12

// splitToSequence splits an axis into parts of given sizes or of one given size;
// without a size, into slices, whose axis is dropped unless it is kept.
func splitToSequence(c *call) {
	in := c.dims(0)
	a, ok := axis(c.Int("axis", 0), len(in))
	if !ok || in[a] < 0 || in[a] > maxParts {
		return
	}
	var sizes []int64
	switch d := c.data(1); {
	case !c.has(1):
		sizes = slices.Repeat([]int64{1}, int(in[a]))
	case d == nil || !d.whole() || len(d.ints) == 0:
		return
	case len(c.dims(1)) == 1:
		if sizes = d.ints; len(sizes) > maxParts {
			return
		}
	case d.ints[0] > 0:
		for left := in[a]; left > 0; left -= d.ints[0] {
			sizes = append(sizes, min(left, d.ints[0]))
		}
	}
	drop := !c.has(1) && c.Int("keepdims", 1) == 0
	var items []*Value
	for _, n := range sizes {
		part := clone(in)
		part[a] = max(n, 0)
		if drop {
			part = slices.Delete(part, a, a+1)
		}
		items = append(items, &Value{Type: c.typ(0), Dims: part, Producer: -1})
	}
	c.setSequence(items)
}

// concatFromSequence joins the tensors along an axis, or along a new one.
func concatFromSequence(c *call) {
	items, ok := c.items()
	if !ok || len(items) == 0 {
		return
	}
	if c.Int("new_axis", 0) == 0 {
		joined := *c
		joined.in = items
		concat(&joined)
		return
	}
	dims := items[0].Dims
	for _, v := range items[1:] {
		dims = agree(dims, v.Dims)
	}
	if dims == nil {
		return
	}
	if a, ok := axis(c.Int("axis", 0), len(dims)+1); ok {
		c.set(0, items[0].Type, slices.Insert(clone(dims), a, int64(len(items))))
	}
}

// maxUnrolled bounds the trips of a loop that is inferred trip by trip.
const maxUnrolled = 16

// unrolled infers a loop that fills a sequence trip by trip: each trip adds another
// tensor, and often cuts it where the last one ended.
func (e *engine) unrolled(c *call, body *Graph, trips int64) error {
	e.unrolling = true
	defer func() { e.unrolling = false }()
	carried := append([]*Value{}, c.in[2:]...)
	var scanned []*Value
	for trip := range trips {
		args := append([]*Value{
			{Type: Int64, Dims: []int64{}, data: &constant{ints: []int64{trip}}},
			{Type: Bool, Dims: []int64{}},
		}, carried...)
		outs, err := e.body(c, body, args)
		if err != nil {
			return err
		}
		c.extra = append(c.extra, outs...)
		scanned = nil
		for i, id := range outs {
			switch {
			case i == 0: // the condition
			case i-1 < len(carried):
				carried[i-1] = e.value(id)
			default:
				scanned = append(scanned, e.value(id))
			}
		}
	}
	for i := range c.out {
		switch v := (*Value)(nil); {
		case i < len(carried):
			if v = carried[i]; v != nil {
				c.set(i, v.Type, v.Dims)
				c.out[i].data, c.out[i].items = v.data, v.items
			}
		case i-len(carried) < len(scanned):
			if v = scanned[i-len(carried)]; v != nil && v.Dims != nil {
				c.set(i, v.Type, append([]int64{trips}, v.Dims...))
			}
		}
	}
	return nil
}
