// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package onnx

import "math"

func concat(c *call) {
	var out []int64
	for i := range c.in {
		dims := c.dims(i)
		if dims == nil {
			return
		}
		a, ok := axis(c.Int("axis", 1), len(dims))
		if !ok || out != nil && len(out) != len(dims) {
			c.misfit("ranks or axis do not fit")
			return
		}
		if out == nil {
			out = clone(dims)
			continue
		}
		for k, n := range dims {
			switch {
			case k != a:
				if out[k] = c.e.reconcile(out[k], n); out[k] == -2 {
					c.misfit("shapes differ off the axis")
					return
				}
			case n < 0 || out[k] < 0:
				out[k] = -1
			default:
				out[k] = min(out[k]+n, maxElements+1)
			}
		}
	}
	c.set(0, c.typ(0), out)
}

// parts returns the sizes into which a Split divides its axis.
func (c *call) parts(size int64) ([]int64, bool) {
	sizes, given, ok := c.list("split", 1)
	if !ok {
		return nil, false
	}
	count := int64(len(c.out))
	if given && int64(len(sizes)) == count {
		total := int64(0)
		for _, n := range sizes {
			if n < 0 || n > maxElements {
				return nil, false
			}
			total += n
		}
		if c.e.grown(total, size) && total != size {
			// The split was recorded along the batch.
			for i := range sizes {
				sizes = clone(sizes)
				sizes[i] = sizes[i] * c.e.bound.batch / c.e.bound.recorded
			}
		}
		return sizes, true
	}
	if size < 0 || count == 0 {
		return nil, false
	}
	each, out := (size+count-1)/count, make([]int64, count)
	for i := range out {
		out[i] = max(min(each, size-each*int64(i)), 0)
	}
	return out, true
}

func split(c *call) {
	in := c.dims(0)
	a, ok := axis(c.Int("axis", 0), len(in))
	if !ok {
		return
	}
	sizes, known := c.parts(in[a])
	for i := range c.out {
		out := clone(in)
		out[a] = -1
		if known {
			out[a] = sizes[i]
		}
		c.set(i, c.typ(0), out)
	}
}

func expand(c *call) {
	in, shape := c.dims(0), c.data(1)
	if in == nil || shape == nil || shape.ints == nil || len(shape.ints) > maxRank {
		return
	}
	out := c.e.broadcast(in, shape.asDims())
	if out == nil {
		c.misfit("the shape does not broadcast")
	}
	c.set(0, c.typ(0), out)
}

func tile(c *call) {
	in, repeats := c.dims(0), c.data(1)
	if in == nil || repeats == nil || len(repeats.ints) != len(in) {
		if in != nil {
			c.set(0, c.typ(0), unknownDims(len(in)))
		}
		return
	}
	out := clone(in)
	for i, n := range repeats.asDims() {
		out[i] = times(out[i], n)
	}
	c.set(0, c.typ(0), out)
}

func pad(c *call) {
	in := c.dims(0)
	pads, given, ok := c.list("pads", 1)
	if !given {
		pads, given, ok = c.list("paddings", -1)
	}
	axes, someAxes, okAxes := c.list("axes", 3)
	if in == nil || !given {
		return
	}
	if !someAxes {
		for i := range in {
			axes = append(axes, int64(i))
		}
	}
	out := clone(in)
	if !ok || !okAxes || len(pads) != 2*len(axes) {
		c.set(0, c.typ(0), unknownDims(len(in)))
		return
	}
	for k, a := range axes {
		i, ok := axis(a, len(in))
		before, after := pads[k], pads[len(axes)+k]
		if !ok || !inRange(before) || !inRange(after) {
			return
		}
		if out[i] >= 0 {
			out[i] = max(out[i]+before+after, 0)
		}
	}
	c.set(0, c.typ(0), out)
}

// resize takes scales or sizes. Upsample has scales only, as an attribute before
// version 9; Resize 10 has them as its second input, later versions have (roi,
// scales, sizes).
func resize(c *call) {
	in := c.dims(0)
	if in == nil {
		return
	}
	var scales, sizes *constant
	switch {
	case c.Attr("scales") != nil:
		scales = &constant{}
		for _, f := range c.Attr("scales").Floats {
			scales.floats = append(scales.floats, float64(f))
		}
	case len(c.in) == 2:
		scales = c.data(1)
	default:
		scales, sizes = c.data(2), c.data(3)
	}
	axes := c.Ints("axes")
	if axes == nil {
		for i := range in {
			axes = append(axes, int64(i))
		}
	}
	out := clone(in)
	for k, a := range axes {
		i, ok := axis(a, len(in))
		if !ok {
			return
		}
		switch {
		case sizes != nil && len(sizes.ints) == len(axes):
			if n := sizes.ints[k]; i != 0 || !c.e.grown(n, in[0]) {
				out[i] = max(n, -1)
			}
		case scales != nil && len(scales.floats) == len(axes):
			if out[i] >= 0 {
				out[i] = scaledSize(out[i], scales.floats[k])
			}
		default:
			out[i] = -1
		}
	}
	if sizes != nil && len(sizes.ints) == len(axes) {
		keepRatio(c, in, out, axes)
	}
	c.set(0, c.typ(0), out)
}

// scaledSize is floor(size*scale), clamped to the allowed range.
func scaledSize(size int64, scale float64) int64 {
	n := math.Floor(float64(size)*scale + 1e-6)
	if !(n >= 0 && n <= maxElements) {
		return maxElements + 1
	}
	return int64(n)
}

// keepRatio applies Resize's keep_aspect_ratio_policy: one scale for all axes, the
// smallest or largest that the sizes require.
func keepRatio(c *call, in, out, axes []int64) {
	policy := c.Text("keep_aspect_ratio_policy")
	if policy == "" || policy == "stretch" {
		return
	}
	scale := 0.0
	for _, a := range axes {
		i, _ := axis(a, len(in))
		if in[i] <= 0 || out[i] < 0 {
			return
		}
		s := float64(out[i]) / float64(in[i])
		if scale == 0 || policy == "not_larger" && s < scale || policy == "not_smaller" && s > scale {
			scale = s
		}
	}
	for _, a := range axes {
		i, _ := axis(a, len(in))
		out[i] = scaledSize(in[i], scale+0.5/float64(in[i])) // rounded
	}
}

func depthToSpace(c *call) {
	in, b := c.dims(0), c.Int("blocksize", 0)
	if len(in) != 4 || b <= 0 || b > maxElements {
		return
	}
	out := []int64{in[0], -1, times(in[2], b), times(in[3], b)}
	if in[1] >= 0 {
		out[1] = in[1] / b / b
	}
	c.set(0, c.typ(0), out)
}

func spaceToDepth(c *call) {
	in, b := c.dims(0), c.Int("blocksize", 0)
	if len(in) != 4 || b <= 0 || b > maxElements {
		return
	}
	out := []int64{in[0], times(times(in[1], b), b), -1, -1}
	for i := 2; i < 4; i++ {
		if in[i] >= 0 {
			out[i] = in[i] / b
		}
	}
	c.set(0, c.typ(0), out)
}

func centerCropPad(c *call) {
	in, shape := c.dims(0), c.data(1)
	if in == nil || shape == nil {
		return
	}
	axes, out := c.Ints("axes"), clone(in)
	for k, n := range shape.asDims() {
		a := int64(k)
		if axes != nil && k < len(axes) {
			a = axes[k]
		}
		if i, ok := axis(a, len(in)); ok {
			out[i] = n
		}
	}
	c.set(0, c.typ(0), out)
}
