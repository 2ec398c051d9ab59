// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package onnx

import "fmt"

// binding gives the inputs of a model their sizes.
type binding struct {
	batch    int64 // in force
	recorded int64 // in the file; 0 when open
	symbols  map[string]int64
	inputs   map[string][]int64
}

// bindInputs finds the batch dimension and sizes every input.
//
// The batch is the first dimension of the first input that has a rank. It is
// carried over to the first dimension of every other input that records the
// same number or an open size, and to every dimension of the same symbol.
func bindInputs(g *Graph, o Options) (*binding, error) {
	b := &binding{symbols: map[string]int64{}, inputs: map[string][]int64{}}
	fed := fedInputs(g)
	first := Dim{Size: -1}
	for _, in := range fed {
		if len(in.Shape) > 0 {
			first = in.Shape[0]
			break
		}
	}
	if first.Size > 0 {
		b.recorded = first.Size
	}
	b.batch = max(o.Batch, 0)
	if b.batch == 0 {
		b.batch = max(b.recorded, 1)
		if n := o.Dims[first.Symbol]; first.Symbol != "" && n > 0 {
			b.batch = n
		}
	}
	for symbol, n := range o.Dims {
		b.symbols[symbol] = n
	}
	if first.Symbol != "" {
		b.symbols[first.Symbol] = b.batch
	}
	for _, in := range fed {
		dims := b.recordedDims(in.Shape)
		for i := range dims {
			isBatch := i == 0 && (in.Shape[i] == first || in.Shape[i].Size <= 0 && (in.Shape[i].Symbol == "" || first.Symbol != ""))
			switch named := o.Dims[fmt.Sprintf("%s:%d", in.Name, i)]; {
			case named > 0:
				dims[i] = named
			case isBatch && b.symbols[in.Shape[i].Symbol] == 0:
				dims[i] = b.batch
			case dims[i] < 0 && o.Assume > 0:
				dims[i] = o.Assume
			}
		}
		known := make([]int64, 0, len(dims))
		for _, n := range dims {
			known = append(known, max(n, 0))
		}
		if _, err := countOf(known); err != nil {
			return nil, fmt.Errorf("input %q: %w", in.Name, err)
		}
		b.inputs[in.Name] = dims
	}
	return b, nil
}

// fedInputs returns the inputs that are not initializers.
func fedInputs(g *Graph) []ValueInfo {
	stored := map[string]bool{}
	for _, t := range g.Initializers {
		stored[t.Name] = true
	}
	var fed []ValueInfo
	for _, in := range g.Inputs {
		if !stored[in.Name] {
			fed = append(fed, in)
		}
	}
	return fed
}

// recordedDims turns a recorded shape into dimensions, symbols resolved where
// they have a size.
func (b *binding) recordedDims(shape []Dim) []int64 {
	if shape == nil {
		return nil
	}
	dims := make([]int64, len(shape))
	for i, d := range shape {
		dims[i] = d.Size
		if d.Symbol != "" {
			dims[i] = -1
			if n := b.symbols[d.Symbol]; n > 0 {
				dims[i] = n
			}
		}
	}
	return dims
}

// scaled carries dimensions known at the recorded batch over to the batch in
// force: the first dimension that is a multiple of the recorded batch grows
// with it, provided that something the node reads has grown.
func (e *engine) scaled(base []int64, c *call) []int64 {
	grew := false
	for _, v := range c.in {
		grew = grew || v != nil && e.growth(v) >= 0
	}
	out := append([]int64{}, base...)
	if grew && len(out) > 0 && out[0] > 0 && out[0]%e.bound.recorded == 0 {
		out[0] = out[0] / e.bound.recorded * e.bound.batch
	}
	return out
}

// growth returns the axis of a value that has grown from the recorded batch
// to the one in force, -1 when none has.
func (e *engine) growth(v *Value) int {
	base := e.base[v.Name]
	if base == nil || len(base) != len(v.Dims) {
		return -1
	}
	for i, n := range v.Dims {
		if n != base[i] && e.grown(base[i], n) {
			return i
		}
	}
	return -1
}

// grown reports whether a size of the recorded batch became another one in
// proportion to the batch.
func (e *engine) grown(from, to int64) bool {
	return e.base != nil && from*e.bound.batch == to*e.bound.recorded
}

// reconcile picks one of two sizes that ought to be the same. Where one is
// the other grown with the batch, a constant was recorded at the old batch
// and the grown one holds; -2 says that they do not fit.
func (e *engine) reconcile(a, b int64) int64 {
	switch {
	case a == b, b < 0:
		return a
	case a < 0:
		return b
	case e.grown(a, b):
		return b
	case e.grown(b, a):
		return a
	}
	return -2
}

// rescale repairs the target of a Reshape in which an exporter has frozen the
// recorded batch: it finds the target axis that holds the input's grown axis
// and lets it grow. It returns nil when the target cannot be meant that way.
func (e *engine) rescale(in *Value, target []int64) []int64 {
	grown := e.growth(in)
	if grown < 0 {
		return nil
	}
	base := e.base[in.Name]
	best := e.counterpart(target, product(base[:grown]), base[grown])
	if best < 0 {
		return nil
	}
	out := clone(target)
	scaled := times(out[best], e.bound.batch)
	if scaled%e.bound.recorded != 0 {
		return nil
	}
	out[best] = scaled / e.bound.recorded
	return out
}

// counterpart returns the axis of a target that holds an axis of the input,
// of some size and with the product before ahead of it; -1 for none. Elements
// keep their order, so an axis of the target holds part of it if it covers
// part of the same range of products. Of several, one that is just the
// recorded batch is taken (sequence and batch that were one axis), then one
// that the batch divides, then the first.
func (e *engine) counterpart(target []int64, before, size int64) int {
	end, divisible, first := times(before, size), -1, -1
	ahead := int64(1)
	for j, n := range target {
		if n < 0 {
			break
		}
		next := times(ahead, n)
		if n == e.bound.recorded && ahead >= before && next <= end {
			return j
		}
		// A batch of one may stand anywhere between two axes. In a matrix it
		// goes with the rows.
		if size == 1 && len(target) == 2 && j == 0 && next == before {
			return j
		}
		if ahead < max(end, before+1) && next > before {
			if first < 0 {
				first = j
			}
			if divisible < 0 && n%e.bound.recorded == 0 {
				divisible = j
			}
		}
		ahead = next
	}
	if divisible >= 0 {
		return divisible
	}
	return first
}
