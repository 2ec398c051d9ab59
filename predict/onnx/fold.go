// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package onnx

import (
	"math"
	"strings"
)

// fold computes the elements of a node's first output (or of all outputs)
// where those of its inputs are known. It runs after the rule, so the
// dimensions are set; it leaves large results alone.
type fold func(*call)

// folds returns the fold of every operator that shape computations use.
func folds() map[string]fold {
	table := map[string]fold{
		"Shape": foldShape, "Size": foldSize, "ConstantOfShape": foldFill, "Cast": foldCast, "Gather": foldGather,
		"Concat": foldConcat, "Slice": foldSlice, "Transpose": foldTranspose, "Expand": foldExpand,
		"Where": foldWhere, "Range": foldRange, "Split": foldSplit, "Tile": foldTile,
		"Clip": foldClip,
	}
	for _, name := range strings.Fields("Identity Reshape Flatten Squeeze Unsqueeze") {
		table[name] = foldCopy
	}
	for _, name := range strings.Fields("Add Sub Mul Div Mod Pow Min Max And Or Equal Less LessOrEqual Greater GreaterOrEqual") {
		table[name] = foldBinary
	}
	for _, name := range strings.Fields("Neg Abs Floor Ceil Round Sqrt Not Sign Reciprocal") {
		table[name] = foldUnary
	}
	for _, name := range strings.Fields("ReduceProd ReduceSum ReduceMax ReduceMin") {
		table[name] = foldReduce
	}
	return table
}

// foldable reports whether an output is small enough to compute and all
// inputs from the first on are known.
func (c *call) foldable(inputs ...int) bool {
	for _, i := range inputs {
		if c.data(i) == nil {
			return false
		}
	}
	return c.out[0].Known() && c.out[0].Elements() <= smallCount
}

func foldShape(c *call) {
	in := c.dims(0)
	if in == nil {
		return
	}
	start, end := c.shapeRange(len(in))
	ints := make([]int64, 0, end-start)
	for _, n := range in[start:end] {
		if n < 0 {
			n = unknownInt
		}
		ints = append(ints, n)
	}
	c.out[0].data = &constant{ints: ints}
}

func foldSize(c *call) {
	if c.has(0) && c.in[0].Known() {
		c.out[0].data = &constant{ints: []int64{c.in[0].Elements()}}
	}
}

func foldFill(c *call) {
	if !c.foldable(0) {
		return
	}
	value := &constant{floats: []float64{0}}
	if a := c.Attr("value"); a != nil && a.Tensor != nil {
		value = constantOf(a.Tensor)
	}
	if value != nil && value.count() == 1 {
		c.out[0].data = value.pick(make([]int, c.out[0].Elements()))
	}
}

func foldCopy(c *call) {
	if c.foldable(0) {
		c.out[0].data = c.data(0)
	}
}

func foldCast(c *call) {
	if !c.foldable(0) {
		return
	}
	from, to := c.data(0), c.out[0].Type
	switch {
	case to.integral() && from.ints != nil && to != Bool, to.Differentiable() && from.floats != nil:
		c.out[0].data = from
	case to.integral():
		ints := make([]int64, from.count())
		for i := range ints {
			switch f := from.float(i); {
			case math.IsNaN(f):
				ints[i] = unknownInt
			case to == Bool:
				ints[i] = boolInt(f != 0)
			default:
				ints[i] = int64(math.Trunc(max(-1<<62, min(f, 1<<62))))
			}
		}
		c.out[0].data = &constant{ints: ints}
	case to.Differentiable():
		floats := make([]float64, from.count())
		for i := range floats {
			floats[i] = from.float(i)
		}
		c.out[0].data = &constant{floats: floats}
	}
}

func foldGather(c *call) {
	in := c.dims(0)
	a, ok := axis(c.Int("axis", 0), len(in))
	if !ok || !c.foldable(0, 1) || c.data(1).ints == nil {
		return
	}
	own := strides(in)
	inner := walk(in[a+1:], own[a+1:], 0)
	var indices []int
	for _, outer := range walk(in[:a], own[:a], 0) {
		for _, n := range c.data(1).ints {
			i, ok := axis(n, int(in[a]))
			if !ok {
				return
			}
			for _, k := range inner {
				indices = append(indices, outer+i*own[a]+k)
			}
		}
	}
	c.out[0].data = c.data(0).pick(indices)
}

func foldConcat(c *call) {
	for i := range c.in {
		if c.data(i) == nil || (c.data(i).ints == nil) != (c.data(0).ints == nil) {
			return
		}
	}
	a, ok := axis(c.Int("axis", 1), len(c.dims(0)))
	if !ok || !c.foldable() {
		return
	}
	out := &constant{}
	rows := product(c.dims(0)[:a])
	for row := range rows {
		for i := range c.in {
			d, width := c.data(i), product(c.dims(i)[a:])
			if (row+1)*width > int64(d.count()) {
				return
			}
			if d.ints != nil {
				out.ints = append(nonNil(out.ints), d.ints[row*width:(row+1)*width]...)
			} else {
				out.floats = append(nonNil(out.floats), d.floats[row*width:(row+1)*width]...)
			}
		}
	}
	c.out[0].data = out
}

func foldSlice(c *call) {
	cuts, ok := c.cuts()
	if !ok || !c.foldable(0) {
		return
	}
	own, base := strides(c.dims(0)), 0
	for i, k := range cuts {
		base += int(k.start) * own[i]
		own[i] *= int(clamp(k.step, -maxElements, maxElements))
	}
	if c.out[0].Elements() > 0 {
		c.out[0].data = c.data(0).pick(walk(c.out[0].Dims, own, base))
	} else {
		c.out[0].data = c.data(0).pick(nil)
	}
}

func foldTranspose(c *call) {
	order := permutation(c.Ints("perm"), len(c.dims(0)))
	if order == nil || !c.foldable(0) {
		return
	}
	own := strides(c.dims(0))
	steps := make([]int, len(own))
	for i, p := range order {
		steps[i] = own[p]
	}
	c.out[0].data = c.data(0).pick(walk(c.out[0].Dims, steps, 0))
}

func foldExpand(c *call) {
	if c.foldable(0) {
		c.out[0].data = c.data(0).stretch(c.dims(0), c.out[0].Dims)
	}
}

// foldTile handles lists, the only tiles of shape computations.
func foldTile(c *call) {
	if !c.foldable(0) || len(c.out[0].Dims) != 1 || c.data(0).count() == 0 {
		return
	}
	indices := make([]int, c.out[0].Elements())
	for i := range indices {
		indices[i] = i % c.data(0).count()
	}
	c.out[0].data = c.data(0).pick(indices)
}

func foldRange(c *call) {
	if !c.foldable(0, 2) {
		return
	}
	start, delta := c.data(0), c.data(2)
	out := &constant{}
	for i := range c.out[0].Elements() {
		if start.ints != nil && delta.ints != nil {
			out.ints = append(nonNil(out.ints), start.ints[0]+i*delta.ints[0])
		} else {
			out.floats = append(nonNil(out.floats), start.float(0)+float64(i)*delta.float(0))
		}
	}
	c.out[0].data = out
}

// foldSplit handles lists.
func foldSplit(c *call) {
	d := c.data(0)
	if d == nil || len(c.dims(0)) != 1 {
		return
	}
	at := 0
	for _, v := range c.out {
		if !v.Known() || at+int(v.Elements()) > d.count() {
			return
		}
		indices := make([]int, v.Elements())
		for i := range indices {
			indices[i] = at + i
		}
		v.data = d.pick(indices)
		at += len(indices)
	}
}
