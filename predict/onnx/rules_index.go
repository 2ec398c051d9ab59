// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package onnx

// gather replaces one axis by the dimensions of the indices.
func gather(c *call) {
	in, indices := c.dims(0), c.dims(1)
	a, ok := axis(c.Int("axis", 0), len(in))
	if !ok || indices == nil || len(in)+len(indices) > maxRank {
		return
	}
	out := clone(in[:a])
	out = append(append(out, indices...), in[a+1:]...)
	c.set(0, c.typ(0), nonNil(out))
}

func gatherElements(c *call) { c.set(0, c.typ(0), clone(c.dims(1))) }

// gatherND: the last dimension of the indices is the number of axes they index.
func gatherND(c *call) {
	in, indices := c.dims(0), c.dims(1)
	batch := c.Int("batch_dims", 0)
	if in == nil || len(indices) == 0 || batch < 0 || batch > maxRank {
		return
	}
	depth := indices[len(indices)-1]
	if depth < 0 || depth+batch > int64(len(in)) {
		return
	}
	out := append(clone(indices[:len(indices)-1]), in[batch+depth:]...)
	c.set(0, c.typ(0), nonNil(out))
}

// reduce drops the axes or sets them to 1.
func reduce(c *call) {
	in := c.dims(0)
	axes, given, ok := c.list("axes", 1)
	keep := c.Int("keepdims", 1) != 0
	if in == nil {
		return
	}
	if !ok {
		if keep {
			c.set(0, c.typ(0), unknownDims(len(in)))
		}
		return
	}
	if given && len(axes) == 0 {
		given = false
	}
	if !given && c.Int("noop_with_empty_axes", 0) != 0 {
		same(c)
		return
	}
	gone := make([]bool, len(in))
	for i := range gone {
		gone[i] = !given
	}
	for _, a := range axes {
		i, ok := axis(a, len(in))
		if !ok {
			c.misfit("axis out of range")
			return
		}
		gone[i] = true
	}
	c.set(0, c.typ(0), dropped(in, gone, keep))
}

// dropped removes axes, or sets them to 1.
func dropped(in []int64, gone []bool, keep bool) []int64 {
	out := []int64{}
	for i, n := range in {
		switch {
		case !gone[i]:
			out = append(out, n)
		case keep:
			out = append(out, 1)
		}
	}
	return out
}

func argMax(c *call) {
	in := c.dims(0)
	a, ok := axis(c.Int("axis", 0), len(in))
	if !ok {
		return
	}
	gone := make([]bool, len(in))
	gone[a] = true
	c.set(0, Int64, dropped(in, gone, c.Int("keepdims", 1) != 0))
}

func topK(c *call) {
	in := c.dims(0)
	a, ok := axis(c.Int("axis", -1), len(in))
	if !ok {
		return
	}
	k := c.Int("k", -1)
	if d := c.data(1); d != nil && len(d.ints) == 1 {
		k = d.ints[0]
	}
	out := clone(in)
	out[a] = max(k, -1)
	c.set(0, c.typ(0), out)
	c.set(1, Int64, clone(out))
}

func oneHot(c *call) {
	in := c.dims(0)
	if in == nil {
		return
	}
	depth := int64(-1)
	if v := c.data(1); v != nil && v.count() == 1 {
		depth = clamp(int64(v.float(0)), -1, maxElements+1)
	}
	a, ok := axis(c.Int("axis", -1), len(in)+1)
	if !ok {
		return
	}
	out := append(clone(in[:a]), depth)
	c.set(0, c.typ(2), append(out, in[a:]...))
}

// nonZero: the number of results depends on the data.
func nonZero(c *call) {
	if in := c.dims(0); in != nil {
		c.set(0, Int64, []int64{int64(len(in)), -1})
	}
}

func compress(c *call) {
	in := c.dims(0)
	if in == nil {
		return
	}
	if c.Attr("axis") == nil {
		c.set(0, c.typ(0), []int64{-1})
		return
	}
	if a, ok := axis(c.Int("axis", 0), len(in)); ok {
		out := clone(in)
		out[a] = -1
		c.set(0, c.typ(0), out)
	}
}

func nonMaxSuppression(c *call) { c.set(0, Int64, []int64{-1, 3}) }

func shapeOf(c *call) {
	in := c.dims(0)
	if in == nil {
		c.set(0, Int64, []int64{-1})
		return
	}
	start, end := c.shapeRange(len(in))
	c.set(0, Int64, []int64{int64(end - start)})
}

// shapeRange returns which dimensions a Shape selects.
func (c *call) shapeRange(rank int) (start, end int) {
	bound := func(n int64) int {
		if n < 0 {
			n += int64(rank)
		}
		return int(clamp(n, 0, int64(rank)))
	}
	start, end = bound(c.Int("start", 0)), bound(c.Int("end", int64(rank)))
	return start, max(start, end)
}

func sizeOf(c *call) { c.set(0, Int64, []int64{}) }

func constantNode(c *call) {
	if len(c.out) == 0 || len(c.Attrs) == 0 {
		return
	}
	v := c.out[0]
	switch a := &c.Attrs[0]; a.Name {
	case "value":
		if a.Tensor != nil {
			v.Type, v.Dims, v.data = a.Tensor.Type, nonNil(a.Tensor.Dims), constantOf(a.Tensor)
		}
	case "value_int":
		v.Type, v.Dims, v.data = Int64, []int64{}, &constant{ints: []int64{a.I}}
	case "value_ints":
		v.Type, v.Dims = Int64, []int64{int64(len(a.Ints))}
		if len(a.Ints) <= smallCount {
			v.data = &constant{ints: nonNil(a.Ints)}
		}
	case "value_float":
		v.Type, v.Dims, v.data = Float, []int64{}, &constant{floats: []float64{float64(a.F)}}
	case "value_floats":
		v.Type, v.Dims = Float, []int64{int64(len(a.Floats))}
	case "value_string":
		v.Type, v.Dims = String, []int64{}
	case "value_strings":
		v.Type, v.Dims = String, []int64{int64(len(a.Strings))}
	}
}

func constantOfShape(c *call) {
	t := Float
	if a := c.Attr("value"); a != nil && a.Tensor != nil {
		t = a.Tensor.Type
	}
	d := c.data(0)
	if d == nil || d.ints == nil || len(d.ints) > maxRank {
		if rank := c.dims(0); len(rank) == 1 && rank[0] >= 0 && rank[0] <= maxRank {
			c.set(0, t, unknownDims(int(rank[0])))
		}
		return
	}
	c.set(0, t, d.asDims())
}

func rangeNode(c *call) {
	start, limit, delta := c.data(0), c.data(1), c.data(2)
	n := int64(-1)
	if start.single() && limit.single() && delta.single() && delta.float(0) != 0 {
		steps := (limit.float(0) - start.float(0)) / delta.float(0)
		if steps < maxElements {
			n = max(int64(ceil(steps)), 0)
		} else {
			n = maxElements + 1
		}
	}
	c.set(0, c.typ(0), []int64{n})
}
