// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package onnx

// dft transforms one axis of [..., 1 or 2] (real, or real and imaginary)
// into [..., 2]. The axis is an attribute before operator set 20.
func dft(c *call) {
	in := c.dims(0)
	if len(in) < 2 {
		return
	}
	at := c.Int("axis", 1)
	if c.e.shapes.Model.Opset() >= 20 && c.Attr("axis") == nil {
		at = -2
		if c.has(2) {
			d := c.data(2)
			if d == nil || len(d.ints) != 1 {
				return
			}
			at = d.ints[0]
		}
	}
	a, ok := axis(at, len(in))
	if !ok || a == len(in)-1 {
		c.misfit("the axis does not fit")
		return
	}
	out := clone(in)
	if c.has(1) {
		out[a] = c.size(1)
	}
	oneSided, inverse := c.Int("onesided", 0) != 0, c.Int("inverse", 0) != 0
	out[len(out)-1] = 2
	switch {
	case oneSided && inverse:
		out[len(out)-1] = 1
		if !c.has(1) && out[a] > 0 {
			out[a] = 2 * (out[a] - 1)
		}
	case oneSided && out[a] >= 0:
		out[a] = out[a]/2 + 1
	}
	c.set(0, c.typ(0), out)
}

// stft transforms [batch, samples] or [batch, samples, 1 or 2] by frames into
// [batch, frames, bins, 2].
func stft(c *call) {
	in := c.dims(0)
	if len(in) != 2 && len(in) != 3 {
		return
	}
	length := int64(-1)
	switch window := c.dims(2); {
	case c.has(3):
		length = c.size(3)
	case len(window) == 1:
		length = window[0]
	}
	step := c.size(1)
	out := []int64{in[0], -1, length, 2}
	if in[1] >= 0 && step > 0 && length > 0 {
		if in[1] < length {
			c.misfit("the signal is shorter than a frame")
			return
		}
		out[1] = (in[1]-length)/step + 1
	}
	if c.Int("onesided", 1) != 0 && length >= 0 {
		out[2] = length/2 + 1
	}
	c.set(0, c.typ(0), out)
}

// window has the length that its input gives.
func window(c *call) {
	t := c.Int("output_datatype", int64(Float))
	if t <= 0 || t >= int64(typeCount) {
		t = int64(Float)
	}
	c.set(0, DataType(t), []int64{c.size(0)})
}

// size returns an input that is one number; -1 if it is unknown or not a size.
func (c *call) size(i int) int64 {
	if d := c.data(i); d != nil && len(d.ints) == 1 && d.whole() && d.ints[0] >= 0 && d.ints[0] <= maxElements {
		return d.ints[0]
	}
	return -1
}
