// Copyright The Fairway Authors
// SPDX-License-Identifier: Apache-2.0

package onnx

// windows describes how a convolution or a pooling slides over the spatial
// dimensions of its input.
type windows struct {
	kernel, strides, dilations, pads []int64
	autoPad                          string
	ceil                             bool
}

// windowsOf reads the attributes common to convolutions and poolings, with defaults
// filled in for a number of spatial dimensions.
func windowsOf(n *Node, kernel []int64, spatial int) (w windows, ok bool) {
	w = windows{kernel: kernel, strides: n.Ints("strides"), dilations: n.Ints("dilations"), pads: n.Ints("pads"),
		autoPad: n.Text("auto_pad"), ceil: n.Int("ceil_mode", 0) != 0}
	ones := make([]int64, spatial)
	for i := range ones {
		ones[i] = 1
	}
	if w.strides == nil {
		w.strides = ones
	}
	if w.dilations == nil {
		w.dilations = ones
	}
	if w.pads == nil {
		w.pads = make([]int64, 2*spatial)
	}
	ok = len(w.kernel) == spatial && len(w.strides) == spatial && len(w.dilations) == spatial && len(w.pads) == 2*spatial
	for i := 0; ok && i < spatial; i++ {
		ok = w.strides[i] > 0 && w.dilations[i] > 0 && max(w.strides[i], w.dilations[i], w.kernel[i]) <= maxElements &&
			inRange(w.pads[i]) && inRange(w.pads[spatial+i])
	}
	return w, ok
}

// inRange keeps sums of a few sizes from overflowing.
func inRange(n int64) bool { return n >= -maxElements && n <= maxElements }

// slide returns the number of windows along spatial dimension i.
func (w *windows) slide(i int, size int64) int64 {
	if size < 0 || w.kernel[i] < 0 {
		return -1
	}
	reach := (w.kernel[i]-1)*min(w.dilations[i], maxElements/max(w.kernel[i], 1)) + 1
	stride, before, after := w.strides[i], w.pads[i], w.pads[len(w.kernel)+i]
	switch w.autoPad {
	case "SAME_UPPER", "SAME_LOWER":
		return (size + stride - 1) / stride
	case "VALID":
		before, after = 0, 0
	}
	room := size + before + after - reach
	if room < 0 {
		return -2
	}
	n := room/stride + 1
	if w.ceil && room%stride != 0 {
		// A partial last window counts if it starts inside the input or the padding
		// before it.
		if n*stride < size+before {
			n++
		}
	}
	return n
}

// conv: input [N, C, spatial...], weight [M, C/group, kernel...].
func conv(c *call) {
	in, weight := c.dims(0), c.dims(1)
	t := c.typ(0)
	switch c.Op {
	case "QLinearConv":
		weight, t = c.dims(3), c.typ(7)
	case "ConvInteger":
		t = Int32
	}
	if len(in) < 3 || len(weight) != len(in) {
		return
	}
	w, ok := windowsOf(c.Node, weight[2:], len(in)-2)
	if !ok {
		c.misfit("attributes do not fit the shapes")
		return
	}
	out := []int64{in[0], weight[0]}
	for i, size := range in[2:] {
		n := w.slide(i, size)
		if n == -2 {
			c.misfit("the kernel is larger than the input")
			return
		}
		out = append(out, n)
	}
	c.set(0, t, out)
}

// convTranspose: weight [C, M/group, kernel...].
func convTranspose(c *call) {
	in, weight := c.dims(0), c.dims(1)
	if len(in) < 3 || len(weight) != len(in) {
		return
	}
	spatial := len(in) - 2
	w, ok := windowsOf(c.Node, weight[2:], spatial)
	extra, shape := c.Ints("output_padding"), c.Ints("output_shape")
	if extra == nil {
		extra = make([]int64, spatial)
	}
	if !ok || len(extra) != spatial {
		c.misfit("attributes do not fit the shapes")
		return
	}
	out := []int64{in[0], times(weight[1], c.Int("group", 1))}
	for i, size := range in[2:] {
		n := int64(-1)
		reach := times(w.kernel[i]-1, w.dilations[i]) + 1
		switch {
		case len(shape) >= spatial:
			n = shape[len(shape)-spatial+i]
		case size < 0:
		case w.autoPad == "SAME_UPPER" || w.autoPad == "SAME_LOWER":
			n = times(size, w.strides[i])
		default:
			n = times(w.strides[i], size-1) + extra[i] + reach - w.pads[i] - w.pads[spatial+i]
		}
		if n < -1 || !inRange(extra[i]) {
			c.misfit("the padding is larger than the output")
			return
		}
		out = append(out, n)
	}
	c.set(0, c.typ(0), out)
}

// pool keeps the channels; MaxPool may also return the indices.
func pool(c *call) {
	in, kernel := c.dims(0), c.Ints("kernel_shape")
	if len(in) < 3 {
		return
	}
	w, ok := windowsOf(c.Node, kernel, len(in)-2)
	if !ok {
		c.misfit("attributes do not fit the shapes")
		return
	}
	out := []int64{in[0], in[1]}
	for i, size := range in[2:] {
		n := w.slide(i, size)
		if n == -2 {
			c.misfit("the kernel is larger than the input")
			return
		}
		out = append(out, n)
	}
	c.set(0, c.typ(0), out)
	c.set(1, Int64, clone(out))
}

// poolAll returns one element per channel.
func poolAll(c *call) {
	out := clone(c.dims(0))
	for i := 2; i < len(out); i++ {
		out[i] = 1
	}
	c.set(0, c.typ(0), out)
}

// maxUnpool inverts MaxPool; the third input may give the shape.
func maxUnpool(c *call) {
	in := c.dims(0)
	if c.has(2) {
		if d := c.data(2); d != nil {
			c.set(0, c.typ(0), d.asDims())
		}
		return
	}
	if len(in) < 3 {
		return
	}
	w, ok := windowsOf(c.Node, c.Ints("kernel_shape"), len(in)-2)
	if !ok {
		return
	}
	out := clone(in[:2])
	for i, size := range in[2:] {
		n := int64(-1)
		if size >= 0 {
			n = max(times(size-1, w.strides[i])+w.kernel[i]-w.pads[i]-w.pads[len(w.kernel)+i], 0)
		}
		out = append(out, n)
	}
	c.set(0, c.typ(0), out)
}

// roiPool: input [N, C, H, W], regions [R, 5].
func roiPool(c *call) {
	if in, rois, size := c.dims(0), c.dims(1), c.Ints("pooled_shape"); len(in) == 4 && len(rois) == 2 && len(size) == 2 {
		c.set(0, c.typ(0), []int64{rois[0], in[1], size[0], size[1]})
	}
}

func roiAlign(c *call) {
	if in, rois := c.dims(0), c.dims(1); len(in) == 4 && len(rois) == 2 {
		c.set(0, c.typ(0), []int64{rois[0], in[1], c.Int("output_height", 1), c.Int("output_width", 1)})
	}
}

// gridSample: input [N, C, ...], grid [N, spatial..., rank-2].
func gridSample(c *call) {
	in, grid := c.dims(0), c.dims(1)
	if len(in) >= 3 && len(grid) == len(in) {
		c.set(0, c.typ(0), append([]int64{in[0], in[1]}, grid[1:len(grid)-1]...))
	}
}

// affineGrid: the size is [N, C, spatial...].
func affineGrid(c *call) {
	if d := c.data(1); d != nil && d.ints != nil && len(d.ints) >= 4 {
		size := d.asDims()
		c.set(0, c.typ(0), append(append([]int64{size[0]}, size[2:]...), int64(len(size)-2)))
	}
}

// col2im: input [N, C*prod(block), L], image shape and block shape.
func col2im(c *call) {
	in, image, block := c.dims(0), c.data(1), c.data(2)
	if len(in) != 3 || image == nil || block == nil || image.ints == nil || block.ints == nil {
		return
	}
	if cells := product(block.asDims()); cells > 0 && in[1] >= 0 {
		c.set(0, c.typ(0), append([]int64{in[0], in[1] / cells}, image.asDims()...))
	}
}
